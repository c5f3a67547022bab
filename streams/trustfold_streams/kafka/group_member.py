"""A worker's member of a consumer group whose work may be repeated: join, run, end, leave."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener

from trustfold_streams.kafka.clients import new_consumer, new_producer
from trustfold_streams.kafka.settings import InputTopic, KafkaSettings


class GroupMember(ConsumerRebalanceListener, ABC):
    """Reads some input topics in a group and acknowledges what it did by `commit`.

    `failed` is set by an error that must end the worker. `_batch` is held while a batch is in
    flight; `alive_at` is when the loop last came round (monotonic seconds).
    """

    name: ClassVar[str]

    def __init__(self, settings: KafkaSettings, topics: Iterable[InputTopic]) -> None:
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.group = f"{settings.app_id}-{self.name}"
        self.refused: Counter[str] = Counter()
        self.alive_at = time.monotonic()
        self._settings = settings
        self._topics: dict[str, InputTopic] = {settings.topic(topic): topic for topic in topics}
        self._consumer: AIOKafkaConsumer | None = None
        self._producer: AIOKafkaProducer | None = None
        self._running: asyncio.Task[None] | None = None
        self._batch = asyncio.Lock()

    async def start(self) -> None:
        """Join the group and run in the background."""
        self._producer = new_producer(self._settings, self.group)
        await self._producer.start()
        self._consumer = new_consumer(
            self._settings,
            self.group,
            group=self.group,
            session_timeout_ms=self._settings.session_timeout_ms,
            heartbeat_interval_ms=self._settings.session_timeout_ms // 5,
            group_instance_id=self._settings.instance(self.name),
            rebalance_timeout_ms=30_000,
            max_poll_interval_ms=24 * 3_600_000,
            auto_offset_reset="none",
        )
        await self._consumer.start()
        self._consumer.subscribe(list(self._topics), listener=self)
        self._running = asyncio.create_task(self._run(), name=self.group)
        self._running.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Finish the batch in flight and leave the group."""
        if self._running is not None:
            async with self._batch:
                self._running.cancel()
            await asyncio.wait([self._running])
        if self._consumer is not None:
            await self._consumer.stop()
        if self._producer is not None:
            await self._producer.stop()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self.failed.done():
            self.failed.set_exception(error)

    @abstractmethod
    async def _run(self) -> None:
        """Read, work and acknowledge until cancelled."""
