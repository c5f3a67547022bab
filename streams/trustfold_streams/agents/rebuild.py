"""Making the table of `synapse` anew from the log of facts, which knows every self-play.

What it holds follows from the facts alone, so nothing is lost by it: for a table that was damaged,
or whose changelog took a late word of a worker that had been frozen. No agent may be at work.
"""

from __future__ import annotations

import asyncio

import msgspec

from trustfold_projections.laws.self_play import play
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import CallerError
from trustfold_schemas.events import SelfPlayCompletedEvent
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.instants import DAY
from trustfold_streams.agents.synapse import KEY, Row, record_of
from trustfold_streams.kafka.admin import connected
from trustfold_streams.kafka.clients import new_producer, send
from trustfold_streams.kafka.records import Output, partition_of
from trustfold_streams.kafka.scanning import scan
from trustfold_streams.kafka.settings import KafkaSettings

CHANGELOG = "agents-synapse-changelog"


class AgentsAtWorkError(CallerError):
    """Somebody has the table in memory and would write over what is made anew."""


async def rebuild_synapse(settings: KafkaSettings, group: str, *, history: bool = False) -> int:
    """Write every context's row and record again; how many there are.

    `history` as the workers have it. Raises AgentsAtWorkError while the agents' group has members.
    """
    async with connected(settings) as admin:
        members = await admin.members(group)
    if members:
        raise AgentsAtWorkError(
            f"the group {group} has members ({members}): stop every worker, or start it with "
            "--no-agents, before the weights are made anew"
        )
    memory = None if history else settings.memory_days * DAY
    outputs: list[Output] = []
    for partition in range(settings.partitions):
        for context, row in (await _rows(settings, partition, memory)).items():
            key = context.encode()
            packed = msgspec.msgpack.encode(row)
            place = partition_of(key, settings.partitions)
            outputs += [
                Output(settings.topic(CHANGELOG), partition, key, packed),
                Output(settings.topic("synapse"), place, key, record_of(context, row)),
            ]
    producer = new_producer(settings, f"{settings.app_id}-rebuild")
    await producer.start()
    try:
        await asyncio.gather(*await send(producer, outputs))
    finally:
        await producer.stop()
    return len(outputs) // 2


async def _rows(settings: KafkaSettings, partition: int, memory: int | None) -> dict[str, Row]:
    """The contexts of a partition of the facts, as the agent would have them by now."""
    rows: dict[str, Row] = {}
    recorded = 0
    async for record in scan(settings, "facts", [partition]):
        if record.key is None or not record.key.startswith(KEY):
            continue
        recorded = max(recorded, record.timestamp * 1_000)
        event = decode_event(record.value or b"")
        assert isinstance(event, SelfPlayCompletedEvent)
        row = rows.setdefault(event.data.context, Row())
        fact = Fact(record.offset, recorded, OWNER, event, record.value or b"")
        if play(row.state, fact, memory):
            row.recorded = recorded
            row.high_water = {f"{record.topic}/{partition}": record.offset}
    return {context: row for context, row in rows.items() if row.state.plays}
