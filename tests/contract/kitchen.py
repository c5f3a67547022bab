"""Pipelines made ready ahead: most of the time that one takes to start is waiting.

A thread with an event loop of its own has the next pipeline at work, table complete, while a test
uses the last one; a test takes it over and gives it back to be ended.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar

from tests.broker.pipeline import complete, working
from trustfold_streams.kafka import topics
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.table import TableReader

T = TypeVar("T")

PARTITIONS = 2


class Ready:
    """Topics and the worker on them."""

    def __init__(self, settings: KafkaSettings, kitchen: Kitchen, things: AsyncExitStack) -> None:
        self.settings = settings
        self._kitchen = kitchen
        self._things = things

    async def end(self) -> None:
        """The worker leaves in order; what failed in it fails the test."""
        await asyncio.wrap_future(self._kitchen.run(self.end_here()))

    async def end_here(self) -> None:
        """The same, in the kitchen's own loop."""
        await self._things.aclose()


class Kitchen:
    """Has one pipeline ready. Use with `with`; nothing is made before somebody asks."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kitchen")
        self._next: Future[Ready] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._next is not None:
            self.run(self._next.result().end_here()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do something in the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def take(self) -> Ready:
        """The pipeline that is ready; the next one is begun."""
        mine = self._next or self.run(self._make())
        ready = await asyncio.wrap_future(mine)
        self._next = self.run(self._make())
        return ready

    async def _make(self) -> Ready:
        settings = KafkaSettings(self._bootstrap, f"t{uuid.uuid4().hex[:12]}.", PARTITIONS)
        await topics.create(settings)
        things = AsyncExitStack()
        await things.enter_async_context(working(settings))
        reader = TableReader(settings)
        await reader.start()
        try:
            await complete(reader)
        finally:
            await reader.stop()
        return Ready(settings, self, things)
