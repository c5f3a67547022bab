"""A runtime around a self-play: neurons, a critic, effects, and an embedded store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.oracles.histories import RECORDED_FROM
from trustfold_projections.laws.self_play import Neighbor
from trustfold_schemas.events import Reversibility
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.synapse import EmbeddedSynapse
from trustfold_streams.self_play import (
    Judgement,
    Limits,
    Purse,
    SelfPlayCoordinator,
    SelfPlayResult,
    SelfPlaySkipped,
)

CENT = 10_000
"""In micro-USD."""
QUERY = "How much did we spend on bread?"
TRACE = {"trace_id": "t1", "context": "budget"}
BUDGET = ("budget_tracker", "finance_assistant")


class Household:
    """Neurons that answer, and what they do to the world."""

    def __init__(self) -> None:
        self.answers: dict[str, str | Exception] = {}
        self.effects: dict[str, dict[str, Reversibility | None]] = {}
        self.asked: list[str] = []
        self.hangs = False

    async def answer(self, neuron: str, query: str) -> str:
        """What the neuron was told to say, or something as long as its name."""
        assert query == QUERY
        self.asked.append(neuron)
        said = self.answers.get(neuron, f"12 euro{'!' * len(neuron)}")
        if isinstance(said, Exception):
            raise said
        return said

    async def touched(self, neuron: str) -> Mapping[str, Reversibility | None]:
        """The effects that it was told of."""
        if self.hangs:
            await asyncio.Event().wait()
        return self.effects.get(neuron, {})


def always_first(first: str, second: str) -> str:
    """A preference that looks at nothing but the place."""
    assert first or second
    return "first"


def longer(first: str, second: str) -> str:
    """A preference that does not look at places."""
    return "first" if len(first) > len(second) else "second"


class Judge:
    """A critic that prefers by a rule; it remembers what it saw."""

    def __init__(self, prefers: Callable[[str, str], Any], cost: int = CENT) -> None:
        self.name = "judge"
        self.prefers = prefers
        self.cost = cost
        self.estimated: Any = cost
        self.seen: list[tuple[str, str]] = []
        self.called = asyncio.Event()
        self.waits = asyncio.Event()
        self.waits.set()

    def estimate(self, query: str) -> int:
        """What it was told to estimate."""
        assert query == QUERY
        if isinstance(self.estimated, Exception):
            raise self.estimated
        odd: int = self.estimated  # a broken critic may say anything
        return odd

    async def judge(self, query: str, first: str, second: str) -> Judgement:
        """Its preference; what is no preference is handed out as it is."""
        assert query == QUERY
        self.seen.append((first, second))
        self.called.set()
        await self.waits.wait()
        said = self.prefers(first, second)
        if isinstance(said, Exception):
            raise said
        if said in ("first", "second"):
            return Judgement(said, f"{said} is shorter", self.cost)
        odd: Judgement = said  # a broken critic may hand out anything
        return odd


class Table:
    """A store in a file, and a coordinator on it."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(RECORDED_FROM)
        self.store = EmbeddedStore.open(folder / "trust.db", clock=self.clock)
        self.synapse = EmbeddedSynapse(folder / "trust.db")
        self.household = Household()
        self.judge = Judge(longer)
        self.purse = Purse(100 * CENT)
        self.skips: list[SelfPlaySkipped] = []
        self.limits = Limits()

    def close(self) -> None:
        """Let go of the file."""
        self.synapse.close()
        self.store.close()

    async def publish(self, document: bytes) -> None:
        """Take an event into the store."""
        self.store.publish(document)

    def play(
        self, candidates: Sequence[str] = BUDGET, accepted: str | None = None, **trace: Any
    ) -> SelfPlayResult | None:
        """Run a self-play, if it is worth one."""
        coordinator = SelfPlayCoordinator(
            neurons=self.household,
            critic=self.judge,
            budget=self.purse,
            effects=self.household,
            weights=self.synapse,
            publish=self.publish,
            clock=self.clock,
            limits=self.limits,
            skipped=self.skips.append,
        )
        return asyncio.run(
            coordinator.maybe_run(QUERY, candidates, TRACE | trace, accepted=accepted)
        )

    def skipped(self) -> tuple[str, int]:
        """Why the one self-play was skipped, and what it cost."""
        (skip,) = self.skips
        return skip.via, skip.cost

    def weights(self, context: str = "budget", scope: str = "") -> list[Neighbor]:
        """The weights of a context."""
        return asyncio.run(self.synapse.neighbors(context, scope))
