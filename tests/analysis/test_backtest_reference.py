"""The exact path of the backtest, against a literal reading of the specification."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.backtest_logs import WRITE, Story, log_of
from tests.oracles.histories import Draft, tame_histories, told, wild_histories
from trustfold_projections.analysis.backtest.actions import PastAction
from trustfold_projections.analysis.backtest.history import History, read_history
from trustfold_projections.analysis.backtest.reference import judge, verdicts
from trustfold_projections.analysis.backtest.rules import Known, Trust, policies, thresholds_with
from trustfold_projections.analysis.backtest.tally import Tally, with_totals
from trustfold_projections.laws.elapsed import elapsed_state
from trustfold_projections.laws.fold import refold
from trustfold_projections.laws.time_weights import g
from trustfold_schemas.instants import DAY, HOUR, MINUTE, SECOND
from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject

NOTES = Subject("", "fs_write", "fs_write:~/notes/*")
DEFAULT = thresholds_with()
LOOSE = thresholds_with(min_score=400_000, min_samples=0, min_grants=0, min_approval_rate=500_000)


def literally_trusted(entries: list[Entry], action: PastAction, loose: bool) -> bool:
    """SPEC 4 and 5 read out in fractions, from the entries recorded before the action."""
    state = refold(action.subject, [e for e in entries if e.recorded < action.moment])
    if action.reversibility not in ("reversible", "reversible_with_cost") or not state.n_samples:
        return False
    min_score, min_samples, min_grants, min_rate = {
        (True, "reversible"): ("0.4", 0, 0, "0.5"),
        (True, "reversible_with_cost"): ("0.4", 0, 0, "0.5"),
        (False, "reversible"): ("0.65", 20, 0, "0.9"),
        (False, "reversible_with_cost"): ("0.75", 10, 5, "0.9"),
    }[loose, action.reversibility]
    now, bad, granted = action.moment, state.last_bad_at, state.last_grant_at
    if bad is not None and (now < bad + DAY or granted is None or granted <= bad):
        return False
    half = Fraction(1, 2)
    without = (Fraction(0), half, half, half, Fraction(0))
    tool, approval, cost, clean, undo = (
        Fraction(num, den * 10**6) if den else nothing
        for num, den, nothing in zip(state.num, state.den, without, strict=True)
    )
    raw = (30 * tool + 25 * approval + 20 * cost + 15 * clean + 10 * (1 - undo)) / 100
    fresh = Fraction(0)
    if state.last_updated is not None:
        fresh = min(Fraction(1), Fraction(g(state.last_updated), g(now)))
    return (
        raw * fresh >= Fraction(min_score)
        and Fraction(state.den[4], g(now)) >= min_samples
        and Fraction(state.num[1], 10**6 * g(now)) >= min_grants
        and (not state.den[1] or approval >= Fraction(min_rate))
    )


def check(history: History) -> None:
    """Hold both thresholds against the literal reading, action by action."""
    trusts = [Trust("default", DEFAULT), Trust("loose", LOOSE)]
    for subject, one in history.items():
        for action, allowed in verdicts(subject, one, trusts):
            wanted = [literally_trusted(one.entries, action, loose) for loose in (False, True)]
            assert allowed == wanted, action


@given(tame_histories() | wild_histories(), st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_verdicts_are_those_of_the_specification(history: list[Draft], happened: bool) -> None:
    """Whatever the history, an action is judged as the text says, by what was recorded before."""
    check(read_history(log_of(told(history)), as_happened=happened))


@given(wild_histories())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_elapsed_after_each_entry_is_the_law(history: list[Draft]) -> None:
    """`elapsed/1` kept up to date entry by entry gives the bits of the law over the ledger."""
    for subject, one in read_history(log_of(told(history))).items():
        known = Known.nothing(subject)
        for number, entry in enumerate(one.entries, start=1):
            known.take(entry)
            law = elapsed_state(subject, one.entries[:number])
            assert known.elapsed.raw_score() == law.raw_score


def tally_of(story: Story, *, happened: bool = False) -> dict[str, Tally]:
    """What each policy would have done to a story."""
    compared = policies([Trust("trust", DEFAULT)])
    made = with_totals(
        judge(read_history(story.log, as_happened=happened), compared),
        [policy.name for policy in compared],
    )
    return {tally.policy: tally for tally in made if tally.scope is None}


def test_a_month_of_clean_days_saves_the_next_question() -> None:
    """After 30 clean days the default threshold lets a reversible step pass unasked."""
    story = Story()
    moment = story.clean_days(30)
    story.close("asked", moment, WRITE | {"via": "human"})
    made = tally_of(story)
    assert made["trust"].saved == made["trust"].questions == 1
    assert made["never"].saved == 0
    assert made["always"].allowed == made["trust"].actions == 31


def test_a_denial_does_not_hide_its_own_action() -> None:
    """A denial recorded before its trace closes counts against the policy that would allow it."""
    story = Story()
    moment = story.clean_days(30)
    story.answer("denied", moment, "denied", step_ids=["0"])
    story.close("denied", moment + MINUTE, WRITE | {"status": "not_executed"})
    story.close("next", moment + HOUR, WRITE)
    (_, *_, denied, after) = read_history(story.log)[NOTES].actions
    assert (denied.denied, denied.moment) == (True, moment + SECOND)
    made = tally_of(story)["trust"]
    assert made.denied == 1
    assert not after.denied


def test_a_brake_lasts_a_day_and_until_a_grant() -> None:
    """After a denial a day passes and a human grants before anything is allowed again."""
    story = Story()
    moment = story.clean_days(30)
    story.answer("denied", moment, "denied", step_ids=["0"])
    story.close("denied", moment + MINUTE, WRITE | {"status": "not_executed"})
    for hours in (12, 36):
        story.close(f"after{hours}", moment + hours * HOUR, WRITE)
    story.answer("granted", moment + 37 * HOUR, "granted", step_ids=["0"])
    story.close("granted", moment + 37 * HOUR + MINUTE, WRITE)
    story.close("at last", moment + 38 * HOUR, WRITE)
    one = read_history(story.log)[NOTES]
    allowed = {
        action.trace_id: yes
        for action, [yes] in verdicts(
            NOTES, one, [Trust("t", thresholds_with(min_approval_rate=0))]
        )
    }
    assert [allowed[t] for t in ("after12", "after36", "granted", "at last")] == [
        False,
        False,
        False,
        True,
    ]


def test_what_is_irreversible_or_unknown_is_allowed_by_no_number() -> None:
    """Only `always` lets an irreversible or an undeclared effect pass."""
    story = Story()
    for band in ({"reversibility": "irreversible"}, {"reversibility": None}):
        story.clean_days(1)
        step = {key: value for key, value in (WRITE | band).items() if value is not None}
        for day in range(40):
            story.close(f"{band}{day}", story.facts[0].recorded + day * DAY, step)
    for name, tally in tally_of(story).items():
        assert tally.allowed == (tally.actions if name == "always" else 0), name


def test_failures_undos_and_violations_are_told_apart() -> None:
    """Each kind of harm counts once an action, and `bad` counts an action once."""
    story = Story()
    moment = story.clean_days(30)
    story.close("bad", moment, WRITE | {"status": "error"}, WRITE, violations=[{"law": 1}])
    by = {"kind": "human", "id": "ann"}
    story.tell("undo.executed", moment + HOUR, trace_id="bad", by=by, step_ids=["1"])
    made = tally_of(story)["trust"]
    assert (made.failed, made.undone, made.violated, made.bad, made.denied) == (1, 1, 2, 2, 0)


def test_imported_history_is_judged_as_it_happened() -> None:
    """A log imported in one go has no past; told as it happened, its months count."""
    story = Story()
    moment = story.clean_days(30)
    story.close("asked", moment, WRITE | {"via": "human"})
    imported = Story()
    imported.facts = [
        type(fact)(moment + i, moment + i, fact.stamp, fact.event, fact.document)
        for i, fact in enumerate(story.facts)
    ]
    assert tally_of(imported, happened=True)["trust"] == tally_of(story)["trust"]


def test_scopes_are_counted_apart_and_together() -> None:
    """The row without a scope is the sum of the scopes, each counted in its own row."""
    rows = with_totals(
        [Tally("p", "b", actions=2, allowed=1), Tally("p", "a", actions=3, allowed=3)], ["p"]
    )
    assert [(row.scope, row.actions, row.allowed) for row in rows] == [
        (None, 5, 4),
        ("a", 3, 3),
        ("b", 2, 1),
    ]
