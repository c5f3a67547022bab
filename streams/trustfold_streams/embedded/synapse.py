"""Synapse weights of a store in a file: replayed from its facts, and followed as they grow.

Nothing of them is kept in the file: the facts say all, and some ten thousand of them are replayed
in a second, once for each reader.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path

from trustfold_projections.laws.self_play import (
    Neighbor,
    Synapse,
    neighbors,
    play,
    weights_of_neuron,
)
from trustfold_schemas.events import SelfPlayCompletedEvent, type_of
from trustfold_streams.closing import Closing
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.database import connect, translated
from trustfold_streams.embedded.errors import StoreDamagedError

_TYPE = type_of(SelfPlayCompletedEvent).removeprefix(rows.TYPE_PREFIX)


class EmbeddedSynapse(Closing):
    """The weights of every context of a store. Opened for reading beside its writer; close it.

    Raises NoStoreError where there is no store yet.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._connection = connect(self.path, "read")
        self._states: dict[str, Synapse] = {}
        self._seen_up_to = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def read(self) -> Mapping[str, Synapse]:
        """Every context, as of the last fact that is durable now."""
        with self._lock, translated(self.path):
            for row in self._connection.execute(
                f"SELECT {rows.FACT_COLUMNS} FROM facts WHERE recorded > ? AND type = ? "
                "ORDER BY recorded",
                (self._seen_up_to, _TYPE),
            ):
                fact = rows.fact_of(row)
                if not isinstance(fact.event, SelfPlayCompletedEvent):
                    raise StoreDamagedError(
                        f"the fact recorded at {fact.recorded} is said to be a self-play and is "
                        "none; `trustfold verify` names every such row"
                    )
                play(self._states.setdefault(fact.event.data.context, Synapse()), fact)
                self._seen_up_to = fact.recorded
            return self._states

    async def neighbors(self, context: str, scope: str = "") -> list[Neighbor]:
        """The neurons that played in a context and scope, the heaviest first."""
        states = await asyncio.to_thread(self.read)
        return neighbors(states.get(context, Synapse()), scope)

    async def get_for_neuron(self, name: str, scope: str = "") -> dict[str, int]:
        """Context -> the weight of a neuron there, in thousandths."""
        return weights_of_neuron(await asyncio.to_thread(self.read), name, scope)
