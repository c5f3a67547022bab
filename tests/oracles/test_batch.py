"""Hand-computed cases for the batch oracle, so that it can be trusted to judge the product."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.oracles.batch import (
    MINUTE,
    Contribution,
    Subject,
    Sums,
    Told,
    batch,
    contributions,
    g,
    mantissas,
)
from tests.oracles.histories import Draft, rearranged, tame_histories, told, wild_histories

T = 1_776_861_296_789_012  # 2026-04-22T12:34:56.789012Z
NOW = T + 60 * 86_400_000_000
ERA = g(T)
WRITE, SHELL = ("", "fs_write", "fs_write:~/notes/*"), ("", "shell", "exec")
TEAM_SHELL = ("team", "shell", "exec")
WHOLE = ("", "runtime", "done")
HUMAN = {"kind": "human", "id": "ann"}


class Log:
    """A log of facts under the pen: each line one microsecond after the one before."""

    def __init__(self) -> None:
        self.facts: list[Told] = []

    def say(self, kind: str, moment: int = T, **data: Any) -> Told:
        """Record one event; `id`, `source`, `scopes` and `recorded` may be given."""
        given_id, source = data.pop("id", f"e{len(self.facts)}"), data.pop("source", "rt")
        scopes, recorded = data.pop("scopes", None), data.pop("recorded", NOW + len(self.facts))
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)
        event = {
            "specversion": "1.0",
            "id": given_id,
            "source": source,
            "type": f"trustfold.{kind}.v1",
            "time": time.isoformat(timespec="microseconds"),
            "data": data,
        }
        self.facts.append(Told(recorded, "runtime", None, scopes, event))
        return self.facts[-1]

    def close(self, *steps: dict[str, Any], moment: int = T, **data: Any) -> Told:
        """A `trace.closed` of trace t."""
        head = {"trace_id": "t", "outcome": "done", "steps": list(steps)}
        return self.say("trace.closed", moment, **(head | data))

    def step(self, step: dict[str, Any], moment: int = T, **data: Any) -> Told:
        """A `step.recorded` of trace t."""
        return self.say("step.recorded", moment, **({"trace_id": "t", "step": step} | data))

    def decide(self, decision: str, moment: int = T, **data: Any) -> Told:
        """A human's `approval.decided` on trace t."""
        head = {"trace_id": "t", "decision": decision, "decided_by": HUMAN}
        return self.say("approval.decided", moment, **(head | data))

    def undo(self, moment: int = T, **data: Any) -> Told:
        """A human's `undo.executed` on trace t."""
        return self.say("undo.executed", moment, **({"trace_id": "t", "by": HUMAN} | data))

    def aside(self, kind: str, moment: int = T, **data: Any) -> Told:
        """A `trace.excluded` or `trace.included` of trace t."""
        return self.say(f"trace.{kind}", moment, trace_id="t", by="op", why="test", **data)

    def signals(self, subject: Subject = WRITE, moment: int = T, **data: Any) -> Told:
        """A `signals.reported` of trace t."""
        head = {"trace_id": "t", "subject": list(subject)}
        return self.say("signals.reported", moment, **(head | data))

    def gives(self, subject: Subject) -> Contribution:
        """What trace t gives the subject."""
        return contributions(self.facts).get(("t", subject), Contribution())

    def state(self, subject: Subject) -> Sums:
        """The subject's final state."""
        return batch(self.facts)[subject]


@pytest.fixture
def log() -> Log:
    """An empty log."""
    return Log()


def step(name: str, subject: Subject = WRITE, status: str = "ok", **more: Any) -> dict[str, Any]:
    """A step of a subject."""
    return {"step_id": name, "tool": subject[1], "effect": subject[2], "status": status} | more


def digest(subject: Subject, state: Sums) -> str:
    """The content digest of SPEC 4 under `ewm/1`, in hex."""
    singles = (state.n_samples, state.self_play_num, state.self_play_den)
    moments = (state.last_updated, state.last_bad_at, state.last_grant_at)
    rest = [None if number is None else str(number) for number in (*singles, *moments)]
    content = ["ewm/1", subject, [str(n) for n in state.num], [str(n) for n in state.den], *rest]
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# Numbers


def test_mantissas_have_the_check_value() -> None:
    """M[0..4096] are the table of SPEC 4."""
    text = ",".join(str(m) for m in mantissas())
    assert hashlib.sha256(text.encode()).hexdigest().startswith("fb239e2f756c9722")


def test_weight_has_the_check_value() -> None:
    """At 2026-04-22T12:34:56.789012Z era is 76 and m is 1849056653."""
    assert g(T) == 1849056653 << 76


def test_one_ok_step_has_the_check_digest(log: Log) -> None:
    """The check value of SPEC 4: one closed trace with one ok step."""
    log.close(step("a"))
    assert digest(WRITE, log.state(WRITE)).startswith("e86a68985c133796")


def test_money_is_rounded_half_to_even(log: Log) -> None:
    """0.0000005 is 0 and 0.0000015 is 2 millionths, of the decimal text."""
    log.signals(tool_success=0.0000005, cost_efficiency=0.0000015)
    assert log.gives(WRITE).amounts == [0, 0, 2, 0, 0]


def test_instants_are_cut_to_microseconds_in_any_zone(log: Log) -> None:
    """Digits beyond the sixth are dropped and the offset is honoured."""
    fact = log.close(step("a"))
    fact.event["time"] = "2026-04-22T14:34:56.789012999+02:00"
    assert log.gives(WRITE).occurred == T


# Evidence


def test_each_subject_and_the_global_one_get_one_vote(log: Log) -> None:
    """Two ok steps and an error of one subject: a share of 666666, and n_samples 1."""
    log.close(step("a"), step("b"), step("c", WRITE, "error"), step("d", SHELL))
    assert log.gives(WRITE).amounts[0] == 666_666
    assert log.gives(SHELL).amounts[0] == 10**6
    assert log.gives(WHOLE).amounts[0] == 750_000
    assert {c.n_samples for c in contributions(log.facts).values()} == {1}


def test_sums_are_amounts_and_weights_times_g(log: Log) -> None:
    """Num and den are amount and weight times g(trace time), summed over traces."""
    log.close(step("a"))
    log.close(step("a", WRITE, "error"), trace_id="u", moment=T + 30 * 86_400_000_000)
    state = log.state(WRITE)
    assert state.num == [10**6 * ERA, 0, 0, 3 * 10**6 * ERA, 0]
    assert state.den == [3 * ERA, 0, 0, 3 * ERA, 3 * ERA]
    assert state.n_samples == 2


def test_unexecuted_steps_are_no_success_evidence(log: Log) -> None:
    """Without an executed step tool_success has weight 0 and the entry is not clean."""
    log.close(step("a", WRITE, "not_executed"))
    given = log.gives(WRITE)
    assert (given.amounts, given.weights) == ([0, 0, 0, 10**6, 0], [0, 0, 0, 1, 1])
    assert not given.clean


def test_an_empty_trace_has_a_global_entry_only(log: Log) -> None:
    """A close without steps gives the global subject constitution and undo evidence."""
    log.close()
    assert set(batch(log.facts)) == {WHOLE}
    assert log.gives(WHOLE).weights == [0, 0, 0, 1, 1]
    assert log.state(WHOLE).last_updated is None


@pytest.mark.parametrize(
    ("laws", "amount", "clean"), [([0], 0, False), ([3, 2], 0, False), ([3], 500_000, True)]
)
def test_constitution(log: Log, laws: list[int], amount: int, clean: bool) -> None:
    """Laws 0-2 broken give 0 and no freshness, law 3 alone half; each brakes every subject."""
    log.close(step("a"), violations=[{"law": law} for law in laws])
    given = log.gives(WRITE)
    assert (given.amounts[3], given.clean, given.bad_at) == (amount, clean, T)
    assert log.gives(WHOLE).bad_at is None


def test_a_failure_does_not_freshen(log: Log) -> None:
    """last_updated is the time of the last clean trace only, subject by subject."""
    log.close(step("a"), step("b", SHELL, "error"))
    assert log.state(WRITE).last_updated == T
    assert log.state(SHELL).last_updated is None
    assert log.state(WHOLE).last_updated is None


@pytest.mark.parametrize(
    ("samples", "price", "cost", "expected"),
    [
        (20, 0.5, 0.1, (800_000, 1)),
        (20, 0.5, 0.7, (0, 1)),
        (20, 0.3, 0.1, (666_667, 1)),
        (19, 0.5, 0.1, (0, 0)),
        (20, 0.0000004, 0.1, (0, 0)),
        (20, 0.5, None, (0, 0)),
    ],
)
def test_cost(
    log: Log, samples: int, price: float, cost: float | None, expected: tuple[int, int]
) -> None:
    """Cost efficiency is one minus cost over median, if known, positive and on 20 traces."""
    when = "2026-04-22T12:34:56.789012Z"
    median: dict[str, Any] = {"effect": WRITE[2], "samples": samples, "median_usd": price}
    log.say("cost.median", effective_at=when, **median)
    log.close(step("a"), cost_usd=cost)
    given, whole = log.gives(WRITE), log.gives(WHOLE)
    assert (given.amounts[2], given.weights[2]) == expected
    assert whole.weights[2] == 0


def test_the_median_in_force(log: Log) -> None:
    """The last effective at or before the trace's time; the first recorded; before the close."""
    for day, price in (("20", 9), ("21", 1), ("21", 5), ("23", 7)):
        when = f"2026-04-{day}T00:00:00Z"
        log.say("cost.median", effect=WRITE[2], median_usd=price, samples=20, effective_at=when)
    log.close(step("a"), cost_usd=0.25)
    when = "2026-04-22T00:00:00Z"
    log.say("cost.median", effect=WRITE[2], median_usd=50, samples=20, effective_at=when)
    assert log.gives(WRITE).amounts[2] == 750_000


def test_a_thin_median_in_force_hides_the_one_before(log: Log) -> None:
    """The last median is in force even when it rests on too few traces."""
    for day, samples in (("20", 30), ("21", 3)):
        when = f"2026-04-{day}T00:00:00Z"
        log.say("cost.median", effect=WRITE[2], median_usd=1, samples=samples, effective_at=when)
    log.close(step("a"), cost_usd=0.25)
    assert log.gives(WRITE).weights[2] == 0


# Approvals


def test_not_asked_is_no_evidence(log: Log) -> None:
    """Rules, policies and expired decisions leave weight 0 and move no moment."""
    log.close(step("a"))
    log.decide("expired")
    log.decide("denied", decided_by={"kind": "rule", "id": "r"})
    log.decide("granted", decided_by={"kind": "policy", "id": "p"})
    log.undo(by={"kind": "rule", "id": "r"})
    given = log.gives(WRITE)
    assert (given.weights[1], given.amounts[4]) == (0, 0)
    assert (given.bad_at, given.grant_at) == (None, None)


def test_granting_a_says_nothing_of_b(log: Log) -> None:
    """A decision that names step ids moves only those; any denial makes a step denied."""
    log.decide("granted", T - 5, step_ids=["a", "c"])
    log.close(step("a"), step("b"), step("c"), step("d", SHELL))
    log.decide("denied", T + 5, step_ids=["c"])
    assert (log.gives(WRITE).amounts[1], log.gives(WRITE).weights[1]) == (500_000, 1)
    assert log.gives(SHELL).weights[1] == 0
    assert (log.gives(WRITE).bad_at, log.gives(WRITE).grant_at) == (T + 5, T - 5)
    assert log.gives(WHOLE).amounts[1] == 500_000
    assert (log.gives(WHOLE).bad_at, log.gives(WHOLE).grant_at) == (None, None)


def test_a_denial_that_names_nothing_is_for_every_step(log: Log) -> None:
    """Every subject and the global one get rate 0, and every subject but the global a brake."""
    log.close(step("a"), step("b", SHELL))
    log.decide("denied", T + 1)
    assert [log.gives(s).weights[1] for s in (WRITE, SHELL, WHOLE)] == [1, 1, 1]
    assert [log.gives(s).amounts[1] for s in (WRITE, SHELL, WHOLE)] == [0, 0, 0]
    assert [log.gives(s).bad_at for s in (WRITE, SHELL, WHOLE)] == [T + 1, T + 1, None]


def test_a_grant_that_names_nothing(log: Log) -> None:
    """It counts for the global subject, and for the subject of a trace that has only one."""
    log.decide("granted", T - 1)
    log.decide("granted", T - 1, trace_id="u")
    log.close(step("a"), step("b"))
    log.close(step("a"), step("b", SHELL), trace_id="u")
    assert (log.gives(WRITE).amounts[1], log.gives(WRITE).grant_at) == (10**6, T - 1)
    both = contributions(log.facts)
    assert (both["u", WRITE].weights[1], both["u", WRITE].grant_at) == (0, None)
    assert both["u", WHOLE].amounts[1] == 10**6


def test_a_grant_that_names_nothing_waits_for_the_fold(log: Log) -> None:
    """While the trace is open it grants nobody."""
    log.step(step("a"))
    log.decide("granted")
    assert contributions(log.facts) == {}


def test_named_subjects_mean_their_steps_here(log: Log) -> None:
    """A named subject without steps in the trace gets its moment and no rate."""
    log.close(step("a"), step("b", SHELL, "not_executed"))
    log.decide("granted", T + 1, subjects=[list(SHELL), list(TEAM_SHELL)])
    assert (log.gives(SHELL).amounts[1], log.gives(SHELL).grant_at) == (10**6, T + 1)
    assert log.gives(WRITE).weights[1] == 0
    assert log.gives(TEAM_SHELL) == Contribution(grant_at=T + 1)


def test_steps_and_subjects_together_mean_both(log: Log) -> None:
    """step_ids and subjects add up."""
    log.close(step("a"), step("b"), step("c", SHELL))
    log.decide("denied", step_ids=["a"], subjects=[list(SHELL)])
    assert [log.gives(s).weights[1] for s in (WRITE, SHELL)] == [1, 1]
    assert [log.gives(s).bad_at for s in (WRITE, SHELL)] == [T, T]


def test_invisible_grants_leave_the_rate_alone(log: Log) -> None:
    """grants_visible false is left out of the rate and still brakes or grants."""
    log.close(step("a"))
    log.decide("denied", T + 1, grants_visible=False)
    log.decide("granted", T + 2, grants_visible=False)
    given = log.gives(WRITE)
    assert (given.weights[1], given.bad_at, given.grant_at) == (0, T + 1, T + 2)


def test_unknown_steps_move_nothing(log: Log) -> None:
    """Feedback that names a step nobody knows has no effect, not even on all."""
    log.close(step("a"))
    log.decide("denied", step_ids=["z"])
    log.undo(step_ids=["z"])
    assert (log.gives(WRITE).weights[1], log.gives(WRITE).bad_at) == (0, None)


# Undo


@pytest.mark.parametrize(
    ("late", "amount"), [(-20 * MINUTE, 10**6), (-1, 10**6), (0, 10**6), (1, 0)]
)
def test_undo_within_ten_minutes(log: Log, late: int, amount: int) -> None:
    """Before the trace and at the limit it sets undo_rate, a microsecond later it only brakes."""
    log.undo(T + 10 * MINUTE + late)
    log.close(step("a"))
    assert log.gives(WRITE).amounts[4] == amount
    assert log.gives(WHOLE).amounts[4] == amount
    assert log.gives(WRITE).bad_at == T + 10 * MINUTE + late


def test_undo_needs_an_executed_step(log: Log) -> None:
    """A step that never ran was not undone; its subject is braked all the same."""
    log.close(step("a"), step("b", SHELL, "not_executed"))
    log.undo(step_ids=["b"])
    assert [log.gives(s).amounts[4] for s in (WRITE, SHELL, WHOLE)] == [0, 0, 0]
    assert [log.gives(s).bad_at for s in (WRITE, SHELL)] == [None, T]


# Brakes


def test_brakes_come_before_and_without_a_close(log: Log) -> None:
    """A denial brakes the steps known then and later of a trace that never closes."""
    log.step(step("a"))
    log.decide("denied", T + 3)
    log.step(step("b", SHELL))
    expected = Sums(last_bad_at=T + 3)
    assert batch(log.facts) == {WRITE: expected, SHELL: expected}


def test_a_violation_brakes_the_step_it_names(log: Log) -> None:
    """With a step_id only that step's subject is braked; law 0-2 dims the trace for all."""
    log.close(step("a"), step("b", SHELL), violations=[{"law": 1, "step_id": "b"}])
    assert [log.gives(s).bad_at for s in (WRITE, SHELL)] == [None, T]
    assert [log.gives(s).amounts[3] for s in (WRITE, SHELL)] == [0, 0]


def test_a_violation_of_an_unknown_step_brakes_all_at_the_fold(log: Log) -> None:
    """Before the fold it waits for its step; at the fold it counts as naming none."""
    wrong = [{"law": 3, "step_id": "z"}]
    log.close(step("a"), step_count=2, violations=wrong)
    assert contributions(log.facts) == {}
    log.step(step("b", SHELL))
    log.step(step("c", ("", "late", "x")))
    assert {c.bad_at for s, c in contributions(log.facts).items() if s[1] != WHOLE} == {T}
    assert log.gives(("", "late", "x")) == Contribution(bad_at=T)


def test_a_violation_of_no_step_does_not_wait_for_the_fold(log: Log) -> None:
    """It brakes the steps known now and later from its close on."""
    log.close(step("a"), step_count=9, violations=[{"law": 3}])
    log.step(step("b", SHELL))
    assert batch(log.facts) == {WRITE: Sums(last_bad_at=T), SHELL: Sums(last_bad_at=T)}


def test_late_steps_can_still_be_braked(log: Log) -> None:
    """A late or unlisted step gives no evidence and yet its subject feels the feedback."""
    log.close(step("a"))
    log.step(step("b", SHELL))
    log.decide("granted", T + 1, step_ids=["b"])
    log.undo(T + 2, step_ids=["b"])
    assert log.gives(SHELL) == Contribution(bad_at=T + 2, grant_at=T + 1)
    assert log.gives(WHOLE).weights[1] == 0


def test_feedback_cannot_name_the_global_subject(log: Log) -> None:
    """The global subject has neither last_bad_at nor last_grant_at."""
    log.close(step("a"))
    log.decide("denied", subjects=[list(WHOLE)])
    log.decide("granted", subjects=[list(WHOLE)])
    assert (log.gives(WHOLE).bad_at, log.gives(WHOLE).grant_at) == (None, None)
    assert log.gives(WRITE).bad_at is None


def test_brakes_are_maxima(log: Log) -> None:
    """An older denial lowers nothing."""
    log.close(step("a"))
    log.decide("denied", T + 9)
    log.decide("denied", T + 3)
    assert log.state(WRITE).last_bad_at == T + 9


# Exclusion


def test_exclusion_zeroes_the_sums_and_brakes(log: Log) -> None:
    """Sums and n_samples go, freshness and moments stay; the subjects are braked."""
    log.close(step("a"))
    log.decide("granted", T + 1)
    log.aside("excluded", T + 5)
    expected = Sums(last_updated=T, last_bad_at=T + 5, last_grant_at=T + 1)
    assert log.state(WRITE) == expected
    assert log.state(WHOLE) == Sums(last_updated=T)


def test_the_last_aside_holds(log: Log) -> None:
    """By (time, id) and not by arrival; an inclusion takes no brake away."""
    log.aside("included", T + 6, id="x")
    log.aside("excluded", T + 5, id="y")
    log.close(step("a"))
    assert (log.gives(WRITE).n_samples, log.gives(WRITE).bad_at) == (1, T + 5)
    log.aside("excluded", T + 6, id="w")
    assert log.gives(WRITE).n_samples == 1
    log.aside("excluded", T + 6, id="x", source="other")
    assert log.gives(WRITE).n_samples == 0


# Correlation


def test_a_duplicate_and_a_conflict_do_nothing(log: Log) -> None:
    """The same (source, id) again has no effect, whatever it says; another trace may use it."""
    log.close(step("a"), id="x")
    log.decide("denied", id="x")
    log.close(step("a"), id="x", trace_id="u")
    assert log.gives(WRITE).bad_at is None
    assert log.state(WRITE).n_samples == 2


def test_what_is_refused_is_not_remembered(log: Log) -> None:
    """The ids of a step_conflict and of a second close are free for other facts."""
    log.close(step("a"))
    log.step(step("a", SHELL), id="x")
    log.close(step("b"), id="y")
    log.decide("denied", T + 1, id="x")
    log.decide("granted", T + 2, id="y")
    assert (log.gives(WRITE).bad_at, log.gives(WRITE).grant_at) == (T + 1, T + 2)


def test_a_late_step_is_remembered(log: Log) -> None:
    """Refused and yet known: its id is taken, and so is its step id."""
    log.close(step("a"))
    log.step(step("b", SHELL), id="x")
    log.decide("denied", id="x")
    log.step(step("b", ("", "other", "x")))
    log.decide("granted", step_ids=["b"])
    assert log.gives(WRITE).bad_at is None
    assert set(batch(log.facts)) == {WRITE, SHELL, WHOLE}


def test_the_future_is_refused_and_forgotten(log: Log) -> None:
    """More than 5 minutes ahead of recorded is refused; told again later it counts."""
    log.close(step("a"), moment=T + 5 * MINUTE + 1, recorded=T, id="x")
    assert batch(log.facts) == {}
    log.close(step("a"), moment=T + 5 * MINUTE + 1, recorded=T + 1, id="x")
    assert log.state(WRITE).n_samples == 1


def test_the_first_close_holds(log: Log) -> None:
    """A second close, and signals beside a close, are already_closed and leave no trace."""
    log.close(step("a"))
    log.close(step("b", SHELL), violations=[{"law": 0}])
    log.signals(undo_flag=1)
    log.decide("denied", step_ids=["b"])
    assert set(batch(log.facts)) == {WRITE, WHOLE}
    assert log.gives(WRITE).bad_at is None


def test_the_first_scope_holds(log: Log) -> None:
    """A close of another scope than the first step's is refused whole."""
    log.step(step("a"), scope="team")
    log.close(step("a"))
    assert batch(log.facts) == {}
    log.close(step("a"), scope="team")
    assert set(batch(log.facts)) == {("team", *WRITE[1:]), ("team", *WHOLE[1:])}


def test_the_first_content_of_a_step_holds(log: Log) -> None:
    """Other content is refused; a close that lists it holds with the known content."""
    log.step(step("a", WRITE, "error"))
    log.step(step("a", SHELL))
    log.close(step("a"))
    assert log.gives(WRITE).amounts[0] == 0
    assert set(batch(log.facts)) == {WRITE, WHOLE}


def test_an_unlisted_step_is_none_of_the_trace(log: Log) -> None:
    """Without step_count the trace has the listed steps, recorded before or after."""
    log.step(step("b", SHELL))
    log.close(step("a"))
    log.step(step("c", SHELL))
    assert set(batch(log.facts)) == {WRITE, WHOLE}
    log.decide("denied", T + 1)
    assert log.gives(SHELL) == Contribution(bad_at=T + 1)
    assert log.gives(WHOLE).amounts[0] == 10**6


def test_step_count_waits(log: Log) -> None:
    """It folds when so many are known; what comes later is late."""
    log.close(step("a"), step_count=2)
    assert batch(log.facts) == {}
    log.step(step("a"))
    assert batch(log.facts) == {}
    log.step(step("b", WRITE, "error"))
    log.step(step("c"))
    log.step(step("b", WRITE, "error"))
    assert log.gives(WRITE).amounts[0] == 500_000


def test_step_count_takes_all_recorded_before(log: Log) -> None:
    """A close that comes after more steps than it counts takes them all."""
    log.step(step("a"))
    log.step(step("b", WRITE, "error"))
    log.close(step_count=1)
    assert log.gives(WRITE).amounts[0] == 500_000


def test_the_service_folds_what_is_known(log: Log) -> None:
    """On a waiting trace it is no second close: time and outcome stay those of the first."""
    log.close(step("a"), step_count=3, moment=T)
    service = {"source": "trustfold", "id": "abandoned/t", "outcome": "abandoned"}
    log.close(step_count=1, moment=T + 9, **service)
    log.step(step("b", WRITE, "error"))
    log.step(step("c", WRITE, "error"))
    assert (log.gives(WRITE).amounts[0], log.gives(WRITE).occurred) == (10**6, T)
    assert set(batch(log.facts)) == {WRITE, WHOLE}


def test_the_service_closes_an_open_trace(log: Log) -> None:
    """Without a close before, the service's is the close, and a runtime's comes too late."""
    log.step(step("a"))
    service = {"source": "trustfold", "id": "abandoned/t", "outcome": "abandoned"}
    log.close(step_count=1, moment=T + 9, **service)
    log.close(step("a"))
    assert log.gives(WRITE).occurred == T + 9
    assert set(batch(log.facts)) == {WRITE, ("", "runtime", "abandoned")}


# Scopes of publishers


def test_feedback_from_another_scope(log: Log) -> None:
    """It moves nothing of the trace; subjects it names within its scopes get their moment."""
    ours = {"scopes": ("team",), "subjects": [list(WRITE), list(TEAM_SHELL)]}
    log.decide("denied", T + 1, **ours)
    log.close(step("a"))
    log.decide("granted", T + 2, **ours)
    log.undo(T + 3, scopes=("team",))
    log.aside("excluded", T + 4, scopes=("team",))
    given = log.gives(WRITE)
    assert (given.n_samples, given.weights[1], given.bad_at) == (1, 0, None)
    assert given.amounts[4] == 0
    assert log.gives(TEAM_SHELL) == Contribution(bad_at=T + 1, grant_at=T + 2)


def test_a_subject_outside_the_publishers_scopes(log: Log) -> None:
    """On a trace of its own it moves the trace's subject and not the foreign one."""
    log.close(step("a"))
    log.decide("denied", T + 1, scopes=("",), subjects=[list(WRITE), list(TEAM_SHELL)])
    assert log.gives(WRITE).bad_at == T + 1
    assert TEAM_SHELL not in batch(log.facts)


# Signals


def test_signals_are_ready_made_evidence(log: Log) -> None:
    """Present is weight 1, absent 0, but undo_flag; one sample and no global subject."""
    log.signals(tool_success=1, human_approval_delta=0.25)
    expected = Contribution([10**6, 250_000, 0, 0, 0], [1, 1, 0, 0, 1], 1, T, clean=True)
    assert contributions(log.facts) == {("t", WRITE): expected}


@pytest.mark.parametrize(
    ("data", "clean", "bad_at"),
    [
        ({"tool_success": 0.5}, False, None),
        ({"tool_success": 1, "undo_flag": 1}, True, T),
        ({"tool_success": 1, "undo_flag": 0.5}, True, None),
        ({"tool_success": 1, "constitution_clean": 0}, False, T),
        ({"tool_success": 1, "constitution_clean": 0.1}, True, None),
        ({}, False, None),
    ],
)
def test_signals_brake_and_freshen(
    log: Log, data: dict[str, Any], clean: bool, bad_at: int | None
) -> None:
    """undo_flag 1 or constitution_clean 0 brakes; tool_success 1 and no breach freshens."""
    log.signals(**data)
    assert (log.gives(WRITE).clean, log.gives(WRITE).bad_at) == (clean, bad_at)


def test_feedback_on_signals_moves_no_rate(log: Log) -> None:
    """Feedback gives the one subject its moments, and an exclusion its zeros."""
    log.decide("granted", T + 1)
    log.signals(tool_success=1)
    log.decide("denied", T + 2)
    log.undo(T + 3)
    given = log.gives(WRITE)
    assert given.weights == [1, 0, 0, 0, 1]
    assert (given.amounts[4], given.bad_at, given.grant_at) == (0, T + 3, T + 1)
    log.aside("excluded", T + 4)
    assert log.state(WRITE) == Sums(last_updated=T, last_bad_at=T + 4, last_grant_at=T + 1)


def test_steps_beside_signals_are_unlisted(log: Log) -> None:
    """A recorded step of a trace closed by signals gives nothing, and can be braked."""
    log.step(step("a", SHELL))
    log.signals(tool_success=1)
    log.decide("denied", T + 1)
    assert log.gives(SHELL) == Contribution(bad_at=T + 1)
    assert log.gives(WRITE).bad_at == T + 1


# Neurons


def play(log: Log, **data: Any) -> None:
    """Record one self-play of alpha against beta."""
    head: dict[str, Any] = {"context": "c", "winner": "alpha", "loser": "beta", "critic": "gamma"}
    rest = {"verdict": "shorter", "critic_cost_usd": 0.001}
    log.say("selfplay.completed", **(head | rest | data))


def test_self_play_is_kept_apart(log: Log) -> None:
    """It moves the winner's self_play sums only; a rejected winner adds weight alone."""
    play(log)
    play(log, users_accepted_winner=False)
    play(log, id="e0")
    play(log, id="e0", context="other", users_accepted_winner=True)
    state = Sums(self_play_num=2 * 10**6 * ERA, self_play_den=3 * ERA)
    assert batch(log.facts) == {("", "neuron:alpha", "invoke"): state}


def test_synthesis_seeds_once_per_scope(log: Log) -> None:
    """Four amounts R and undo 10**6 - R; the second seed of a neuron is refused."""
    rest: dict[str, Any] = {"breakdown": {"det_pass_rate": 1}, "approved_by": "ann"}
    log.say("neuron.synthesized", neuron="alpha", reward=0.8, **rest)
    log.say("neuron.synthesized", neuron="alpha", reward=0.1, **rest)
    log.say("neuron.synthesized", neuron="alpha", reward=0.7, scope="team", **rest)
    state = log.state(("", "neuron:alpha", "invoke"))
    assert state.num == [800_000 * ERA] * 4 + [200_000 * ERA]
    assert (state.den, state.n_samples, state.last_updated) == ([ERA] * 5, 1, T)
    assert log.state(("team", "neuron:alpha", "invoke")).n_samples == 1


# Histories

quietly = settings(deadline=None, suppress_health_check=list(HealthCheck))


@quietly
@given(st.data())
def test_tame_histories_forget_their_order(data: st.DataObject) -> None:
    """Any permutation and duplication of a tame history gives the same sums."""
    history = data.draw(tame_histories())
    other = data.draw(rearranged(history))
    assert batch(told(other)) == batch(told(history))


@quietly
@given(st.one_of(tame_histories(), wild_histories()))
def test_states_stay_in_range(history: list[Draft]) -> None:
    """Always 0 <= num <= den * 10**6 and n_samples >= 0; repeating the log adds nothing."""
    facts = told(history)
    assert facts == sorted(facts, key=lambda fact: fact.recorded)
    for state in batch(facts).values():
        pairs = zip(state.num, state.den, strict=True)
        assert all(0 <= num <= den * 10**6 for num, den in pairs)
        assert state.n_samples >= 0


@quietly
@given(wild_histories())
def test_the_global_subject_is_never_braked(history: list[Draft]) -> None:
    """It has neither last_bad_at nor last_grant_at, whatever happens."""
    for (_, tool, _), state in batch(told(history)).items():
        if tool == "runtime":
            assert (state.last_bad_at, state.last_grant_at) == (None, None)
