"""Hand-computed brakes and refusals of the batch oracle: what comes when, and from whom."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.oracles.batch import (
    MINUTE,
    Contribution,
    Sums,
    batch,
    contributions,
)
from tests.oracles.histories import Draft, rearranged, tame_histories, told, wild_histories
from tests.oracles.pen import SHELL, TEAM_SHELL, WHOLE, WRITE, Log, T, step

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
