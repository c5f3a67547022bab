"""The log `cost-median` as correlation reads it: without a group, and never behind its facts."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from trustfold_projections.laws.medians import MedianTable
from trustfold_streams.kafka.apart import ApartLog
from trustfold_streams.kafka.clients import (
    LONE_FETCH_WAIT_MS,
    lost_input,
    new_consumer,
    record_of,
    started,
)
from trustfold_streams.kafka.settings import KafkaSettings

WAIT_SECONDS = 30.0


class MedianTail:
    """Follows the one partition of `cost-median`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._place = TopicPartition(settings.topic("cost-median"), 0)
        self._log = ApartLog(settings, "cost-median")
        self._read = asyncio.Condition()
        self._consumer: AIOKafkaConsumer | None = None
        self._asking: AIOKafkaConsumer | None = None
        self._running: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[None] | None = None

    @property
    def failed(self) -> asyncio.Future[None]:
        """Ends with the first error of the tail."""
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        return self._failed

    async def start(self) -> None:
        """Begin to read, from the start of the log."""
        name = f"{self._settings.app_id}-medians"
        self._consumer = new_consumer(
            self._settings, name, auto_offset_reset="none", fetch_max_wait_ms=LONE_FETCH_WAIT_MS
        )
        await self._consumer.start()
        # On a connection of its own: on the other a question waits for the fetch before it.
        self._asking = await started(new_consumer(self._settings, f"{name}-end"))
        self._consumer.assign([self._place])
        self._consumer.seek(self._place, 0)
        self._running = asyncio.create_task(self._run(), name="medians")
        self._running.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stop reading."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        for consumer in (self._consumer, self._asking):
            if consumer is not None:
                await consumer.stop()

    async def table(self) -> MedianTable:
        """The table, once it holds everything that the log holds now.

        A fact read before this call was recorded before, so every median recorded before the fact
        is in it.
        """
        assert self._consumer is not None
        assert self._asking is not None
        end = (await self._asking.end_offsets([self._place]))[self._place]
        async with asyncio.timeout(WAIT_SECONDS):
            async with self._read:
                while await self._consumer.position(self._place) < end:
                    await self._read.wait()
        return self._log.medians

    async def _run(self) -> None:
        assert self._consumer is not None
        while True:
            try:
                got = await self._consumer.getmany(self._place, timeout_ms=100)
            except OffsetOutOfRangeError as error:
                raise await lost_input(self._consumer, error) from error
            for record in got.get(self._place, ()):
                # What is refused is told of by `ApartStage`, once for all workers.
                self._log.take(record_of(record))
            async with self._read:
                self._read.notify_all()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)
