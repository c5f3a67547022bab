"""Synapse weights of a pipeline on Kafka: what the agent wrote to the compacted topic `synapse`.

A read sees what was committed when it began; the agent follows the facts a moment behind.
Where to look instead: `agents.synapse` keeps the weights and writes the topic.
"""

from __future__ import annotations

import contextlib

import msgspec
from msgspec import Struct

from trustfold_projections.laws.self_play import (
    Neighbor,
    Synapse,
    Weights,
    neighbors,
    weights_of_neuron,
)
from trustfold_streams.kafka.errors import UnsafeTopicsError
from trustfold_streams.kafka.reaching import require_topics, topics_there, translated
from trustfold_streams.kafka.scanning import scan
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record

TOPIC = "synapse"


class _Record(Struct, frozen=True):
    """What is read of a record of the topic; see `agents.synapse.SynapseRecord`."""

    context: str
    weights: dict[str, Weights]
    plays: int


class KafkaSynapse:
    """The weights of every context of a pipeline.

    Raises BrokerError where the broker fails, UnsafeTopicsError where the topic is missing or holds
    what no agent of ours wrote.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    async def read(self) -> dict[str, Synapse]:
        """Every context, as of the last record that is committed now."""
        found: dict[str, Synapse] = {}
        with translated(self._settings):
            require_topics(self._settings, await topics_there(self._settings), [TOPIC])
            partitions = range(self._settings.partitions)
            records = scan(self._settings, TOPIC, partitions, whole=False)
            async with contextlib.aclosing(records):
                async for record in records:
                    said = _said(record)
                    found[said.context] = Synapse(weights=said.weights, plays=said.plays)
        return found

    async def neighbors(self, context: str, scope: str = "") -> list[Neighbor]:
        """The neurons that played in a context and scope, the heaviest first."""
        return neighbors((await self.read()).get(context, Synapse()), scope)

    async def get_for_neuron(self, name: str, scope: str = "") -> dict[str, int]:
        """Context -> the weight of a neuron there, in thousandths."""
        return weights_of_neuron(await self.read(), name, scope)


def _said(record: Record) -> _Record:
    try:
        return msgspec.json.decode(record.value or b"", type=_Record)
    except msgspec.MsgspecError as error:
        raise UnsafeTopicsError(
            f"{record.topic}/{record.partition} at offset {record.offset} is no record of a "
            f"context: {error}"
        ) from None
