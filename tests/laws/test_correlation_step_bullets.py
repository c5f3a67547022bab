"""Dead letters of correlation by example: steps, and feedback that names them or is too much.

Each says which fact is turned away and why, what the message names, and what moves all the same.
"""

from __future__ import annotations

import pytest

from tests.laws.bullets import SHELL, WRITE, Log, T, step
from tests.oracles.batch import Sums
from trustfold_projections.laws.correlation import Verdict
from trustfold_schemas.amounts import PPM
from trustfold_schemas.events import FEEDBACK_MAX, STEPS_MAX
from trustfold_schemas.instants import HOUR
from trustfold_schemas.subject import global_subject

WHOLE = global_subject("", "done")


@pytest.fixture
def log() -> Log:
    """An empty log."""
    return Log()


# ---- two contents of one step ------------------------------------------------------------------


def test_a_recorded_step_with_other_content_is_a_conflict(log: Log) -> None:
    """The first content of a step holds: the trace counts it as it was."""
    log.step(step("a"))
    said = log.step(step("a", SHELL, "error"))
    assert said.turned_away == [(said.position, "step_conflict")]
    assert said.names("`a`", "other content")
    log.close(step("a"))
    assert (log.rates(WRITE)[0], log.of(SHELL)) == (PPM, Sums())


def test_the_same_step_again_is_nothing(log: Log) -> None:
    """A step told twice under two ids is one step, and nothing is turned away."""
    log.step(step("a"))
    assert log.step(step("a")).turned_away == []


def test_a_listed_step_with_other_content_is_a_conflict(log: Log) -> None:
    """The close is a dead letter for its step, and closes the trace with the step as recorded."""
    log.step(step("a"))
    said = log.close(step("a", SHELL, "error"), step("b"))
    assert said.turned_away == [(said.position, "step_conflict")]
    assert said.names("`a`", "as it was recorded", "other content")
    assert said.outcome.remembered
    assert (log.rates(WRITE)[0], log.of(WHOLE).n_samples, log.of(SHELL)) == (PPM, 1, Sums())


# ---- steps that are none of the trace ----------------------------------------------------------


def test_a_step_that_the_close_does_not_list_is_turned_away_by_it(log: Log) -> None:
    """Recorded before the close, it is the dead letter; the close is accepted, without it."""
    unlisted = log.step(step("b", SHELL))
    said = log.close(step("a"))
    assert said.turned_away == [(unlisted.position, "unlisted_step")]
    assert said.names("`t`", "`b`")
    assert said.outcome.verdict is Verdict.ACCEPTED
    assert (log.of(WRITE).n_samples, log.of(SHELL)) == (1, Sums())


def test_a_step_after_a_close_that_does_not_list_it_is_turned_away(log: Log) -> None:
    """Recorded after the close it is none of the trace either."""
    log.close(step("a"))
    said = log.step(step("b", SHELL))
    assert said.turned_away == [(said.position, "unlisted_step")]
    assert said.names("`t`", "`b`")
    assert said.outcome.verdict is Verdict.REFUSED
    assert log.of(SHELL) == Sums()


def test_a_step_after_the_fold_is_late(log: Log) -> None:
    """Once as many steps are known as the close counts, further ones do not count."""
    log.close(step("a"), step_count=1)
    said = log.step(step("b", SHELL))
    assert said.turned_away == [(said.position, "late_step")]
    assert said.names("`t`", "`b`")
    assert log.of(SHELL) == Sums()


@pytest.mark.parametrize("step_count", [None, 1])
@pytest.mark.parametrize("is_denied_first", [False, True])
def test_steps_that_do_not_count_are_braked(
    log: Log, step_count: int | None, *, is_denied_first: bool
) -> None:
    """A denial of all brakes the subjects of unlisted and late steps too, in either order."""
    if is_denied_first:
        log.deny(T + HOUR)
    log.close(step("a"), step_count=step_count)
    log.step(step("b", SHELL))
    if not is_denied_first:
        log.deny(T + HOUR)
    assert (log.of(SHELL).last_bad_at, log.of(SHELL).n_samples) == (T + HOUR, 0)


# ---- feedback ----------------------------------------------------------------------------------


def test_feedback_on_an_unknown_step_is_turned_away_at_the_fold(log: Log) -> None:
    """Until the fold the step may still come; then the feedback is the dead letter."""
    denial = log.deny(step_ids=["a", "z"])
    assert denial.turned_away == []
    said = log.close(step("a"), step("b", SHELL))
    assert said.turned_away == [(denial.position, "unknown_step")]
    assert said.names("`t`", "`z`")
    assert not said.names("`a`")
    assert (log.of(WRITE).last_bad_at, log.rates(WRITE)[1]) == (T, 0)
    assert (log.of(SHELL).last_bad_at, log.rates(SHELL)[1]) == (None, None)


def test_feedback_on_an_unknown_step_is_turned_away_after_the_fold(log: Log) -> None:
    """After the fold it is known at once; the other steps it names are moved."""
    log.close(step("a"), step("b", SHELL))
    denial = log.deny(step_ids=["z", "a"])
    assert denial.turned_away == [(denial.position, "unknown_step")]
    assert denial.names("`t`", "`z`")
    assert (log.of(WRITE).last_bad_at, log.rates(WRITE)[1]) == (T, 0)
    assert (log.of(SHELL).last_bad_at, log.rates(SHELL)[1]) == (None, None)


@pytest.mark.parametrize("is_first", [False, True])
def test_feedback_on_unknown_steps_alone_moves_nothing(log: Log, *, is_first: bool) -> None:
    """A denial whose steps the trace does not have is not a denial of all."""
    if is_first:
        log.deny(step_ids=["z"])
    log.close(step("a"))
    if not is_first:
        log.deny(step_ids=["z"])
    rates = log.rates(WRITE)[1], log.rates(WHOLE)[1]
    assert (log.of(WRITE).last_bad_at, *rates) == (None, None, None)


def test_a_trace_has_so_much_feedback_and_no_more(log: Log) -> None:
    """The 1,001st moves nothing; the trace closes with the thousand before."""
    for _ in range(FEEDBACK_MAX):
        log.deny(subjects=[WRITE])
    said = log.deny(T + HOUR, subjects=[WRITE])
    assert said.turned_away == [(said.position, "too_much_feedback")]
    assert said.names("`t`", "1000")
    log.close(step("a"))
    assert (log.of(WRITE).n_samples, log.of(WRITE).last_bad_at) == (1, T)


# ---- too many steps ----------------------------------------------------------------------------


def many(count: int) -> list[dict[str, str]]:
    """So many steps of the shell, short enough for one document."""
    return [step(str(number), SHELL) for number in range(count)]


def test_a_trace_has_so_many_steps_and_no_more(log: Log) -> None:
    """With 10,000 steps known, one more is turned away before anything is made of it."""
    log.close(*many(STEPS_MAX))
    said = log.step(step("x"))
    assert said.turned_away == [(said.position, "too_many_steps")]
    assert said.names("`t`", "10000", "10001")
    assert (said.outcome.remembered, log.of(WRITE), log.of(SHELL).n_samples) == (False, Sums(), 1)


def test_a_close_that_makes_them_too_many_is_turned_away(log: Log) -> None:
    """Steps listed and recorded count together; the trace stays open for a close that fits."""
    log.step(step("x"))
    said = log.close(*many(STEPS_MAX), step_count=STEPS_MAX)
    assert said.turned_away == [(said.position, "too_many_steps")]
    assert said.names("`t`", "10000", "10001")
    assert log.of(WHOLE) == Sums()
    log.close(*many(STEPS_MAX - 1), step_count=STEPS_MAX)
    assert (log.of(WHOLE).n_samples, log.of(WRITE).n_samples) == (1, 1)
