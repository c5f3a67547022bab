"""The log `cost-median` as correlation reads it: without a group, and never behind its facts."""

from __future__ import annotations

import asyncio
import logging

from aiokafka import AIOKafkaConsumer, TopicPartition

from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import CostMedianEvent
from trustfold_streams.kafka.clients import new_consumer
from trustfold_streams.kafka.settings import KafkaSettings

log = logging.getLogger("trustfold.kafka.medians")

WAIT_SECONDS = 30.0


class MedianTail:
    """Follows the one partition of `cost-median`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._place = TopicPartition(settings.topic("cost-median"), 0)
        self._table = MedianTable()
        self._read = asyncio.Condition()
        self._consumer: AIOKafkaConsumer | None = None
        self._running: asyncio.Task[None] | None = None
        self._recorded = 0
        self._failed: asyncio.Future[None] | None = None

    @property
    def failed(self) -> asyncio.Future[None]:
        """Ends with the first error of the tail."""
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        return self._failed

    async def start(self) -> None:
        """Begin to read, from the start of the log."""
        self._consumer = new_consumer(self._settings, f"{self._settings.app_id}-medians")
        await self._consumer.start()
        self._consumer.assign([self._place])
        await self._consumer.seek_to_beginning(self._place)
        self._running = asyncio.create_task(self._run(), name="medians")
        self._running.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stop reading."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        if self._consumer is not None:
            await self._consumer.stop()

    async def table(self) -> MedianTable:
        """The table, once it holds everything that the log holds now.

        A fact read before this call was recorded before, so every median recorded before the fact
        is in it.
        """
        assert self._consumer is not None
        end = (await self._consumer.end_offsets([self._place]))[self._place]
        async with asyncio.timeout(WAIT_SECONDS):
            async with self._read:
                while await self._consumer.position(self._place) < end:
                    await self._read.wait()
        return self._table

    async def _run(self) -> None:
        assert self._consumer is not None
        while True:
            got = await self._consumer.getmany(self._place, timeout_ms=100)
            for record in got.get(self._place, ()):
                self._take(record.value or b"", record.timestamp * 1_000)
            async with self._read:
                self._read.notify_all()

    def _take(self, document: bytes, recorded: int) -> None:
        self._recorded = max(self._recorded, recorded)
        try:
            event = decode_event(document)
        except EventRefused as error:
            log.warning("a record of %s is no event: %s", self._place.topic, error)
            return
        if isinstance(event, CostMedianEvent):
            self._table.add(event.data, self._recorded)
        else:
            log.error("a record of %s is no median", self._place.topic)

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)
