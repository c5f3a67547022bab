"""Synapse weights of a file: replayed from its facts, the same live, again and in any mixture."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.embedded.documents import closed, event, numbered, rolled_back
from tests.embedded.tampering import tamper
from tests.oracles.histories import RECORDED_FROM
from trustfold_projections.laws.self_play import INITIAL, LOST, WON, Synapse
from trustfold_schemas.scores import State, content_digest
from trustfold_schemas.subject import Subject, neuron_subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.errors import NoStoreError, StoreDamagedError
from trustfold_streams.embedded.synapse import EmbeddedSynapse

NEURONS = ("alpha", "beta", "gamma")


class Play(NamedTuple):
    """One self-play."""

    number: int
    context: str
    scope: str
    winner: str
    loser: str

    @property
    def document(self) -> bytes:
        """Its event."""
        data = {
            "context": self.context,
            "scope": self.scope,
            "winner": self.winner,
            "loser": self.loser,
            "critic": "judge",
            "verdict": "shorter",
            "critic_cost_usd": 0,
        }
        return event("selfplay.completed", f"play/{self.number}", data)


def weights(states: dict[str, Synapse]) -> dict[str, dict[str, dict[str, int]]]:
    """All weights, by context and scope."""
    return {context: state.weights for context, state in states.items()}


class Run(NamedTuple):
    """What a store came to."""

    weights: dict[str, dict[str, dict[str, int]]]
    digests: dict[Subject, str]


def run(folder: Path, plays: Sequence[Play], batch: int) -> Run:
    """Ingest in batches; a reader that follows must see what one that comes at the end sees."""
    path = folder / f"{len(list(folder.iterdir()))}.db"
    with EmbeddedStore.open(path, clock=ManualClock(RECORDED_FROM)) as store:
        store._connection.execute("PRAGMA synchronous=OFF")
        with EmbeddedSynapse(path) as following:
            for at in range(0, len(plays), batch):
                store.ingest(numbered(one.document for one in plays[at : at + batch]))
                following.read()
            live = weights(dict(following.read()))
        with EmbeddedSynapse(path) as late:
            assert weights(dict(late.read())) == live
        states = [state for state in store.states() if isinstance(state, State)]
        return Run(live, {state.subject: content_digest(state) for state in states})


pairs = st.permutations(NEURONS).map(lambda names: names[:2])
logs = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from(["", "s"]), pairs), min_size=1, max_size=25
).map(
    lambda told: [
        Play(number, context, scope, winner, loser)
        for number, (context, scope, (winner, loser)) in enumerate(told)
    ]
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs, st.randoms(use_true_random=False), st.integers(1, 9))
def test_any_mixture_of_contexts_comes_to_the_same(
    tmp_path: Path, plays: list[Play], chance: Random, batch: int
) -> None:
    """Contexts in any interleaving, each in its own order: the same weights and digests."""
    waiting = {one.context: [two for two in plays if two.context == one.context] for one in plays}
    mixed: list[Play] = []
    while waiting:
        context = chance.choice(sorted(waiting))
        mixed.append(waiting[context].pop(0))
        if not waiting[context]:
            del waiting[context]
    assert run(tmp_path, mixed, batch) == run(tmp_path, plays, len(plays))


def test_the_same_events_again_move_nothing(tmp_path: Path) -> None:
    """A repeated file is nothing new, to weights as to scores."""
    plays = [Play(number, "x", "", "alpha", "beta") for number in range(5)]
    assert run(tmp_path, [*plays, *plays], 3) == run(tmp_path, plays, 5)


def test_neighbors_and_the_weights_of_a_neuron(tmp_path: Path) -> None:
    """A context's neurons come heaviest first; a neuron's contexts are those of the scope."""
    path = tmp_path / "trust.db"
    plays = [
        Play(1, "x", "", "alpha", "beta"),
        Play(2, "y", "", "beta", "alpha"),
        Play(3, "z", "s", "beta", "alpha"),
    ]
    with EmbeddedStore.open(path, clock=ManualClock(RECORDED_FROM)) as store:
        store.ingest(numbered(one.document for one in plays))
        with EmbeddedSynapse(path) as synapse:
            assert asyncio.run(synapse.neighbors("x")) == [
                ("alpha", INITIAL + WON),
                ("beta", INITIAL - LOST),
            ]
            assert asyncio.run(synapse.neighbors("z")) == []
            assert asyncio.run(synapse.neighbors("nowhere")) == []
            assert asyncio.run(synapse.get_for_neuron("beta")) == {
                "x": INITIAL - LOST,
                "y": INITIAL + WON,
            }
            assert asyncio.run(synapse.get_for_neuron("ghost")) == {}


def test_a_rollback_of_a_score_moves_no_weight(tmp_path: Path) -> None:
    """Weights follow the log of self-plays; what a score is taken back to is another matter."""
    path = tmp_path / "trust.db"
    with EmbeddedStore.open(path, clock=ManualClock(RECORDED_FROM)) as store:
        store.ingest(numbered([Play(1, "x", "", "alpha", "beta").document]))
        subject = neuron_subject("", "alpha")
        store.ingest(numbered([rolled_back(subject, RECORDED_FROM - 1)]))
        state = store.state(subject)
        assert state is not None
        assert state.self_play_den == 0
        with EmbeddedSynapse(path) as synapse:
            assert dict(asyncio.run(synapse.neighbors("x"))) == {
                "alpha": INITIAL + WON,
                "beta": INITIAL - LOST,
            }


@pytest.mark.parametrize(
    "change",
    ["body = '{'", "body = (SELECT body FROM facts WHERE type != 'selfplay.completed.v1')"],
)
def test_a_damaged_self_play_is_said_and_not_skipped(tmp_path: Path, change: str) -> None:
    """Weights with a gap would be wrong weights."""
    path = tmp_path / "trust.db"
    with EmbeddedStore.open(path, clock=ManualClock(RECORDED_FROM)) as store:
        store.ingest(numbered([closed("t1"), Play(1, "x", "", "alpha", "beta").document]))
    tamper(path, f"UPDATE facts SET {change} WHERE type = 'selfplay.completed.v1'")
    with (
        EmbeddedSynapse(path) as synapse,
        pytest.raises(StoreDamagedError, match=r"is damaged|is\s+none"),
    ):
        synapse.read()


def test_without_a_store_there_are_no_weights(tmp_path: Path) -> None:
    """A reader makes no file."""
    with pytest.raises(NoStoreError):
        EmbeddedSynapse(tmp_path / "trust.db")
    assert list(tmp_path.iterdir()) == []
