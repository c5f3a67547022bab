"""Attempts to be promoted without having earned it: none moves a verdict the wrong way.

Each runs against a real store whose policy enforces; the attacker is the agent, which holds the
role `runtime`, unless a test says otherwise.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.embedded.asking import Office
from tests.embedded.documents import (
    NOTES,
    SHELL,
    closed,
    decided,
    event,
    excluded,
    numbered,
    played,
    step,
    undone,
)
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.decisions import Action, ReasonCode
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.facts import Stamp
from trustfold_schemas.instants import DAY, HOUR, MINUTE
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore, Receipt

AGENT = Stamp("runtime", "agent", ("",))


@pytest.fixture
def office(store: EmbeddedStore, clock: ManualClock) -> Office:
    """Writes can be had back at a cost: they need two grants; nothing else is declared."""
    made = Office(store, clock)
    made.rules("reversible_with_cost")
    return made


def as_agent(office: Office, *bodies: bytes) -> list[Receipt]:
    """What became of documents that the agent itself published."""
    made: list[Receipt] = []
    office.later()
    office.store.ingest(numbered(bodies, "agent"), AGENT, committed=made.extend)
    return made


def asked(office: Office, name: str = "s", subject: Subject = NOTES) -> tuple[str, ReasonCode]:
    """A new question, and its answer."""
    verdict = office.ask(name, "asking", subject=subject).verdict
    return verdict.verdict, verdict.reason


def test_a_thousand_trivial_successes_are_no_grant(office: Office) -> None:
    """Not asked is no evidence: without a human nothing that needs grants is promoted."""
    now = office.later()
    as_agent(office, *[closed(f"easy/{n}", time=now) for n in range(1000)])
    assert asked(office) == ("approve_required", ReasonCode.TOO_FEW_GRANTS)


def test_many_steps_of_one_trace_are_one_sample(office: Office) -> None:
    """A trace has one vote per subject, however often it does the same thing."""
    office.say("effect.declared", effect="invoke", reversibility="reversible")
    office.threshold("invoke", "reversible", min_samples=2)
    now = office.later()
    as_agent(office, closed("wide", *[step(f"s{n}", SHELL) for n in range(500)], time=now))
    assert asked(office, subject=SHELL) == ("approve_required", ReasonCode.TOO_FEW_SAMPLES)


def test_samples_of_last_year_are_dead(office: Office) -> None:
    """A subject that was promoted a year ago has to earn it again."""
    office.earned()
    assert asked(office, "then")[0] == "allow"
    office.clock.advance(365 * DAY)
    assert asked(office, "now") == ("approve_required", ReasonCode.TOO_FEW_GRANTS)


def test_a_failure_after_idle_weeks_freshens_nothing(office: Office) -> None:
    """Only what is clean makes a score fresh; a failing trace lowers it further."""
    office.threshold("fs_write:*", "reversible_with_cost", min_score=0.6)
    office.earned()
    office.clock.advance(28 * DAY)
    idle = office.ask("s1", "idle").verdict
    as_agent(office, closed("fails", step("a", status="error"), time=office.later()))
    after = office.ask("s2", "idle").verdict
    assert idle.reason is after.reason is ReasonCode.SCORE_TOO_LOW
    assert after.last_updated == idle.last_updated
    assert after.score < idle.score


def test_self_play_wins_promote_nobody(office: Office) -> None:
    """A hundred wins change what is shown, not what promotes."""
    office.say("effect.declared", effect="invoke", reversibility="reversible")
    office.threshold("invoke", "reversible", min_score=0.6)
    neuron = Subject("", "neuron:alpha", "invoke")
    as_agent(office, closed("t", step("a", neuron, "error"), time=office.later()))
    before = office.ask("s1", "x", subject=neuron).verdict
    as_agent(office, *[played("alpha", "beta").replace(b"play/", b"%d/" % n) for n in range(100)])
    after = office.ask("s2", "x", subject=neuron).verdict
    shown = office.store.get(neuron)
    assert shown is not None
    assert shown.tool_success > 0.9
    assert before.reason is after.reason is ReasonCode.SCORE_TOO_LOW
    assert after.parts[0].value == 0.0


def test_a_forged_approval_is_not_human(office: Office) -> None:
    """The role comes from how the store was opened, never from the data."""
    now = office.later()
    as_agent(office, *[closed(f"t{n}", time=now) for n in range(5)])
    forged = [decided(f"t{n}", time=now, step_ids=["a"]) for n in range(5)]
    assert {one.reason for one in as_agent(office, *forged)} == {Reason.NOT_HUMAN}
    assert asked(office) == ("approve_required", ReasonCode.TOO_FEW_GRANTS)


def test_an_approval_by_a_rule_is_no_grant(office: Office) -> None:
    """The agent may publish what its own rules decided; it counts for nothing."""
    now = office.later()
    rule = {"kind": "rule", "id": "allowlist"}
    for n in range(5):
        made = as_agent(
            office, closed(f"t{n}", time=now), decided(f"t{n}", time=now, decided_by=rule)
        )
        assert [one.reason for one in made] == [None, None]
    assert asked(office) == ("approve_required", ReasonCode.TOO_FEW_GRANTS)


def test_a_replayed_approval_counts_once(office: Office) -> None:
    """The same event again is a duplicate; its copy under another id speaks of the same step."""
    now = office.later()
    office.ingest(closed("t", time=now), decided("t", time=now, step_ids=["a"]))
    again = decided("t", time=now, step_ids=["a"])
    for n in range(5):
        office.ingest(again, again.replace(b'"granted/t"', b'"copy/%d"' % n))
    assert asked(office) == ("approve_required", ReasonCode.TOO_FEW_GRANTS)
    assert office.store.get(NOTES).effective_grants < 1  # type: ignore[union-attr]


def test_an_approval_under_a_used_id_is_a_conflict(office: Office) -> None:
    """Another content under the id of an approval that was accepted changes nothing."""
    now = office.later()
    office.ingest(closed("t", time=now), decided("t", "denied", time=now, step_ids=["a"]))
    swapped = decided("t", "granted", time=now, step_ids=["a"]).replace(
        b'"granted/t"', b'"denied/t"'
    )
    assert office.ingest(swapped)[0].reason is Reason.CONFLICT
    assert asked(office)[1] is ReasonCode.BRAKED


def test_an_approval_of_one_step_says_nothing_of_another(office: Office) -> None:
    """Granting a shell command five times earns the writes beside it nothing."""
    now = office.later()
    for n in range(5):
        steps = (step("a", SHELL), step("b", NOTES))
        office.ingest(closed(f"t{n}", *steps, time=now), decided(f"t{n}", time=now, step_ids=["a"]))
    assert asked(office) == ("approve_required", ReasonCode.TOO_FEW_GRANTS)
    assert office.store.get(SHELL).effective_grants > 4  # type: ignore[union-attr]


def test_an_approval_that_names_nothing_is_of_no_subject_among_several(office: Office) -> None:
    """In a trace of two subjects a grant without names earns neither of them anything."""
    now = office.later()
    for n in range(5):
        office.ingest(
            closed(f"t{n}", step("a", SHELL), step("b", NOTES), time=now),
            decided(f"t{n}", time=now),
        )
    assert asked(office) == ("approve_required", ReasonCode.TOO_FEW_GRANTS)


def braked(office: Office) -> None:
    """The notes had earned it, and then a person denied one."""
    office.earned()
    office.trace("bad", granted=False)
    office.ingest(decided("bad", "denied", time=office.clock.now(), step_ids=["a"]))
    assert asked(office, "braked")[1] is ReasonCode.BRAKED


def test_an_exclusion_lifts_no_brake(office: Office) -> None:
    """Taking the denied trace out of the score leaves the brake, and sets its own."""
    braked(office)
    office.clock.advance(23 * HOUR)
    made = office.ingest(excluded("bad").replace(b"2026-05-28", b"2026-05-29"))
    assert made[0].reason is None
    assert asked(office, "after")[1] is ReasonCode.BRAKED


def test_a_rollback_lifts_no_brake(office: Office) -> None:
    """Going back to before the denial takes the denial out of the score only."""
    office.earned()
    moment = office.later()
    braked(office)
    office.store.rollback(NOTES, moment, "oscar", "to look better")
    assert asked(office, "after")[1] is ReasonCode.BRAKED


def test_the_agent_can_neither_exclude_nor_roll_back(office: Office) -> None:
    """Both are for operators."""
    braked(office)
    back = {"subject": NOTES, "to": "2026-01-01T00:00:00Z", "by": "agent", "why": "please"}
    made = as_agent(office, excluded("bad"), event("subject.rolled_back", "r", back))
    assert {one.reason for one in made} == {Reason.NOT_PERMITTED}
    assert asked(office, "after")[1] is ReasonCode.BRAKED


def test_a_grant_lifts_a_brake_only_after_a_day(office: Office) -> None:
    """And a day alone does not, either."""
    braked(office)
    office.clock.advance(25 * HOUR)
    assert asked(office, "day over")[1] is ReasonCode.BRAKED
    office.trace("good again")
    assert asked(office, "granted")[0] == "allow"


def test_an_old_grant_told_late_lifts_no_brake(office: Office) -> None:
    """What counts is when it was granted, not when it was told."""
    before = office.later()
    braked(office)
    office.clock.advance(25 * HOUR)
    office.ingest(closed("late", time=before), decided("late", time=before, step_ids=["a"]))
    assert asked(office, "after")[1] is ReasonCode.BRAKED


def test_an_undo_by_the_agent_is_no_evidence_and_no_human(office: Office) -> None:
    """It brakes nothing and lifts nothing; as a human's it is refused."""
    office.earned()
    by = {"by": {"kind": "policy", "id": "agent"}}
    assert as_agent(office, undone("earned/0", time=office.clock.now(), **by))[0].reason is None
    assert asked(office, "s1")[0] == "allow"
    refused = as_agent(office, undone("earned/1", time=office.clock.now()))
    assert refused[0].reason is Reason.NOT_HUMAN
    braked(office)
    as_agent(office, undone("bad", time=office.clock.now(), **by))
    assert asked(office, "s2")[1] is ReasonCode.BRAKED


def test_future_events_are_refused(office: Office) -> None:
    """A weight from the future would rule for ever."""
    late = office.clock.now() + 6 * MINUTE
    assert as_agent(office, closed("future", time=late))[0].reason is Reason.FUTURE
    assert office.ingest(decided("x", time=late, subjects=[NOTES]))[0].reason is Reason.FUTURE
    assert asked(office)[1] is ReasonCode.NO_HISTORY


def test_backdated_events_weigh_what_their_age_weighs(office: Office) -> None:
    """A hundred grants said to be two years old are worth nothing; they freshen nothing."""
    old = office.clock.now() - 730 * DAY
    for n in range(100):
        office.ingest(closed(f"old/{n}", time=old), decided(f"old/{n}", time=old, step_ids=["a"]))
    verdict = office.ask().verdict
    assert ReasonCode.TOO_FEW_GRANTS in verdict.reasons
    assert verdict.effective_grants < 0.01
    assert verdict.freshness < 0.001


def test_a_tool_named_runtime_is_nobody(office: Office) -> None:
    """A step of that name is refused, and so is the question; `signals` may not speak of it."""
    office.say("effect.declared", effect="*", reversibility="reversible")
    office.threshold("*", "reversible")
    office.earned()
    runtime = Subject("", "runtime", "done")
    assert as_agent(office, closed("t", step("a", runtime)))[0].reason is Reason.INVALID
    assert asked(office, subject=runtime) == ("approve_required", ReasonCode.RESERVED_TOOL)


def test_a_glob_shadows_no_stricter_one_from_elsewhere(office: Office) -> None:
    """Neither length behind a star nor the caller's band gets round the glob of the place."""
    office.earned()
    office.say("effect.declared", effect="fs_write:~/notes/*", reversibility="irreversible")
    office.say("effect.declared", effect="*" + "fs_write:~/notes/*", reversibility="reversible")
    office.threshold("*notes/**********************", "reversible")
    assert asked(office) == ("approve_required", ReasonCode.IRREVERSIBLE)


def test_a_cap_is_not_shadowed_by_a_narrower_threshold(office: Office) -> None:
    """The cap of any glob that matches, in any band, forbids."""
    office.threshold("*", "irreversible", cap_autonomy="approve_required")
    office.threshold(NOTES.effect, "reversible_with_cost")
    office.earned()
    assert asked(office) == ("approve_required", ReasonCode.CAPPED)


def test_saying_more_than_the_registry_makes_nothing_easier(office: Office) -> None:
    """A word that puts the action in a band with a lower threshold must meet both."""
    office.say("effect.declared", effect="fs_write:*", reversibility="reversible")
    office.threshold("fs_write:*", "reversible", min_samples=50)
    office.threshold("fs_write:*", "reversible_with_cost")
    office.earned()
    verdict = office.ask(said="reversible_with_cost").verdict
    assert (verdict.reason, verdict.reversibility) == (
        ReasonCode.TOO_FEW_SAMPLES,
        "reversible_with_cost",
    )


def test_asking_again_does_not_pass_a_spot_check(office: Office) -> None:
    """The same question has the same answer, and another one of the trace owes it still."""
    office.say("policy.mode", mode="enforce", spot_check_one_in=1)
    office.earned()
    first = office.ask()
    office.say("policy.mode", mode="enforce", spot_check_one_in=2)
    for n in range(20):
        assert office.ask() == first
        other = office.ask(f"again/{n}", fingerprint=f"f{n}").verdict
        assert (other.verdict, other.reason) == ("approve_required", ReasonCode.SPOT_CHECK)


def test_an_agent_cannot_choose_the_id_that_is_hashed(office: Office) -> None:
    """Ids are drawn here: the same question in two stores has two ids."""
    office.earned()
    ids = {office.ask(f"s{n}").decision_id for n in range(50)}
    assert len(ids) == 50
    assert all(len(name) == 32 for name in ids)


def test_an_id_said_twice_or_made_up_promotes_nothing(office: Office) -> None:
    """A step may claim any decision; what it claims is no evidence of anything."""
    one = step("a") | {"decision_id": "made up", "via": "trust_promoted"}
    as_agent(office, closed("t", one, time=office.later()))
    assert asked(office) == ("approve_required", ReasonCode.TOO_FEW_GRANTS)


def test_the_agent_cannot_change_the_policy(office: Office, path: Path) -> None:
    """It may publish no event of that topic, by any call."""
    said = {"by": "oscar", "why": "reasons"}
    for kind, data in (
        (
            "threshold.set",
            {"effect": "*", "risk_band": "reversible", "min_score": 0}
            | {"min_samples": 0, "min_grants": 0, "min_approval_rate": 0},
        ),
        ("effect.declared", {"effect": "*", "reversibility": "reversible"}),
        ("trust.reinstated", {"revocation_id": "x"}),
        ("policy.mode", {"mode": "enforce", "spot_check_one_in": 0}),
    ):
        made = as_agent(office, event(kind, f"agent/{kind}", data | said))
        assert made[0].reason is Reason.NOT_PERMITTED
    with (
        EmbeddedStore.open(path, stamp=AGENT, clock=office.clock) as store,
        pytest.raises(EventRefused, match="from the role operator"),
    ):
        store.policy.say(
            lambda author: event("policy.mode", author.event_id, said | {"mode": "enforce"})
        )
    assert office.store.policy.in_force().version == 3


def test_another_scope_earns_nothing_for_this_one(office: Office) -> None:
    """Trust is of one scope; the same tool of another user starts from nothing."""
    office.earned()
    team = NOTES._replace(scope="team")
    decision = office.store.policy.decide(Action(team, "reversible", "t", "s"))
    assert decision.verdict.reason is ReasonCode.NO_HISTORY
