"""Hand-computed sums of the batch oracle: what traces say, and people of them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.oracles.batch import (
    MINUTE,
    Contribution,
    Sums,
    batch,
    contributions,
    g,
    mantissas,
)
from tests.oracles.pen import ERA, SHELL, TEAM_SHELL, WHOLE, WRITE, Log, T, digest, step

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
