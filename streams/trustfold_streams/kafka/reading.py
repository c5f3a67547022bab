"""Reading whole topics once: what the command line and audits ask of a running pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from aiokafka import TopicPartition

from trustfold_projections.laws.correlation import TraceState
from trustfold_projections.laws.correlation.abandoned import CLOSE_EXPECTED
from trustfold_projections.laws.correlation.packed import unpack_key, unpack_state
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.ledger import Entry
from trustfold_schemas.packed import unpack_envelope
from trustfold_schemas.pending import Pending
from trustfold_schemas.subject import Subject
from trustfold_streams.kafka.clients import PartitionReader, new_consumer
from trustfold_streams.kafka.records import Letter, letter_from, partition_of
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record


class NumberedLetter:
    """A dead letter and its number: offset * partitions + partition."""

    def __init__(self, number: int, recorded: int, letter: Letter) -> None:
        self.number = number
        self.recorded = recorded
        self.letter = letter


class TopicReader:
    """Reads the topics of one pipeline, from their start to what is committed now."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._reader = PartitionReader(settings, f"{settings.app_id}-reader")

    async def _all(self, topic: str) -> AsyncIterator[Record]:
        for partition in range(self.settings.partitions):
            async for record in self._reader.records(self.settings.topic(topic), partition):
                yield record

    async def entries(self, subject: Subject) -> list[Entry]:
        """A subject's ledger entries, in log order, each once."""
        topic = self.settings.topic("ledger")
        partition = partition_of(subject.key, self.settings.partitions)
        seen: dict[int, tuple[int, int]] = {}
        made: list[Entry] = []
        async for record in self._reader.records(topic, partition):
            for located in unpack_envelope(record.value or b""):
                at = (located.offset, located.number)
                if at > seen.get(located.partition, (-1, -1)):
                    seen[located.partition] = at
                    if located.entry.subject == subject:
                        made.append(located.entry)
        return made

    async def ledger(self) -> AsyncIterator[tuple[int, int, int, Entry]]:
        """Every entry of the ledger as it stands, with (partition, offset, number) of its fact."""
        async for record in self._all("ledger"):
            for located in unpack_envelope(record.value or b""):
                yield located.partition, located.offset, located.number, located.entry

    async def dead_letters(self) -> list[NumberedLetter]:
        """All dead letters, in order of their numbers."""
        made = [
            NumberedLetter(
                record.offset * self.settings.partitions + record.partition,
                record.timestamp * 1_000,
                letter_from(record.value, record.headers),
            )
            async for record in self._all("dead-letters")
        ]
        return sorted(made, key=lambda one: one.number)

    async def pending(self, now: int) -> list[Pending]:
        """Every trace that is not folded, the oldest first."""
        rows: dict[bytes, bytes | None] = {}
        async for record in self._all("traces"):
            if record.key is not None and not record.key.startswith(b"\0"):
                rows[record.key] = record.value
        made: list[Pending] = []
        for key, value in rows.items():
            name = unpack_key(key)
            if value is None or name.kind != "trace" or not value[8]:
                continue
            state = unpack_state(name, value[9:])
            assert isinstance(state, TraceState)
            made.append(_pending(state, int.from_bytes(value[:8], "big"), now))
        return sorted(made, key=lambda one: (one.last_recorded, one.trace_id))

    async def ends(self) -> dict[str, int]:
        """The number of offsets in each of the own topics."""
        consumer = new_consumer(self.settings, f"{self.settings.app_id}-reader")
        await consumer.start()
        try:
            made: dict[str, int] = {}
            for topic in ("facts", "ledger", "dead-letters"):
                places = [
                    TopicPartition(self.settings.topic(topic), partition)
                    for partition in range(self.settings.partitions)
                ]
                made[topic] = sum((await consumer.end_offsets(places)).values())
            return made
        finally:
            await consumer.stop()
            await asyncio.sleep(0)


def _pending(state: TraceState, last: int, now: int) -> Pending:
    close = state.close
    step_count = None if close is None else close.step_count
    waiting = close is not None and step_count is not None
    never = close is None and state.feedback_count > 0 and now - last >= CLOSE_EXPECTED
    return Pending(
        trace_id=state.trace_id,
        scope=state.scope,
        steps=len(state.steps),
        step_count=step_count,
        feedback=state.feedback_count,
        first_recorded=last,
        last_recorded=last,
        age=max(0, now - last),
        waits_for=f"{(step_count or 0) - len(state.steps)} more steps" if waiting else "its close",
        reason=Reason.TRACE_NEVER_CLOSED if never else None,
    )
