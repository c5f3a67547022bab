"""The decision: rules before numbers, and every ground of a verdict named."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tests.laws.policies import ASKED, NOTES, NOW, Rules, enforcing, perfect
from trustfold_projections.laws.policy import decide
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import Action, ReasonCode, Verdict
from trustfold_schemas.events import Reversibility
from trustfold_schemas.instants import DAY, HOUR, MINUTE, SECOND
from trustfold_schemas.scores import Corrupt, State, content_digest
from trustfold_schemas.subject import Subject

BANDS: tuple[Reversibility, ...] = ("reversible", "reversible_with_cost", "irreversible")


class Asked(NamedTuple):
    """One question, with everything that it rests on."""

    rules: Rules
    state: State | Corrupt | None
    action: Action = ASKED
    stale: str | None = None
    now: int = NOW

    def verdict(self) -> Verdict:
        """The answer."""
        return decide(self.state, self.rules.policy, self.action, self.now, stale=self.stale)


def lenient(declared: Reversibility = "reversible") -> Rules:
    """A policy that asks for nothing at all of what it has declared."""
    rules = enforcing(declared)
    for band in BANDS:
        rules.threshold("*", band)
    return rules


def irreversible_by_the_registry() -> Asked:
    """The registry says that it cannot be undone, whatever the caller says."""
    return Asked(lenient("irreversible"), perfect())


def irreversible_by_the_caller() -> Asked:
    """The caller says so, whatever the registry says."""
    return Asked(lenient(), perfect(), replace(ASKED, reversibility="irreversible"))


def unknown_reversibility() -> Asked:
    """The caller does not know."""
    return Asked(lenient(), perfect(), replace(ASKED, reversibility=None))


def undeclared() -> Asked:
    """No declaration matches, a threshold does."""
    subject = Subject("", "shell", "shell:rm")
    return Asked(lenient(), perfect(subject), replace(ASKED, subject=subject))


def undeclared_by_removal() -> Asked:
    """The only declaration was removed."""
    rules = lenient()
    rules.say("effect.removed", effect="fs_write:~/notes/*")
    return Asked(rules, perfect())


def no_history() -> Asked:
    """Nothing ever touched the subject, and the threshold asks for nothing."""
    return Asked(lenient(), None)


def no_samples() -> Asked:
    """What was counted was taken back; the moments are left."""
    return Asked(lenient(), State(subject=NOTES, last_updated=NOW, last_grant_at=NOW, version=2))


def corrupt() -> Asked:
    """The record contradicts itself."""
    return Asked(lenient(), Corrupt(NOTES, "the digest does not match"))


def stale() -> Asked:
    """The table was caught up long ago."""
    return Asked(lenient(), perfect(), stale="a table caught up within 60 seconds")


def revoked_by_name() -> Asked:
    """A revocation names the very subject."""
    rules = lenient()
    rules.say("trust.revoked", "r1", tool=NOTES.tool, effect=NOTES.effect, scope="")
    return Asked(rules, perfect())


def revoked_before_it_existed() -> Asked:
    """A revocation of everything came before the subject had any history."""
    rules = Rules()
    rules.say("trust.revoked", "r1")
    rules.mode()
    rules.declare("*", "reversible")
    new = Subject("team", "brand_new", "brand:new")
    return Asked(rules, perfect(new), replace(ASKED, subject=new))


def braked_for_a_day() -> Asked:
    """Something bad an hour ago, and a grant after it."""
    return Asked(lenient(), replace(perfect(), last_bad_at=NOW - HOUR, last_grant_at=NOW))


def braked_until_a_grant() -> Asked:
    """Something bad a year ago, and no grant after it."""
    state = replace(perfect(), last_bad_at=NOW - 365 * DAY, last_grant_at=NOW - 365 * DAY)
    return Asked(lenient(), state)


def braked_without_history() -> Asked:
    """Denied before its first trace closed."""
    return Asked(lenient(), State(subject=NOTES, last_bad_at=NOW - HOUR, version=1))


def capped_in_another_band() -> Asked:
    """A cap of a wider glob, in a band that is not the action's."""
    rules = lenient()
    rules.threshold("fs_write:*", "irreversible", cap_autonomy="approve_required")
    return Asked(rules, perfect())


def capped_under_a_narrower_glob() -> Asked:
    """A cap of the widest glob, in the action's band, under a narrower threshold without one."""
    rules = lenient()
    rules.threshold("*", "reversible", cap_autonomy="approve_required")
    rules.threshold(NOTES.effect, "reversible")
    return Asked(rules, perfect())


def reserved_tool() -> Asked:
    """The global subject, which is never braked and counts every trace."""
    subject = Subject("", "runtime", "fs_write:~/notes/*")
    return Asked(lenient(), perfect(subject), replace(ASKED, subject=subject))


NEVER = {
    irreversible_by_the_registry: ReasonCode.IRREVERSIBLE,
    irreversible_by_the_caller: ReasonCode.IRREVERSIBLE,
    unknown_reversibility: ReasonCode.UNKNOWN_REVERSIBILITY,
    undeclared: ReasonCode.UNDECLARED_EFFECT,
    undeclared_by_removal: ReasonCode.UNDECLARED_EFFECT,
    no_history: ReasonCode.NO_HISTORY,
    no_samples: ReasonCode.NO_HISTORY,
    corrupt: ReasonCode.CORRUPT,
    stale: ReasonCode.STALE,
    revoked_by_name: ReasonCode.REVOKED,
    revoked_before_it_existed: ReasonCode.REVOKED,
    braked_for_a_day: ReasonCode.BRAKED,
    braked_until_a_grant: ReasonCode.BRAKED,
    braked_without_history: ReasonCode.BRAKED,
    capped_in_another_band: ReasonCode.CAPPED,
    capped_under_a_narrower_glob: ReasonCode.CAPPED,
    reserved_tool: ReasonCode.RESERVED_TOOL,
}
"""Questions that no number can make a promotion of, and the rule that says so."""


def test_a_perfect_subject_is_promoted() -> None:
    """A score of 1.0 and a thousand approvals: what the rules below forbid is allowed else."""
    verdict = Asked(lenient(), perfect()).verdict()
    assert (verdict.verdict, verdict.via, verdict.score) == ("allow", "trust_promoted", 1.0)
    assert verdict.reasons == (ReasonCode.PROMOTED,)
    assert (verdict.missing, verdict.effective_grants) == ("", 1000.0)


@pytest.mark.parametrize("make", NEVER, ids=lambda make: make.__name__)
def test_never_promoted(make: Callable[[], Asked]) -> None:
    """Each rule by itself stops a subject with a perfect past and a threshold of nothing."""
    asked = make()
    verdict = asked.verdict()
    assert (verdict.verdict, verdict.would_be) == ("approve_required", "approve_required")
    assert verdict.via is None
    assert verdict.reason is NEVER[make]
    assert verdict.missing


@pytest.mark.parametrize("make", NEVER, ids=lambda make: make.__name__)
@pytest.mark.parametrize("said", [*BANDS, None])
def test_nothing_the_caller_says_undoes_a_rule(
    make: Callable[[], Asked], said: Reversibility | None
) -> None:
    """Whatever reversibility is claimed, what a rule forbids stays forbidden."""
    asked = make()
    if make in (irreversible_by_the_caller, unknown_reversibility):
        asked = asked._replace(rules=lenient("irreversible"))
    verdict = asked._replace(action=replace(asked.action, reversibility=said)).verdict()
    assert verdict.verdict == "approve_required"


def test_a_rule_comes_before_a_number() -> None:
    """All reasons are named, the gravest first."""
    rules = enforcing("irreversible")
    rules.say("trust.revoked", "r1")
    verdict = Asked(rules, None).verdict()
    assert verdict.reasons == (
        ReasonCode.IRREVERSIBLE,
        ReasonCode.REVOKED,
        ReasonCode.NO_HISTORY,
        ReasonCode.SCORE_TOO_LOW,
        ReasonCode.TOO_FEW_SAMPLES,
        ReasonCode.TOO_FEW_GRANTS,
    )


def test_what_is_missing_is_a_sentence() -> None:
    """Grants and the brake in words that tell a person what to do."""
    state = replace(
        perfect(traces=12, granted=2), last_bad_at=NOW - 10 * HOUR + 5 * MINUTE, last_grant_at=None
    )
    verdict = Asked(enforcing("reversible_with_cost"), state).verdict()
    assert verdict.missing == (
        "braked until 14:05 UTC and until a person grants once; 3 more grants"
    )


def test_five_grants_of_a_second_ago_are_a_little_less_than_five() -> None:
    """Effective numbers are compared as they are, and one fresh one more is what is missing."""
    state = perfect(traces=10, granted=5, at=NOW - SECOND)
    verdict = Asked(enforcing("reversible_with_cost"), state).verdict()
    assert 4.9999 < verdict.effective_grants < 5
    assert verdict.missing == "1 more sample; 1 more grant"
    assert Asked(enforcing("reversible_with_cost"), state, now=NOW - SECOND).verdict().via


def test_a_brake_that_ends_another_day_says_which() -> None:
    """The day is named unless it is today's."""
    now = NOW + 13 * HOUR
    state = replace(perfect(), last_bad_at=now - HOUR, last_grant_at=now)
    verdict = Asked(enforcing(), state, now=now).verdict()
    assert verdict.missing == "braked until 2026-04-20 12:00 UTC"


@pytest.mark.parametrize(
    ("grant", "hours", "braked"),
    [(1, 23, True), (1, 24, False), (0, 25, True), (-1, 25, True), (None, 25, True)],
)
def test_the_brake_needs_both_a_day_and_a_later_grant(
    grant: int | None, hours: int, braked: bool
) -> None:
    """It ends a day after, at the earliest, and only with a grant later than what was bad."""
    bad = NOW - hours * HOUR
    state = replace(
        perfect(), last_bad_at=bad, last_grant_at=None if grant is None else bad + grant
    )
    verdict = Asked(enforcing(), state).verdict()
    assert (verdict.reason is ReasonCode.BRAKED) == braked
    assert (verdict.verdict == "allow") == (not braked)


def test_self_play_promotes_nobody() -> None:
    """A thousand wins leave the score of the policy where it was."""
    neuron = Subject("", "neuron:alpha", "invoke")
    rules = lenient()
    rules.declare("invoke", "reversible")
    rules.threshold("invoke", "reversible", min_score=0.95)
    state = perfect(neuron)
    state.num[0] //= 2
    before = Asked(rules, state, replace(ASKED, subject=neuron)).verdict()
    state = replace(
        state, self_play_num=state.den[0] * PPM * 1000, self_play_den=state.den[0] * 1000
    )
    after = Asked(rules, state, replace(ASKED, subject=neuron)).verdict()
    assert before.reasons == after.reasons == (ReasonCode.SCORE_TOO_LOW,)
    assert before.score == after.score == pytest.approx(0.85)


def test_shadow_says_what_it_would_be() -> None:
    """In the mode `shadow` everything is asked, and a promotion is named."""
    rules = lenient()
    rules.mode("shadow")
    verdict = Asked(rules, perfect()).verdict()
    assert (verdict.verdict, verdict.would_be) == ("approve_required", "allow")
    assert (verdict.reason, verdict.via, verdict.mode) == (ReasonCode.SHADOW, None, "shadow")


def test_one_promotion_in_twenty_is_asked() -> None:
    """By hash of the decision's id: always the same for one id, about one in 20 of many."""
    rules = lenient()
    rules.mode("enforce", 20)
    answers = [
        decide(perfect(), rules.policy, ASKED, NOW, decision_id=f"{n:032x}") for n in range(2000)
    ]
    checked = [answer for answer in answers if answer.reason is ReasonCode.SPOT_CHECK]
    assert 60 <= len(checked) <= 140
    assert all((one.verdict, one.would_be) == ("approve_required", "allow") for one in checked)
    assert answers[7] == decide(perfect(), rules.policy, ASKED, NOW, decision_id=f"{7:032x}")


def test_an_answer_that_is_owed_to_a_spot_check_is_owed_under_any_id() -> None:
    """A trace that was spot checked is asked whatever its next id hashes to."""
    verdict = decide(
        perfect(), lenient().policy, ASKED, NOW, decision_id=f"{1:032x}", spot_checked=True
    )
    assert verdict.reason is ReasonCode.SPOT_CHECK


def test_a_spot_check_never_hides_a_reason() -> None:
    """What would not be promoted anyway says why."""
    rules = enforcing()
    rules.mode("enforce", 1)
    reasons = decide(None, rules.policy, ASKED, NOW, decision_id="x").reasons
    assert ReasonCode.SPOT_CHECK not in reasons


def test_a_narrow_glob_in_another_place_shadows_nothing() -> None:
    """A long pattern that opens with a star does not outrank the one that names the place."""
    rules = enforcing()
    rules.threshold("fs_write:~/*", "reversible", min_grants=2000)
    rules.threshold("*notes/***********************", "reversible")
    assert Asked(rules, perfect()).verdict().reasons == (ReasonCode.TOO_FEW_GRANTS,)
    rules.declare("fs_write:*", "irreversible")
    rules.say("effect.removed", effect="fs_write:~/notes/*")
    rules.declare("*write:~/notes/*****************", "reversible")
    assert Asked(rules, perfect()).verdict().reason is ReasonCode.IRREVERSIBLE


def test_a_verdict_carries_its_grounds() -> None:
    """The terms add up to raw_score, the digest is the state's, the versions are named."""
    rules, state = enforcing("reversible_with_cost"), perfect(traces=40, granted=10)
    verdict = Asked(rules, state).verdict()
    assert sum(part.term for part in verdict.parts) == pytest.approx(verdict.raw_score)
    assert verdict.digest == content_digest(state)
    assert (verdict.version, verdict.policy_version, verdict.formula) == (40, 2, "ewm/1")
    assert verdict.human_coverage == 0.25
    assert verdict.declared_by == "fs_write:~/notes/*"
    assert verdict.threshold is not None
    assert (verdict.threshold.min_samples, verdict.threshold.version) == (10, 0)
