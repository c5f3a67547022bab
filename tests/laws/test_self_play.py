"""Synapse weights: bounded, ordered within a context, blind to repetitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustfold_projections.laws.self_play import (
    INITIAL,
    LOST,
    WEIGHT_MAX,
    WON,
    Neighbor,
    Synapse,
    neighbors,
    play,
)
from trustfold_schemas.amounts import MicroUsd
from trustfold_schemas.events import SelfPlayCompleted, SelfPlayCompletedEvent
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.instants import DAY, MINUTE, SECOND, Instant

NOW = 1_780_012_800_000_000  # 2026-05-29
MEMORY = 14 * DAY
NEURONS = ("alpha", "beta", "gamma")


def fact(
    event_id: str,
    winner: str = "alpha",
    loser: str = "beta",
    *,
    context: str = "budget",
    scope: str = "",
    source: str = "rt",
    recorded: int = NOW,
    time: int | None = None,
) -> Fact:
    """A self-play in the log of facts; it happened when it was recorded unless said."""
    data = SelfPlayCompleted(context, winner, loser, "judge", "why", MicroUsd(0), scope)
    event = SelfPlayCompletedEvent(
        specversion="1.0",
        id=event_id,
        source=source,
        time=Instant(recorded if time is None else time),
        data=data,
    )
    return Fact(0, recorded, OWNER, event, b"")


def states_of(log: Iterable[Fact], memory: int | None = None) -> dict[str, Synapse]:
    """The contexts after a log."""
    states: dict[str, Synapse] = defaultdict(Synapse)
    for one in log:
        assert isinstance(one.event, SelfPlayCompletedEvent)
        play(states[one.event.data.context], one, memory)
    return dict(states)


pairs = st.sampled_from([(a, b) for a in NEURONS for b in NEURONS if a != b])
logs = st.lists(
    st.tuples(st.integers(0, 12), pairs, st.sampled_from(["x", "y"]), st.sampled_from(["", "s"])),
    max_size=60,
).map(
    lambda told: [
        fact(str(event_id), *pair, context=context, scope=scope, recorded=NOW + at * SECOND)
        for at, (event_id, pair, context, scope) in enumerate(told)
    ]
)
"""Logs of two contexts and two scopes, in which ids repeat, often with other content."""


def literal(log: Sequence[Fact]) -> dict[tuple[str, str], dict[str, int]]:
    """SPEC 6 to the letter, over tuples: an oracle."""
    seen: set[tuple[str, str, str]] = set()
    weights: dict[tuple[str, str], dict[str, int]] = {}
    for one in log:
        event = one.event
        assert isinstance(event, SelfPlayCompletedEvent)
        name = (event.data.context, event.source, event.id)
        if name in seen:
            continue
        seen.add(name)
        known = weights.setdefault((event.data.context, event.data.scope), {})
        known[event.data.winner] = min(1000, known.get(event.data.winner, 500) + 50)
        known[event.data.loser] = max(0, known.get(event.data.loser, 500) - 25)
    return weights


def test_a_self_play_moves_winner_and_loser() -> None:
    """Both begin at 500 thousandths; the winner gains 50 and the loser loses 25."""
    state = Synapse()
    assert play(state, fact("1"))
    assert state.weights == {"": {"alpha": INITIAL + WON, "beta": INITIAL - LOST}}
    assert state.weights == {"": {"alpha": 550, "beta": 475}}


@given(logs)
def test_weights_are_those_of_the_specification(log: list[Fact]) -> None:
    """Any log gives the weights of a literal transcription, all of them in [0, 1000]."""
    found = {
        (context, scope): weights
        for context, state in states_of(log).items()
        for scope, weights in state.weights.items()
    }
    assert found == literal(log)
    assert all(0 <= weight <= WEIGHT_MAX for known in found.values() for weight in known.values())


@given(logs, st.randoms(use_true_random=False))
def test_contexts_do_not_mix(log: list[Fact], random: object) -> None:
    """However two contexts interleave, each has the weights that its own order gives it."""
    by_context: dict[str, list[Fact]] = {"x": [], "y": []}
    for one in log:
        assert isinstance(one.event, SelfPlayCompletedEvent)
        by_context[one.event.data.context].append(one)
    woven: list[Fact] = []
    queues = [iter(facts) for facts in by_context.values()]
    while queues:
        queue = random.choice(queues)  # type: ignore[attr-defined]
        following = next(queue, None)
        if following is None:
            queues.remove(queue)
        else:
            woven.append(following)
    assert weights(states_of(woven)) == weights(states_of(log))


def weights(states: dict[str, Synapse]) -> dict[str, dict[str, dict[str, int]]]:
    """What the states weigh."""
    return {context: state.weights for context, state in states.items()}


def test_order_within_a_context_matters() -> None:
    """Once clipped, a win before a loss is not a loss before a win."""
    wins = [fact(f"w{n}") for n in range(10)]  # alpha at 1000
    lost, won = fact("lost", "beta", "alpha"), fact("won", "alpha", "beta")
    one = states_of([*wins, won, lost])["budget"].weights[""]["alpha"]
    other = states_of([*wins, lost, won])["budget"].weights[""]["alpha"]
    assert (one, other) == (975, 1000)


def test_weights_are_clipped() -> None:
    """However long the run, a weight stays in [0, 1000] and moves back at once."""
    state = states_of(fact(str(n)) for n in range(40))["budget"]
    assert state.weights[""] == {"alpha": 1000, "beta": 0}
    play(state, fact("turn", "beta", "alpha"))
    assert state.weights[""] == {"alpha": 975, "beta": 50}


@given(logs)
def test_replay_equals_live(log: list[Fact]) -> None:
    """A state stored and loaded after every event, and a replay of all, give the same state."""
    live: dict[str, bytes] = {}
    for one in log:
        assert isinstance(one.event, SelfPlayCompletedEvent)
        context = one.event.data.context
        stored = live.get(context)
        state = Synapse() if stored is None else msgspec.msgpack.decode(stored, type=Synapse)
        play(state, one, MEMORY)
        live[context] = msgspec.msgpack.encode(state)
    loaded = {name: msgspec.msgpack.decode(one, type=Synapse) for name, one in live.items()}
    assert loaded == states_of(log, MEMORY)


@pytest.mark.parametrize("winner", ["alpha", "beta"])
def test_a_repeated_event_id_has_no_effect(winner: str) -> None:
    """The same id of the same source again changes nothing, be it a duplicate or a conflict."""
    state = states_of([fact("1")])["budget"]
    before = msgspec.msgpack.encode(state)
    loser = "beta" if winner == "alpha" else "alpha"
    assert not play(state, fact("1", winner, loser, recorded=NOW + SECOND))
    assert msgspec.msgpack.encode(state) == before


def test_ids_belong_to_their_source() -> None:
    """The same id of another source is another event, also where the two strings run together."""
    state = states_of([fact("1")])["budget"]
    assert play(state, fact("1", source="other"))
    assert play(state, fact("11", source="r"))
    assert play(state, fact("t1", source="r"))


@pytest.mark.parametrize(
    ("time", "moves"),
    [
        (NOW + 5 * MINUTE, True),
        (NOW + 5 * MINUTE + 1, False),
        (NOW - 13 * DAY, True),
        (NOW - 13 * DAY - 1, False),
    ],
)
def test_what_the_ledger_turns_away_moves_nothing(time: int, moves: bool) -> None:
    """An event ahead of the log by over five minutes, or older than the memory, has no effect."""
    state = Synapse()
    assert play(state, fact("1", time=time), MEMORY) is moves
    assert state == Synapse() or moves


def test_a_duplicate_cannot_outlive_its_memory() -> None:
    """Ids are dropped after the memory, and their repetitions are too old by then."""
    state = states_of([fact("1", time=NOW + 5 * MINUTE)], MEMORY)["budget"]
    later = NOW + MEMORY + 1
    assert play(state, fact("2", recorded=later), MEMORY)
    assert len(state.seen) == 1
    assert not play(state, fact("1", recorded=later, time=NOW + 5 * MINUTE), MEMORY)


def test_neighbors_are_sorted_by_weight_then_name() -> None:
    """The heaviest first; of equal weights the name decides; other scopes are not seen."""
    state = states_of([fact("1", "beta", "alpha"), fact("2", "delta", "gamma", scope="s")])
    play(state["budget"], fact("3", "epsilon", "aleph"))
    assert neighbors(state["budget"]) == [
        Neighbor("beta", 550),
        Neighbor("epsilon", 550),
        Neighbor("aleph", 475),
        Neighbor("alpha", 475),
    ]
    assert neighbors(state["budget"], "s") == [Neighbor("delta", 550), Neighbor("gamma", 475)]
    assert neighbors(state["budget"], "nobody") == []
