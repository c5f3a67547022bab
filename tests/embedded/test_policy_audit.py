"""Decisions followed back: the chain, the state had again, what differs, what rested on what."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.embedded.asking import Office
from tests.embedded.documents import NOTES, SHELL, decided, event, excluded, step, undone
from trustfold_schemas import actions
from trustfold_schemas.decisions import ReasonCode
from trustfold_schemas.errors import UnknownNameError
from trustfold_schemas.instants import DAY
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore, decisions


@pytest.fixture
def office(store: EmbeddedStore, clock: ManualClock) -> Office:
    """A store that promotes writes with three grants."""
    made = Office(store, clock)
    made.rules()
    return made


def tamper(path: Path, *statements: str) -> None:
    """Change rows behind the store's back, past the triggers that keep accidents from them."""
    with sqlite3.connect(path) as connection:
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert connection.execute(statement).rowcount == 1, statement


# ---- why ---------------------------------------------------------------------------------------


def test_why_follows_the_chain(office: Office) -> None:
    """The verdict, the step that carries it, and what was said of that step."""
    office.earned()
    decision = office.ask()
    office.close_with(decision)
    office.ingest(
        undone("now", time=office.clock.now(), step_ids=["s1"]),
        decided("now", "granted", time=office.clock.now(), step_ids=["other"]),
    )
    why = office.store.policy.why(decision.decision_id)
    assert why.decision == decision
    assert why.step is not None
    assert (why.step.decision_id, why.step.via) == (decision.decision_id, "trust_promoted")
    assert [fact.event.id for fact in why.feedback] == ["undo/now"]
    assert why.ok


def test_why_of_a_month_ago_knows_the_state_of_then(office: Office) -> None:
    """Whatever came since: traces, feedback on old ones, an exclusion, another policy."""
    office.earned()
    decision = office.ask()
    office.clock.advance(30 * DAY)
    office.trace("much later", granted=False)
    office.ingest(decided("earned/0", "denied", time=office.clock.now()), excluded("earned/1"))
    office.rules("irreversible", "fs_write:~/*")
    why = office.store.policy.why(decision.decision_id)
    assert (why.digest_matches, why.verdict_matches, why.differences) == (True, True, ())
    assert why.digest_of_facts == decision.verdict.digest


def test_why_after_a_rollback_knows_the_state_of_then(office: Office) -> None:
    """Each decision has its own state, also the one that a rollback goes back over."""
    office.earned(3)
    before = office.ask("s1")
    moment = office.later()
    office.earned(5)
    between = office.ask("s2")
    office.store.rollback(NOTES, moment, "oscar", "a broken sensor")
    after = office.ask("s3")
    assert before.verdict.digest == after.verdict.digest != between.verdict.digest
    for decision in (before, between, after):
        assert office.store.policy.why(decision.decision_id).ok


def test_why_of_a_subject_without_history(office: Office) -> None:
    """There is no digest, and nothing differs."""
    why = office.store.policy.why(office.ask().decision_id)
    assert (why.digest_of_ledger, why.digest_of_facts, why.ok) == (None, None, True)


def test_why_of_a_spot_check(office: Office) -> None:
    """Asked again of the same past it is a spot check again, owed ones too."""
    office.earned()
    office.say("policy.mode", mode="enforce", spot_check_one_in=1)
    first = office.ask("s1")
    office.say("policy.mode", mode="enforce", spot_check_one_in=0)
    owed = office.ask("s2")
    assert owed.owed_to == first.decision_id
    for decision in (first, owed):
        assert decision.verdict.reason is ReasonCode.SPOT_CHECK
        assert office.store.policy.why(decision.decision_id).ok


@pytest.mark.parametrize(
    ("statement", "where", "difference"),
    [
        (
            "UPDATE ledger SET a0 = 0",
            "ledger entry {} [",
            "amount of tool_success is 0, the facts give 1000000",
        ),
        ("UPDATE ledger SET recorded = recorded + 1", "ledger entry {}", "no fact gives it"),
        ("UPDATE ledger SET kind = 99", "ledger entry {}", "cannot be read"),
        ("DELETE FROM ledger", "ledger entry [", "the ledger lacks it"),
    ],
)
def test_a_changed_entry_is_named(
    office: Office, path: Path, statement: str, where: str, difference: str
) -> None:
    """The digest differs, the facts still give it, and the entry that differs has its name."""
    office.earned()
    decision = office.ask()
    with sqlite3.connect(path) as connection:
        positions = connection.execute(
            "SELECT position FROM ledger JOIN subjects USING (subject_id) WHERE tool = ?",
            (NOTES.tool,),
        ).fetchall()
    (position,) = positions[2]
    tamper(path, f"{statement} WHERE position = {position}")
    why = office.store.policy.why(decision.decision_id)
    assert not why.ok
    # The moment of an entry is no part of what is digested; the entry is named all the same.
    assert why.digest_matches == ("recorded" in statement)
    assert why.digest_of_facts == decision.verdict.digest
    first = why.differences[0]
    assert first.where.startswith(where.format(position))
    assert difference in first.difference


def test_a_changed_fact_is_named(office: Office, path: Path) -> None:
    """A fact that says something else: the ledger still gives the digest, the facts do not."""
    office.earned()
    decision = office.ask()
    tamper(
        path,
        "UPDATE facts SET body = replace(body, '\"ok\"', '\"error\"') WHERE recorded = "
        "(SELECT recorded FROM facts WHERE body LIKE '%close/earned/2%')",
    )
    why = office.store.policy.why(decision.decision_id)
    assert not why.digest_matches
    assert why.digest_of_ledger == decision.verdict.digest
    assert "amount of tool_success is 1000000, the facts give 0" in why.differences[0].difference
    assert "earned/2" in why.differences[0].where


def test_a_fact_that_is_none_any_more_is_named(office: Office, path: Path) -> None:
    """It gives nothing, is named, and the rest is compared all the same."""
    office.earned()
    decision = office.ask()
    tamper(
        path,
        "UPDATE facts SET body = 'gone' WHERE recorded = "
        "(SELECT recorded FROM facts WHERE body LIKE '%close/earned/2%')",
    )
    why = office.store.policy.why(decision.decision_id)
    assert why.differences[0].where.startswith("fact ")
    assert not why.digest_matches


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE decisions SET verdict = 'approve_required'",
        "UPDATE decisions SET grounds = replace(grounds, '\"score\":', '\"score\": ')",
        "UPDATE decisions SET trace_id = 'another'",
    ],
)
def test_a_changed_decision_is_named(office: Office, path: Path, statement: str) -> None:
    """Its row is chained to the one before; `why` and `verify` both say so."""
    office.earned()
    office.ask("s0")
    decision = office.ask("s1")
    assert office.store.verify().ok
    tamper(path, f"{statement} WHERE position = 2")
    why = office.store.policy.why(decision.decision_id)
    assert why.differences[0].where == f"decision {decision.decision_id}"
    named = [one for one in office.store.verify().findings if one.proof == "decisions"]
    assert [one.where for one in named] == [f"decision {decision.decision_id}"]


def test_a_verdict_that_the_past_does_not_give_is_named(office: Office, path: Path) -> None:
    """A row forged with its chain says allow where the same past asks."""
    office.earned(1)
    decision = office.ask()
    assert decision.verdict.verdict == "approve_required"
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER decisions_stay")
        connection.execute(
            'UPDATE decisions SET grounds = replace(grounds, \'"verdict":"approve_required"\', '
            '\'"verdict":"allow"\')'
        )
    why = office.store.policy.why(decision.decision_id)
    assert why.decision.verdict.verdict == "allow"
    assert (why.digest_matches, why.verdict_matches, why.ok) == (True, False, False)
    assert why.verdict_again is not None
    assert why.verdict_again.reason is ReasonCode.TOO_FEW_GRANTS


def test_verify_makes_every_decision_again(office: Office, path: Path) -> None:
    """One that was forged with its chain is named; those beside it are not."""
    office.ask("s0")
    office.earned(1)
    moment = office.later()
    forged = office.ask("s1")
    office.earned(4)
    office.store.rollback(NOTES, moment, "oscar", "a broken sensor")
    office.ask("s2")
    office.rules("irreversible", "fs_write:~/*")
    office.ask("s3")
    assert office.store.verify().findings == []
    verdict = replace(forged.verdict, verdict="allow", via="trust_promoted")
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER decisions_are_kept")
        kept = list(decisions.of_subject(connection, NOTES))
        connection.execute("DELETE FROM decisions")
        chain = bytes(32)
        for decision in kept:
            if decision == forged:
                decision = replace(decision, verdict=verdict)  # noqa: PLW2901
            decisions.insert(connection, decision, chain)
            (_, _, chain) = decisions.last(connection)
    found = [one for one in office.store.verify().findings if one.proof == "decisions"]
    assert [one.where for one in found] == [f"decision {forged.decision_id}"]
    assert "was allow" in found[0].difference
    assert "the same past gives approve_required (too_few_grants)" in found[0].difference


def test_an_unknown_decision_is_said_to_be(office: Office) -> None:
    """A name that nobody gave."""
    with pytest.raises(UnknownNameError, match="no decision is named 'x'"):
        office.store.policy.why("x")


# ---- what rests on what ------------------------------------------------------------------------


def test_impact_of_an_undo(office: Office) -> None:
    """The promotion that the undone step acted by, and those that rested on its trace."""
    office.earned(3)
    acted = office.ask("s1", "acting")
    office.close_with(acted)
    rested = office.ask("s2", "resting")
    office.ingest(undone("acting", time=office.clock.now(), step_ids=["s1"]))
    for name in ("acting", "undo/acting"):
        made = office.store.policy.impact(name)
        assert [one.decision_id for one in made.acted] == [acted.decision_id]
        assert [one.decision.decision_id for one in made.rested] == [rested.decision_id]
        assert not made.rested[0].differs


def test_impact_of_an_exclusion_says_which_would_have_been_asked(office: Office) -> None:
    """With four grants one less still promotes; with three it does not: two have aged below two."""
    office.earned(3)
    three = office.ask("s1")
    office.trace("fourth")
    four = office.ask("s2")
    office.ingest(excluded("earned/1"))
    made = office.store.policy.impact("exclude/earned/1")
    assert {one.decision.decision_id: one.differs for one in made.rested} == {
        three.decision_id: True,
        four.decision_id: False,
    }
    differing = made.rested[0].without
    assert differing.missing == "1 more grant"
    assert all("earned/1" in name for one in made.rested for name in one.rested_on)


def test_impact_of_a_rollback_before_and_after(office: Office) -> None:
    """What a dry run shows is what the rollback's own name shows afterwards."""
    office.earned(3)
    moment = office.later()
    early = office.ask("s1")
    office.trace("fourth")
    late = office.ask("s2")
    expected = [late.decision_id]
    before = office.store.policy.impact_of_rollback(NOTES, moment)
    assert [one.decision.decision_id for one in before] == expected
    name = office.store.rollback(NOTES, moment, "oscar", "a broken sensor")
    after = office.store.policy.impact(name).rested
    assert [one.decision.decision_id for one in after] == expected
    assert after[0].rested_on == before[0].rested_on
    office.store.lift(name, "oscar", "it was right")
    assert early.decision_id not in {one.decision.decision_id for one in after}


def test_impact_leaves_out_what_did_not_count_any_more(office: Office) -> None:
    """A promotion made after a rollback did not rest on what that had taken back."""
    office.earned(3)
    moment = office.later()
    office.trace("fourth")
    office.store.rollback(NOTES, moment, "oscar", "a broken sensor")
    office.ask()
    assert office.store.policy.impact("fourth").rested == ()
    assert len(office.store.policy.impact("earned/0").rested) == 1


def test_impact_of_an_event_without_a_trace(office: Office) -> None:
    """A synthesis is evidence of its neuron; of another subject's it is none."""
    office.say("effect.declared", effect="invoke", reversibility="reversible")
    office.threshold("invoke", "reversible")
    birth = {"neuron": "alpha", "reward": 0.9, "breakdown": {}, "approved_by": "ann"}
    office.ingest(event("neuron.synthesized", "birth", birth))
    office.earned(3)
    neuron = SHELL._replace(tool="neuron:alpha")
    decision = office.ask(subject=neuron)
    made = office.store.policy.impact("birth")
    assert [one.decision.decision_id for one in made.rested] == [decision.decision_id]
    assert made.rested[0].without.reason is ReasonCode.NO_HISTORY


def test_impact_of_a_revocation(office: Office) -> None:
    """What those whom it names did unasked before it, in order; nobody else, and nothing later."""
    office.earned(3)
    acted = office.ask("s1", "acting")
    office.close_with(acted)
    cancelled = office.ask("s1", "cancelled")
    office.close_with(cancelled, "not_executed")
    running = office.ask("s1", "running")
    said = office.store.policy.say
    other = said(lambda one: actions.trust_revoked(one, "ann", "a test", tool="mcp_*"))
    leaked = said(lambda one: actions.trust_revoked(one, "ann", "a leaked key", tool="fs_*"))
    office.store.policy.reinstate(leaked, "ann", "a new key")
    assert office.ask("s1", "later").verdict.verdict == "allow"
    assert office.store.policy.impact(leaked).acted == (acted, running)
    assert office.store.policy.impact(leaked).rested == ()
    assert office.store.policy.impact(other).acted == ()


def test_impact_of_a_name_nobody_has(office: Office) -> None:
    """It is said, and nothing is guessed."""
    with pytest.raises(UnknownNameError, match="no event and no trace"):
        office.store.policy.impact("x")


def _without_a_denial(office: Office) -> tuple[str, str]:
    office.earned(3)
    office.ingest(decided("earned/0", "denied", time=office.clock.now(), step_ids=["a"]))
    return "denied/earned/0", "allow"


def _without_a_grant(office: Office) -> tuple[str, str]:
    office.earned(3)
    return "granted/earned/0", "approve_required"


def _without_a_trace(office: Office) -> tuple[str, str]:
    office.earned(3)
    return "earned/0", "approve_required"


@pytest.mark.parametrize("make", [_without_a_denial, _without_a_grant, _without_a_trace])
def test_decisions_that_would_differ_without(
    office: Office, make: Callable[[Office], tuple[str, str]]
) -> None:
    """Those that differ are named with what they would have been; others are left out."""
    early = office.ask("s0")
    name, would_be = make(office)
    decision = office.ask("s1")
    made = office.store.policy.differing(NOTES, name)
    assert early.decision_id not in {one.decision.decision_id for one in made}
    assert [(one.decision.decision_id, one.without.verdict) for one in made] == [
        (decision.decision_id, would_be)
    ]


def test_acted_leaves_out_what_was_not_executed(office: Office) -> None:
    """A promoted step that was cancelled before it ran acted by nothing."""
    office.earned(3)
    decision = office.ask("s1", "acting")
    office.close_with(decision, "not_executed")
    assert office.store.policy.impact("acting").acted == ()
    other = office.ask("s2", "running")
    assert office.store.policy.impact("running").acted == (other,)
    office.trace("unasked", step("a"), granted=False)
    assert office.store.policy.impact("unasked").acted == ()
