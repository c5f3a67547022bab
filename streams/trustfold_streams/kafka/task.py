"""A partition task: sole owner of one partition of a stage, exactly once in effect.

Its life: fence the previous owner (init_transactions), restore the states from their compacted
partition, read the position that stands beside them, then poll, law, one transaction, again.
Whatever is unexpected propagates and ends the process: memory is ahead of the log, so nothing may
be retried in place; the next owner restores what was committed last.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError
from msgspec import Struct

from trustfold_streams.kafka.clients import (
    LONE_FETCH_WAIT_MS,
    PartitionReader,
    lost_input,
    new_consumer,
    new_producer,
    record_of,
    send,
    started,
)
from trustfold_streams.kafka.errors import HangingTransactionError, LostInputError
from trustfold_streams.kafka.records import (
    POSITION,
    Output,
    pack_positions,
    unpack_positions,
)
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Batch, Record, Stage

log = logging.getLogger("trustfold.kafka.task")

RECORDS_MAX = 4_000
"""Records a batch."""
STALLED_SECONDS = 60.0
"""What has not come round in this time is stuck: max_poll_interval would not notice."""
REST_SECONDS_MAX = 0.03
"""How long at most a loop rests after a batch, see `rest`."""

Hook = Callable[[str, int, str], None]
"""Called at named moments (stage, partition, moment), so that tests can stop a worker there."""


def no_hook(_stage: str, _partition: int, _moment: str) -> None:
    """Nothing happens at the named moments."""


async def rest(began: float) -> None:
    """Rest after a batch as long as it took, so that the next one finds more than one record.

    A transaction an event would saturate a broker at a hundred events a second; a record that comes
    to an idle loop is taken at once. `began` is the monotonic time at which the batch did.
    """
    await asyncio.sleep(min(time.monotonic() - began, REST_SECONDS_MAX))


class Counters(Struct):
    """What a task has done since it was opened; times in seconds."""

    records: int = 0
    transactions: int = 0
    transaction_seconds: float = 0.0
    restored: int = 0
    restore_seconds: float = 0.0


class PartitionTask:
    """Partition `partition` of a stage, with its states and its transactional producer."""

    def __init__(
        self,
        settings: KafkaSettings,
        stage: Stage,
        partition: int,
        hook: Hook = no_hook,
    ) -> None:
        self.stage = stage
        self.partition = partition
        self.counters = Counters()
        self.alive_at = time.monotonic()
        self.next: dict[TopicPartition, int] = {}
        self._settings = settings
        self._hook = hook
        self._name = f"{settings.app_id}-{stage.name}-{partition}"
        self._reader = PartitionReader(settings, f"{self._name}-lookup")
        self.work = stage.task(partition, self._lookup)
        self._producer: AIOKafkaProducer | None = None
        self._consumer: AIOKafkaConsumer | None = None
        self._positions: dict[str, int] = {}
        self._running: asyncio.Task[None] | None = None
        self._stopping = False
        self._polling = False

    @property
    def inputs(self) -> list[TopicPartition]:
        """The partitions it consumes."""
        return [TopicPartition(topic, self.partition) for topic in self.stage.inputs]

    @property
    def opened(self) -> bool:
        """Whether its states are restored and its position is known."""
        return bool(self.next)

    @property
    def idle(self) -> bool:
        """Whether it waits for records, with none in hand."""
        return self._polling

    @property
    def _input(self) -> AIOKafkaConsumer:
        """Its own consumer of its inputs, which is in no group."""
        assert self._consumer is not None
        return self._consumer

    async def reached(self) -> Mapping[TopicPartition, int]:
        """Where the reading of its inputs is; beyond `next` are only control records, if idle."""
        return {place: await self._input.position(place) for place in self.inputs}

    # ---- life ----------------------------------------------------------------------------------

    def start(self) -> asyncio.Task[None]:
        """Run in the background; whoever calls watches the task for its end."""
        self._stopping = False
        self.alive_at = time.monotonic()
        self._running = asyncio.create_task(self._run(), name=self._name)
        return self._running

    async def pause(self) -> None:
        """Finish the batch in flight; keep states and producer. A new owner fences them first."""
        self._stopping = True
        if self._running is None:
            return
        if self._polling or not self.opened:
            self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    async def close(self) -> None:
        """Pause, and let the producer go."""
        await self.pause()
        await self._reader.stop()
        await self._stop_clients()

    async def _stop_clients(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()
        if self._producer is not None:
            await self._producer.stop()

    async def _run(self) -> None:
        if not self.opened:
            await self._open()
        for place in self.inputs:
            self._input.seek(place, self.next[place])
        while not self._stopping:
            self.alive_at = time.monotonic()
            records = await self._poll()
            if records:
                began = time.monotonic()
                await self._process(records)
                await rest(began)

    async def _open(self) -> None:
        if self._producer is not None:
            # An opening that was cancelled by a rebalance: begin it anew.
            await self._stop_clients()
            self.work = self.stage.task(self.partition, self._lookup)
        self._producer = new_producer(self._settings, self._name, self._name)
        # start() is init_transactions: the previous owner is fenced and its transaction ended.
        await self._producer.start()
        self._hook(self.stage.name, self.partition, "fenced")
        await self._restore()
        self._consumer = await started(
            new_consumer(
                self._settings,
                self._name,
                auto_offset_reset="none",
                fetch_max_wait_ms=LONE_FETCH_WAIT_MS,
            )
        )
        self._consumer.assign(self.inputs)
        self.next = await self._starting_offsets()
        self._hook(self.stage.name, self.partition, "restored")

    async def _restore(self) -> None:
        """Read the state partition up to its end; nobody else has a transaction open on it now."""
        began = time.monotonic()
        place = TopicPartition(self.stage.state_topic, self.partition)
        high = await self._high_watermark(place)
        consumer = await started(new_consumer(self._settings, f"{self._name}-restore"))
        try:
            consumer.assign([place])
            end = (await consumer.end_offsets([place]))[place]
            if end < high:
                raise HangingTransactionError(place.topic, place.partition, end, high)
            await consumer.seek_to_beginning(place)
            while await consumer.position(place) < end:
                self.alive_at = time.monotonic()
                got = await consumer.getmany(place, timeout_ms=200, max_records=20_000)
                for record in got.get(place, ()):
                    self._load(record)
                    self.counters.restored += 1
                self._hook(self.stage.name, self.partition, "restoring")
                await asyncio.sleep(0)
        finally:
            await consumer.stop()
        self.counters.restore_seconds = time.monotonic() - began

    def _load(self, record: Any) -> None:
        if record.key == POSITION:
            self._positions = unpack_positions(record.value)
        else:
            self.work.load(record.key, record.value)

    async def _high_watermark(self, place: TopicPartition) -> int:
        consumer = await started(
            new_consumer(
                self._settings, f"{self._name}-watermark", isolation_level="read_uncommitted"
            )
        )
        try:
            ends: Mapping[TopicPartition, int] = await consumer.end_offsets([place])
            return ends[place]
        finally:
            await consumer.stop()

    async def _starting_offsets(self) -> dict[TopicPartition, int]:
        """Where to go on: the row beside the states is the truth, no offset of a group."""
        beginning = await self._input.beginning_offsets(self.inputs)
        made: dict[TopicPartition, int] = {}
        for place in self.inputs:
            position = self._positions.get(f"{place.topic}/{place.partition}")
            if position is None:
                position = beginning[place]
                if position > 0:
                    raise LostInputError(place.topic, place.partition, 0, position)
            if position < beginning[place]:
                raise LostInputError(place.topic, place.partition, position, beginning[place])
            made[place] = position
        return made

    async def _lookup(
        self, topic: str, partition: int, first: int, end: int
    ) -> AsyncIterator[Record]:
        """What a stage asks for; reading much of a log takes long, and is no standing still."""
        async for record in self._reader.records(topic, partition, first, end):
            self.alive_at = time.monotonic()
            yield record

    # ---- one batch -----------------------------------------------------------------------------

    async def _poll(self) -> list[Record]:
        self._polling = True
        try:
            got = await self._input.getmany(*self.inputs, timeout_ms=1_000, max_records=RECORDS_MAX)
        except OffsetOutOfRangeError as error:
            raise await lost_input(self._input, error) from error
        finally:
            self._polling = False
        return [record_of(record) for place in sorted(got) for record in got[place]]

    async def _process(self, records: list[Record]) -> None:
        offsets = dict(self.next)
        for record in records:
            place = TopicPartition(record.topic, record.partition)
            if record.offset < offsets[place]:
                raise LostInputError(place.topic, place.partition, offsets[place], record.offset)
            offsets[place] = record.offset + 1
        batch = await self.work.process(records)
        began = time.monotonic()
        await self._commit(batch, offsets)
        self.next = offsets
        self.counters.records += len(records)
        self.counters.transactions += 1
        self.counters.transaction_seconds += time.monotonic() - began

    async def _commit(self, batch: Batch, offsets: dict[TopicPartition, int]) -> None:
        """One transaction: states with their position, and outputs."""
        producer = self._producer
        assert producer is not None
        positions = {f"{place.topic}/{place.partition}": at for place, at in offsets.items()}
        states = {**batch.states, POSITION: pack_positions(positions)}
        rows = [
            Output(self.stage.state_topic, self.partition, key, value)
            for key, value in states.items()
        ]
        await producer.begin_transaction()
        futures = await send(producer, [*rows, *batch.outputs])
        self._hook(self.stage.name, self.partition, "sent")
        # Before the commit, always: it succeeds although a batch of its own failed.
        await asyncio.gather(*futures)
        self._hook(self.stage.name, self.partition, "acknowledged")
        await producer.commit_transaction()
        self._hook(self.stage.name, self.partition, "committed")
