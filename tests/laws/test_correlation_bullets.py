"""Dead letters of correlation by example: ids, times, scopes, second closes, rollbacks, memory.

Each says which fact is turned away and why, what the message names, and what moves all the same.
Those of steps and feedback are in `test_correlation_step_bullets`; each document's own faults are
ingest's and are tested with the schemas.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.laws.bullets import ANN, NOW, WRITE, Data, Log, Said, T, step
from tests.oracles.batch import Sums, g
from tests.oracles.histories import rfc3339
from trustfold_projections.laws.correlation import Outcome, Verdict, correlate, key_of, new_state
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.instants import DAY, HOUR, MINUTE, format_instant
from trustfold_schemas.subject import Subject

HOME, TEAM = Subject("home", *WRITE[1:]), Subject("team", *WRITE[1:])
ALPHA, TEAMS_ALPHA = (
    Subject("", "neuron:alpha", "invoke"),
    Subject("team", "neuron:alpha", "invoke"),
)


@pytest.fixture
def log() -> Log:
    """An empty log."""
    return Log()


# ---- ids and times -----------------------------------------------------------------------------


def test_other_content_under_the_same_id_is_a_conflict(log: Log) -> None:
    """The first content of an id holds; the second moves nothing, the first is a duplicate."""
    log.close(step("a"), event_id="e")
    second = log.close(step("a", status="error"), event_id="e")
    assert second.turned_away == [(second.position, "conflict")]
    assert second.names("`e`", "`rt`")
    assert log.rates(WRITE)[0] == PPM
    assert log.close(step("a"), event_id="e").outcome.verdict is Verdict.DUPLICATE


def test_the_same_id_of_another_source_is_no_conflict(log: Log) -> None:
    """Ids are the publisher's own: the same id of another source is another event."""
    log.deny(event_id="e")
    assert log.deny(event_id="e", source="other").turned_away == []


def test_more_than_five_minutes_ahead_is_future(log: Log) -> None:
    """An event from the future moves nothing, and is welcome under its own id when it has come."""
    ahead = log.now + 6 * MINUTE
    early = log.close(step("a"), moment=ahead, event_id="e")
    assert early.turned_away == [(early.position, "future")]
    assert early.names(format_instant(early.position), format_instant(ahead))
    assert log.of(WRITE) == Sums()
    log.now = ahead
    log.close(step("a"), moment=ahead, event_id="e")
    assert log.of(WRITE).n_samples == 1


@pytest.mark.parametrize(("beyond", "reasons"), [(0, []), (1, ["future"])])
def test_five_minutes_ahead_is_the_limit(log: Log, beyond: int, reasons: list[str]) -> None:
    """Exactly five minutes ahead of its recorded moment is accepted, a microsecond more is not."""
    recorded = log.now + 1_000_000
    said = log.close(step("a"), moment=recorded + 5 * MINUTE + beyond)
    assert [reason for _, reason in said.turned_away] == reasons


# ---- scopes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["step", "close", "signals"])
def test_a_trace_has_one_scope(log: Log, kind: str) -> None:
    """The first scope of a trace holds; what comes from another moves nothing of either."""
    log.step(step("a"), scope="home")
    if kind == "step":
        said = log.step(step("b"), scope="team")
    elif kind == "close":
        said = log.close(step("a"), scope="team", violations=[{"law": 1}])
    else:
        said = log.signals(TEAM, undo_flag=1)
    assert said.turned_away == [(said.position, "scope_conflict")]
    assert said.names("`home`", "`team`", "`t`")
    log.close(step("a"), scope="home")
    assert (log.of(HOME).n_samples, log.of(HOME).last_bad_at, log.of(TEAM)) == (1, None, Sums())


def feedback_of_the_team(log: Log, kind: str, **named: Any) -> Said:
    """Feedback on the trace t from somebody who may speak of the scope `team` only."""
    if kind == "undo":
        return log.say("undo.executed", trace_id="t", by=ANN, scopes=("team",), **named)
    return log.say(
        "approval.decided", trace_id="t", decision=kind, decided_by=ANN, scopes=("team",), **named
    )


@pytest.mark.parametrize("kind", ["denied", "undo", "granted"])
@pytest.mark.parametrize("is_first", [False, True], ids=["after the close", "before the close"])
def test_feedback_from_outside_the_scope_of_a_trace(log: Log, kind: str, *, is_first: bool) -> None:
    """It moves nothing of the trace, in either order, but the named subjects that are its own."""
    if not is_first:
        log.close(step("a"), scope="home")
    said = feedback_of_the_team(log, kind, step_ids=["a"], subjects=[HOME, TEAM])
    last = log.close(step("a"), scope="home") if is_first else said
    assert last.turned_away == [(said.position, "scope_mismatch")]
    assert last.names("`home`", "`team`", "`t`")
    home, team = log.of(HOME), log.of(TEAM)
    assert (home.last_bad_at, home.last_grant_at, log.rates(HOME)[1]) == (None, None, None)
    assert log.rates(HOME)[4] == 0
    assert (team.last_bad_at, team.last_grant_at) == ((None, T) if kind == "granted" else (T, None))


@pytest.mark.parametrize("is_first", [False, True], ids=["after the close", "before the close"])
def test_an_exclusion_from_outside_the_scope_of_a_trace(log: Log, *, is_first: bool) -> None:
    """Nobody takes out the evidence of a trace that is not theirs, in either order."""
    about: Data = {"trace_id": "t", "by": "ann", "why": "a test", "scopes": ("team",)}
    if not is_first:
        log.close(step("a"), scope="home")
    said = log.say("trace.excluded", **about)
    last = log.close(step("a"), scope="home") if is_first else said
    assert last.turned_away == [(said.position, "scope_mismatch")]
    assert (log.of(HOME).n_samples, log.of(HOME).last_bad_at) == (1, None)


# ---- once for all ------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["close", "signals"])
@pytest.mark.parametrize("second", ["close", "signals"])
def test_a_trace_closes_once(log: Log, first: str, second: str) -> None:
    """Of two closes, signals among them, the first holds; the second does not even brake."""
    if first == "close":
        log.close(step("a"), event_id="one")
    else:
        log.signals(event_id="one")
    if second == "close":
        said = log.close(step("a"), event_id="two", violations=[{"law": 1}])
    else:
        said = log.signals(event_id="two", undo_flag=1)
    assert said.turned_away == [(said.position, "already_closed")]
    assert said.names("`t`", "`one`", "`rt`")
    assert (log.of(WRITE).n_samples, log.of(WRITE).last_bad_at) == (1, None)


def born(log: Log, event_id: str, **data: Any) -> Said:
    """The synthesis of the neuron alpha."""
    about: Data = {"neuron": "alpha", "breakdown": {}, "approved_by": "ann"}
    return log.say("neuron.synthesized", event_id=event_id, **(about | data))


def test_a_neuron_is_born_once(log: Log) -> None:
    """The first synthesis of a neuron holds; in another scope it is another neuron."""
    born(log, "one", reward=0.8)
    said = born(log, "two", reward=0.9)
    born(log, "three", reward=0.7, scope="team")
    assert said.turned_away == [(said.position, "already_seeded")]
    assert said.names("`alpha`", "`one`")
    assert (log.rates(ALPHA)[0], log.rates(TEAMS_ALPHA)[0]) == (800_000, 700_000)


def median(log: Log, effective_at: int, usd: float) -> Said:
    """A median of what writing notes costs."""
    about: Data = {"effect": WRITE.effect, "effective_at": rfc3339(effective_at)}
    return log.say("cost.median", **about, median_usd=usd, samples=20)


def test_a_median_is_set_once(log: Log) -> None:
    """The first median of an effect and a moment holds; of another moment it is another."""
    median(log, T, 0.10)
    said = median(log, T, 0.50)
    median(log, T + HOUR, 0.20)
    assert said.turned_away == [(said.position, "already_set")]
    assert said.names(f"`{WRITE.effect}`", format_instant(T))
    log.close(step("a"), cost_usd=0.05)
    assert log.rates(WRITE)[2] == 500_000
    log.close(step("a"), trace_id="u", scope="", cost_usd=0.20, moment=T + HOUR)
    assert log.of(WRITE).num[2] == PPM // 2 * g(T)


# ---- rollbacks ---------------------------------------------------------------------------------


def roll_back(log: Log, to: int, **more: Any) -> Said:
    """A rollback of the notes."""
    about: Data = {"subject": WRITE, "to": rfc3339(to), "by": "ann", "why": "abuse"}
    return log.say("subject.rolled_back", **(about | more))


def lift(log: Log, rollback_id: str) -> Said:
    """The lifting of a rollback of the notes."""
    about: Data = {"subject": WRITE, "rollback_id": rollback_id, "by": "ann", "why": "no abuse"}
    return log.say("rollback.lifted", **about)


def test_a_rollback_cannot_go_to_the_future(log: Log) -> None:
    """A rollback to after its recorded moment takes nothing out."""
    log.close(step("a"))
    to = log.now + MINUTE
    said = roll_back(log, to)
    assert said.turned_away == [(said.position, "future")]
    assert said.names(format_instant(said.position), format_instant(to))
    assert log.of(WRITE).n_samples == 1


def test_a_rollback_has_an_id_of_its_own(log: Log) -> None:
    """What is lifted is named by its id alone, so a second source cannot use it again."""
    closed = log.close(step("a"))
    roll_back(log, closed.position, event_id="r")
    said = roll_back(log, T, event_id="r", source="other")
    assert said.turned_away == [(said.position, "conflict")]
    assert said.names("`r`")
    assert log.of(WRITE).n_samples == 1


def test_an_unknown_rollback_cannot_be_lifted(log: Log) -> None:
    """An id that no rollback of the subject has lifts nothing; its true one still does."""
    log.close(step("a"))
    roll_back(log, T, event_id="r")
    said = lift(log, "q")
    assert said.turned_away == [(said.position, "unknown_rollback")]
    assert said.names("`q`", str(WRITE))
    assert log.of(WRITE).n_samples == 0


def test_a_lifted_rollback_cannot_be_lifted(log: Log) -> None:
    """What was lifted stays lifted, and the message says so."""
    log.close(step("a"))
    roll_back(log, T, event_id="r")
    lift(log, "r")
    said = lift(log, "r")
    assert said.turned_away == [(said.position, "unknown_rollback")]
    assert said.names("`r`", "lifted before")
    assert log.of(WRITE).n_samples == 1


# ---- the memory of traces ----------------------------------------------------------------------

OF_THE_PAST = {
    "trace.closed": {"trace_id": "t", "outcome": "done", "steps": [step("a")]},
    "signals.reported": {"trace_id": "t", "subject": WRITE, "tool_success": 1},
    "step.recorded": {"trace_id": "t", "step": step("a")},
    "approval.decided": {
        "trace_id": "t",
        "subjects": [WRITE],
        "decision": "denied",
        "decided_by": ANN,
    },
    "undo.executed": {"trace_id": "t", "subjects": [WRITE], "by": ANN},
    "trace.excluded": {"trace_id": "t", "by": "ann", "why": "a test"},
    "selfplay.completed": {
        "context": "c",
        "winner": "alpha",
        "loser": "beta",
        "critic": "gamma",
        "verdict": "shorter",
        "critic_cost_usd": 0,
    },
    "neuron.synthesized": {
        "neuron": "alpha",
        "reward": 0.8,
        "breakdown": {},
        "approved_by": "ann",
    },
    "subject.rolled_back": {"subject": WRITE, "to": rfc3339(T), "by": "ann", "why": "abuse"},
}


def remembered_for(memory: int | None, kind: str, age: int) -> Outcome:
    """What a correlation with such a memory answers to an event of this age."""
    event = {
        "specversion": "1.0",
        "id": "e",
        "source": "rt",
        "type": f"trustfold.{kind}.v1",
        "time": rfc3339(NOW - age),
        "data": OF_THE_PAST[kind],
    }
    document = msgspec.json.encode(event)
    fact = Fact(7, NOW, OWNER, decode_event(document), document)
    return correlate(new_state(key_of(fact.event)), fact, MedianTable(), memory)


@pytest.mark.parametrize("kind", OF_THE_PAST)
def test_what_is_older_than_the_memory_minus_a_day_is_too_old(kind: str) -> None:
    """With a memory of 14 days, what happened more than 13 days ago could be told a second time."""
    outcome = remembered_for(14 * DAY, kind, 13 * DAY + 1)
    refusal = outcome.refusals[0]
    assert (refusal.position, refusal.reason.value, outcome.entries) == (7, "too_old", ())
    expected = "13 days", format_instant(NOW), format_instant(NOW - 13 * DAY - 1)
    assert all(part in refusal.detail for part in expected)


@pytest.mark.parametrize("kind", OF_THE_PAST)
def test_what_is_as_old_as_the_memory_minus_a_day_counts(kind: str) -> None:
    """With a memory of 14 days, what happened exactly 13 days ago is accepted."""
    outcome = remembered_for(14 * DAY, kind, 13 * DAY)
    assert (outcome.verdict, outcome.refusals) == (Verdict.ACCEPTED, ())


@pytest.mark.parametrize("kind", OF_THE_PAST)
def test_nothing_is_too_old_for_an_unlimited_memory(kind: str) -> None:
    """The embedded store never forgets, so it takes in what happened years ago."""
    outcome = remembered_for(None, kind, 5 * 365 * DAY)
    assert (outcome.verdict, outcome.refusals) == (Verdict.ACCEPTED, ())
