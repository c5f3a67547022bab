"""What a command holds open on a broker: a visit, and an event loop of its own to wait in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from trustfold_schemas.facts import OWNER, Stamp
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.closing import Closing
from trustfold_streams.kafka.reaching import quiet_client, topics_there, translated
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.visit import Visit

R = TypeVar("R")


class BrokerCalls(Closing):
    """A store on a broker in calls that wait; made by `open`. Use as a context manager.

    Raises BrokerError where the broker fails, and UnsafeTopicsError where topics are missing.
    """

    def __init__(
        self, settings: KafkaSettings, stamp: Stamp = OWNER, clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self.stamp = stamp
        self.clock: Clock = SystemClock() if clock is None else clock
        self._open = contextlib.ExitStack()
        self._open.enter_context(quiet_client())
        self._runner = self._open.enter_context(asyncio.Runner())
        try:
            self._visit = Visit(settings, self.clock, self._run(topics_there(settings)))
        except BaseException:
            self._open.close()
            raise

    @classmethod
    def open(
        cls, settings: KafkaSettings, stamp: Stamp = OWNER, clock: Clock | None = None
    ) -> Self:
        """Reach the broker. Raises BrokerUnreachableError where nobody answers."""
        return cls(settings, stamp, clock)

    def close(self) -> None:
        """Let go of the broker; what was acknowledged is there."""
        try:
            self._run(self._stop())
        finally:
            self._open.close()

    async def _stop(self) -> None:
        await self._visit.stop()

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        with translated(self.settings):
            return self._runner.run(work)
