"""A self-play takes place only where it is worth one, is judged blindly, and is paid for."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.self_play.surroundings import (
    BUDGET,
    CENT,
    QUERY,
    TRACE,
    Judge,
    Table,
    always_first,
    longer,
)
from trustfold_projections.laws.self_play import CLOSE, INITIAL, LOST, WON, contest
from trustfold_schemas.subject import neuron_subject
from trustfold_streams.self_play import (
    CriticError,
    Judgement,
    Limits,
    Purse,
    SelfPlayCoordinator,
)
from trustfold_streams.self_play.coordinator import VERDICT_MAX

ALPHA, BETA = BUDGET


def test_the_winner_is_published_and_moves_weights_and_score(table: Table) -> None:
    """The longer answer wins, in both orders; the event moves what SPEC 6 and 3 say."""
    table.household.answers = {ALPHA: "12", BETA: "12 euro and 30 cent"}
    result = table.play(scope="ann")
    assert result is not None
    assert (result.winner, result.loser, result.critic, result.orders) == (BETA, ALPHA, "judge", 2)
    assert (result.critic_cost_usd, table.purse.remaining) == (0.02, 98 * CENT)
    assert dict(table.weights(scope="ann")) == {BETA: INITIAL + WON, ALPHA: INITIAL - LOST}
    assert table.weights() == []
    state = table.store.state(neuron_subject("ann", BETA))
    assert state is not None
    assert state.self_play_num == state.self_play_den * 10**6 > 0


def test_skipped_under_budget(table: Table) -> None:
    """The seed's row: 0.01 left, 0.05 needed, nothing runs, via is budget."""
    table.purse = Purse(CENT)
    table.judge = Judge(longer, 5 * CENT)
    assert table.play() is None
    assert table.skipped() == ("budget", 0)
    assert (table.purse.remaining, table.household.asked, table.judge.seen) == (CENT, [], [])


@pytest.mark.parametrize("reversibility", ["irreversible", None])
@pytest.mark.parametrize("who", [ALPHA, BETA, "third_wheel"])
def test_skipped_on_irreversible_effects(table: Table, who: str, reversibility: Any) -> None:
    """The seed's row: a candidate that sends messages; what nobody knows is no better."""
    table.household.effects[who] = {"telegram_send:*": reversibility}
    assert table.play((*BUDGET, "third_wheel")) is None
    assert table.skipped() == ("irreversible", 0)
    assert table.household.asked == []


def test_reversible_effects_are_no_hindrance(table: Table) -> None:
    """Neurons that write notes may play."""
    table.household.effects[ALPHA] = {
        "fs_write:./notes/*": "reversible_with_cost",
        "fs_read:./*": "reversible",
    }
    assert table.play() is not None


def test_the_critic_never_competes(table: Table) -> None:
    """The seed's row: as a candidate the critic is passed over, and leaves no contest of one."""
    result = table.play((*BUDGET, "judge"))
    assert result is not None
    assert result.critic not in (result.winner, result.loser)
    assert table.play((ALPHA, "judge")) is None
    assert table.skipped() == ("no_contest", 0)


@pytest.mark.parametrize("candidates", [(), (ALPHA,), (ALPHA, ALPHA)])
def test_one_neuron_is_no_contest(table: Table, candidates: tuple[str, ...]) -> None:
    """Two candidates at least, and different ones."""
    assert table.play(candidates) is None
    assert table.skipped() == ("no_contest", 0)


def test_neurons_far_apart_do_not_play(table: Table) -> None:
    """After two wins in a row the weights are 0.15 apart, and the question is settled."""
    assert table.play() is not None
    assert table.play() is not None
    assert table.play() is None
    assert table.skipped() == ("no_contest", 0)
    assert table.play(context="another") is not None


def test_the_critic_sees_no_names_and_both_orders(table: Table) -> None:
    """Answers come without the competitors' names, each once first and once second."""
    table.household.answers = {
        ALPHA: f"I am {ALPHA.upper()}, not {BETA}",
        BETA: f"{BETA} says more than the other one ever would",
    }
    assert table.play() is not None
    (one, other), (third, fourth) = table.judge.seen
    assert (one, other) == (fourth, third)
    assert not any(name in text.lower() for name in BUDGET for text in (one, other))


def test_one_order_where_the_money_is_for_one(table: Table) -> None:
    """With money for one judgement there is one, and nothing is overdrawn."""
    table.purse = Purse(CENT + CENT // 2)
    result = table.play()
    assert result is not None
    assert (result.orders, len(table.judge.seen)) == (1, 1)
    assert table.purse.remaining == CENT // 2


def test_a_first_judgement_that_is_dearer_than_said_is_the_only_one(table: Table) -> None:
    """Money is bounded: what was set apart for two is not spent on three."""
    table.judge.cost = 3 * CENT
    result = table.play()
    assert result is not None
    assert (result.orders, result.critic_cost_micro_usd) == (1, 3 * CENT)
    assert table.purse.remaining == 97 * CENT


def test_a_critic_that_looks_at_the_place_only_decides_nothing(table: Table) -> None:
    """Preferring the first answer in both orders is no preference; it costs what it cost."""
    table.judge = Judge(always_first)
    assert table.play() is None
    assert table.skipped() == ("critic_failed", 2 * CENT)
    assert (table.purse.remaining, table.weights()) == (98 * CENT, [])


class Odd:
    """What a broken critic may hand out: it looks like a judgement."""

    def __init__(self, preferred: Any, why: Any, cost: Any) -> None:
        self.preferred, self.why, self.cost = preferred, why, cost


@pytest.mark.parametrize(
    ("said", "cost"),
    [
        (RuntimeError("no answer"), CENT),
        (TimeoutError(), CENT),
        (CriticError("no answer", 3), 3),
        (CriticError("no answer", -3), 0),
        (None, CENT),
        ("neither", CENT),
        (Odd("third", "because", 7), 7),
        (Odd("first", None, 7), 7),
        (Odd("first", "because", -7), CENT),
        (Odd("first", "because", True), CENT),
        (Odd("first", "because", "7"), CENT),
    ],
)
def test_a_critic_that_fails_is_a_skip_and_costs_what_it_cost(
    table: Table, said: Any, cost: int
) -> None:
    """Where nobody says what the failure cost, what was estimated is paid."""
    table.judge.prefers = lambda *_: said
    assert table.play() is None
    assert table.skipped() == ("critic_failed", cost)
    assert table.purse.remaining == 100 * CENT - cost
    assert table.weights() == []


def test_a_critic_that_hangs_is_given_up(table: Table) -> None:
    """Its time is bounded, and what it may have cost is paid."""
    table.limits = Limits(critic_seconds=0.01)
    table.judge.waits.clear()
    assert table.play() is None
    assert table.skipped() == ("critic_failed", CENT)


@pytest.mark.parametrize("estimate", [RuntimeError("no list of prices"), -1, "5", 0.5, True, None])
def test_a_critic_without_an_estimate_is_not_asked(table: Table, estimate: Any) -> None:
    """Nobody is paid, or even asked, who does not say what it costs."""
    table.judge.estimated = estimate
    assert table.play() is None
    assert table.skipped() == ("critic_failed", 0)
    assert (table.household.asked, table.purse.remaining) == ([], 100 * CENT)


def test_a_critic_for_nothing_may_judge_on_an_empty_purse(table: Table) -> None:
    """What costs nothing fits every budget."""
    table.purse = Purse(0)
    table.judge = Judge(longer, 0)
    result = table.play()
    assert result is not None
    assert result.orders == 2


def test_effects_that_nobody_tells_in_time_are_not_reversible(table: Table) -> None:
    """A look-up that hangs is a skip, not a wait without end."""
    table.limits = Limits(lookup_seconds=0.01)
    table.household.hangs = True
    assert table.play() is None
    assert table.skipped()[0] in ("irreversible", "no_contest")


def test_a_neuron_that_hangs_or_fails_leaves_no_contest(table: Table) -> None:
    """Without two answers there is nothing to judge, and nothing to pay."""
    table.household.answers[BETA] = ConnectionError("gone")
    assert table.play() is None
    assert table.skipped() == ("no_contest", 0)
    table.skips.clear()
    table.household.answers[BETA] = " \n"
    assert table.play() is None
    assert table.skipped() == ("no_contest", 0)
    assert (table.purse.remaining, table.judge.seen) == (100 * CENT, [])


def test_what_is_cancelled_is_paid_for(table: Table) -> None:
    """A runtime that gives up has still asked the critic."""
    table.judge.waits.clear()

    async def give_up() -> None:
        coordinator = SelfPlayCoordinator(
            neurons=table.household,
            critic=table.judge,
            budget=table.purse,
            effects=table.household,
            weights=table.synapse,
            publish=table.publish,
        )
        running = asyncio.ensure_future(coordinator.maybe_run(QUERY, BUDGET, TRACE))
        await table.judge.called.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(give_up())
    assert table.purse.remaining == 99 * CENT


@pytest.mark.parametrize("accepted", [None, ALPHA, BETA])
def test_the_users_own_choice_is_told(table: Table, accepted: str | None) -> None:
    """Who took the winner's answer agrees with the critic; without feedback nobody knows."""
    result = table.play(accepted=accepted)
    assert result is not None
    wanted = None if accepted is None else accepted == result.winner
    assert result.users_accepted_winner is wanted


def test_odd_words_of_a_critic_are_kept_short_and_writable(table: Table) -> None:
    """A verdict is cut, and what no document may hold is replaced."""

    def odd(first: str, second: str) -> Judgement:
        preferred: Any = "first" if len(first) > len(second) else "second"
        return Judgement(preferred, "\ud800" * 5_000, CENT)

    table.judge.prefers = odd
    result = table.play()
    assert result is not None
    assert result.critic_verdict == "?" * VERDICT_MAX


@pytest.mark.parametrize("context", [None, "", 3, "c" * 257])
def test_a_trace_without_a_context_is_wrong_use(table: Table, context: Any) -> None:
    """It says which field is missing, instead of guessing one from the query."""
    with pytest.raises(ValueError, match="context"):
        table.play(context=context)


names = st.sampled_from(["a", "b", "c", "d", "judge"])


@given(st.lists(names), st.dictionaries(names, st.integers(0, 1000)))
def test_a_contest_is_between_close_candidates_that_are_not_the_critic(
    candidates: list[str], known: dict[str, int]
) -> None:
    """Whoever is chosen is a candidate and close; if none is chosen, no two are close."""
    found = contest(candidates, known, "judge")
    others = {name: known.get(name, INITIAL) for name in candidates if name != "judge"}
    if found is None:
        weights = sorted(others.values())
        assert all(b - a >= CLOSE for a, b in pairwise(weights))
    else:
        assert found.heavier.neuron != found.lighter.neuron
        assert {found.heavier.neuron, found.lighter.neuron} <= set(others)
        assert 0 <= found.heavier.weight - found.lighter.weight < CLOSE
