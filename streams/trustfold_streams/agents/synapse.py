"""The agent `synapse`: keeps the weights of every context, by the law of SPEC 6.

Reads the log of facts, whose self-plays are keyed by context; the table holds the states, the
compacted topic `synapse` the weights alone, as JSON for any language. An event that is read again
moves nothing: its row knows both the offset and the event id that it counted last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import faust
import msgspec
from faust.types import Message
from msgspec import Struct

from trustfold_projections.laws.self_play import Synapse, Weights, play
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import SelfPlayCompletedEvent
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.instants import DAY, format_instant
from trustfold_streams.agents.driver import ReadingApp
from trustfold_streams.agents.rows import (
    RAW,
    AckedTable,
    Crash,
    HighWater,
    Poison,
    Send,
    Sent,
    Tally,
    each,
    place,
)
from trustfold_streams.kafka.records import partition_of
from trustfold_streams.kafka.settings import KafkaSettings

NAME: Final = "synapse"
KEY: Final = b"self-play "
"""What the keys of self-plays begin with in the log of facts (laws.correlation.log_key_of)."""


class Row(Struct, kw_only=True):
    """A context in the table; `recorded` is when the log took the last self-play counted."""

    state: Synapse = msgspec.field(default_factory=Synapse)
    recorded: int = 0
    high_water: HighWater = {}


class SynapseRecord(Struct, frozen=True, kw_only=True):
    """A record of the topic `synapse`, in JSON: the weights of a context.

    `weights`: scope -> neuron -> weight in thousandths, 0 to 1000. `plays` counts the self-plays
    in them; `recorded` (RFC 3339) is when the log of facts took the last one.
    """

    context: str
    weights: dict[str, Weights]
    plays: int
    recorded: str


def row_from(packed: bytes | None) -> Row:
    """A context's row, or that of one of which nothing is known. Always a new object."""
    return Row() if packed is None else msgspec.msgpack.decode(packed, type=Row)


def record_of(context: str, row: Row) -> bytes:
    """A context's record for the topic `synapse`."""
    return msgspec.json.encode(
        SynapseRecord(
            context=context,
            weights=row.state.weights,
            plays=row.state.plays,
            recorded=format_instant(row.recorded),
        )
    )


class SynapseAgent:
    """Takes facts one by one; `send` writes key and value to a partition of `synapse`."""

    def __init__(
        self,
        settings: KafkaSettings,
        table: AckedTable,
        send: Send,
        memory: int | None,
    ) -> None:
        self.tally = Tally()
        self._partitions = settings.partitions
        self._table = table
        self._send = send
        self._memory = memory
        self._recorded: dict[int, int] = {}

    async def take(self, message: Message) -> Sequence[Sent]:
        """Let one fact move its context, if it is a self-play that was not counted yet."""
        if message.key is None or not message.key.startswith(KEY):
            self.tally.ignored += 1
            return ()
        fact = self._fact(message)
        event = fact.event
        assert isinstance(event, SelfPlayCompletedEvent)
        key = event.data.context.encode()
        row = row_from(self._table.get(key))
        if message.offset <= row.high_water.get(place(message), -1):
            # The row became durable, and then we ended: whether its record did, nobody knows.
            self.tally.repeated += 1
            return [await self._write(key, event.data.context, row)]
        if not play(row.state, fact, self._memory):
            self.tally.repeated += 1
            return ()
        self.tally.counted += 1
        row.recorded = fact.recorded
        row.high_water = {**row.high_water, place(message): message.offset}
        return [
            self._table.put(key, msgspec.msgpack.encode(row)),
            await self._write(key, event.data.context, row),
        ]

    async def _write(self, key: bytes, context: str, row: Row) -> Sent:
        self.tally.written += 1
        return await self._send(key, record_of(context, row), partition_of(key, self._partitions))

    def _fact(self, message: Message) -> Fact:
        try:
            event = decode_event(message.value or b"")
        except EventRefused as error:
            raise Poison(str(error)) from None
        if not isinstance(event, SelfPlayCompletedEvent):
            raise Poison(f"the key {message.key!r} is a self-play's, the event is none")
        # Faust makes seconds of the log's milliseconds; a partition's clock never goes back.
        moment = max(
            self._recorded.get(message.partition, 0), round(message.timestamp * 1e3) * 1000
        )
        self._recorded[message.partition] = moment
        return Fact(message.offset, moment, OWNER, event, message.value or b"")


def add_synapse(
    app: ReadingApp, settings: KafkaSettings, crash: Crash, *, history: bool = False
) -> SynapseAgent:
    """Register agent, table and topics with an application; the agent, for its tally.

    `history` lets self-plays in that are older than the memory of traces, as the worker does.
    """
    table = AckedTable.of(app, NAME, settings.partitions)
    own = app.topic(settings.topic("synapse"), **RAW)

    async def send(key: bytes, value: bytes, partition: int) -> Sent:
        return await own.send(key=key, value=value, partition=partition)

    memory = None if history else settings.memory_days * DAY
    agent = SynapseAgent(settings, table, send, memory)

    async def synapse(stream: faust.Stream[bytes]) -> None:
        await each(stream, agent.take, agent.tally, NAME, app.handover, crash)

    app.agent(app.topic(settings.topic("facts"), **RAW), name=NAME, concurrency=1)(synapse)
    return agent
