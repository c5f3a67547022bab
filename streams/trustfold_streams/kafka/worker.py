"""A worker: the three stages, their progress, their timers, and the end of the process on error.

Raising an error through the event loop would leave a zombie in the groups for seconds, so what is
unexpected ends the process at once; a supervisor starts it again, and the transaction protocol is
the recovery.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence

from aiokafka import AIOKafkaProducer

from trustfold_schemas.instants import DAY, SECOND
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.kafka.apart import ApartStage
from trustfold_streams.kafka.clients import new_producer, send
from trustfold_streams.kafka.correlate import CorrelateStage
from trustfold_streams.kafka.errors import UnsafeTopicsError
from trustfold_streams.kafka.fold import FoldStage
from trustfold_streams.kafka.ingest import IngestStage
from trustfold_streams.kafka.manager import TaskManager
from trustfold_streams.kafka.medians import MedianTail
from trustfold_streams.kafka.records import Output, Progress
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.task import Hook, no_hook
from trustfold_streams.kafka.topics import check

log = logging.getLogger("trustfold.kafka.worker")

EXIT_RESTART = 70
"""The exit code of a worker that must be restarted."""

PROGRESS_SECONDS = 1.0
"""How often progress is measured; it is written while something moves, and every 5 seconds."""
PROGRESS_SILENCE_SECONDS = 5.0
SETTLE_SECONDS = 4.0
"""How long after a movement progress is still written each time: until the last stage has told
that it caught up with the first, a reader does not believe any of them."""
TIMER_SECONDS = 60.0


class Worker:
    """The pipeline's stages on this process."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        history: bool = False,
        clock: Clock | None = None,
        hook: Hook = no_hook,
    ) -> None:
        """`history` lets events in that are older than the memory of traces."""
        self.settings = settings
        self.clock = SystemClock() if clock is None else clock
        self._history = history
        self._hook = hook
        self._producer: AIOKafkaProducer | None = None
        self._loops: list[asyncio.Task[None]] = []
        self._written: dict[bytes, Progress] = {}
        self._restless_until = 0.0
        self.medians = MedianTail(settings)
        self.apart: ApartStage | None = None
        self.ingest: IngestStage | None = None
        self.managers: list[TaskManager] = []

    async def start(self) -> None:
        """Refuse topics that would break a promise; then join all groups."""
        findings = await check(self.settings)
        for finding in findings:
            if not finding.breaks_a_promise:
                log.warning("%s", finding)
        unsafe = [finding for finding in findings if finding.breaks_a_promise]
        if unsafe:
            raise UnsafeTopicsError(
                "these topics cannot be worked on:\n" + "\n".join(f"  {one}" for one in unsafe)
            )
        memory = self.settings.memory_days * DAY
        self._producer = new_producer(self.settings, f"{self.settings.app_id}-progress")
        await self._producer.start()
        await self.medians.start()
        correlate = CorrelateStage(
            self.settings.topic,
            self.settings.partitions,
            None if self._history else memory,
            memory,
            self.medians.table,
        )
        self.ingest = IngestStage(self.settings, self.clock, self._hook)
        self.managers = [
            TaskManager(self.settings, stage, self.clock, self._hook)
            for stage in (correlate, FoldStage(self.settings.topic))
        ]
        self.apart = ApartStage(self.settings)
        await self.ingest.start()
        await self.apart.start()
        for manager in self.managers:
            await manager.start()
        self._loops = [
            asyncio.create_task(self._every(PROGRESS_SECONDS, self._progress), name="progress"),
            asyncio.create_task(self._every(TIMER_SECONDS, self._timers), name="timers"),
        ]

    async def run(self) -> None:
        """Wait for the first failure of anything, and raise it."""
        assert self.ingest is not None
        assert self.apart is not None
        watched = [
            self.ingest.failed,
            self.apart.failed,
            self.medians.failed,
            *(manager.failed for manager in self.managers),
            *self._loops,
        ]
        done, _ = await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()

    async def stop(self) -> None:
        """Leave in order: what is in flight is finished first."""
        for loop in self._loops:
            loop.cancel()
        if self._loops:
            await asyncio.wait(self._loops)
        if self.ingest is not None:
            await self.ingest.stop()
        if self.apart is not None:
            await self.apart.stop()
        for manager in self.managers:
            await manager.stop()
        await self.medians.stop()
        if self._producer is not None:
            await self._producer.stop()

    # ---- progress and timers -------------------------------------------------------------------

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await work()
            await asyncio.sleep(seconds)

    async def _progress(self) -> None:
        """Write progress where something moved, and at least every 5 seconds; watch for stalls."""
        assert self.ingest is not None
        stages: Sequence[TaskManager | IngestStage] = (self.ingest, *self.managers)
        made: list[Progress] = []
        assert self.apart is not None
        if self.apart.stalled():
            raise RuntimeError(f"stage {self.apart.name} stalled")
        for stage in stages:
            stalled = stage.stalled()
            if stalled:
                raise RuntimeError(f"stage {stage_name(stage)} stalled in partitions {stalled}")
            made += await stage.progress()
        for manager in self.managers:
            await manager.keep_group()
        if any(self._moved(progress) for progress in made):
            self._restless_until = time.monotonic() + SETTLE_SECONDS
        due = [progress for progress in made if self._due(progress)]
        topic = self.settings.topic("progress")
        await self._send([Output(topic, 0, one.key, progress_json(one)) for one in due])
        self._written.update({one.key: one for one in due})

    def _moved(self, progress: Progress) -> bool:
        last = self._written.get(progress.key)
        return last is None or (progress.positions, progress.state) != (last.positions, last.state)

    def _due(self, progress: Progress) -> bool:
        if time.monotonic() < self._restless_until:
            return True
        silence = progress.written - self._written[progress.key].written
        return silence >= PROGRESS_SILENCE_SECONDS * SECOND

    async def _timers(self) -> None:
        now = self.clock.now()
        for manager in self.managers:
            for task in list(manager.tasks.values()):
                if task.opened:
                    outputs = await task.work.tick(now)
                    await self._send_keyed(outputs)

    async def _send(self, outputs: Sequence[Output]) -> None:
        if outputs:
            assert self._producer is not None
            await asyncio.gather(*await send(self._producer, outputs))

    async def _send_keyed(self, outputs: Sequence[Output]) -> None:
        """Publish events to input topics, which may have any number of partitions."""
        assert self._producer is not None
        for output in outputs:
            await self._producer.send_and_wait(
                output.topic, output.value, key=output.key, headers=list(output.headers)
            )


def stage_name(stage: TaskManager | IngestStage) -> str:
    """The name of a stage, for messages."""
    return stage.name if isinstance(stage, IngestStage) else stage.stage.name


def progress_json(progress: Progress) -> bytes:
    """A progress record as it is written."""
    import msgspec

    return msgspec.json.encode(progress)


def end_process(error: BaseException) -> None:
    """Log what happened and end the process at once, with the code that asks for a restart."""
    log.critical("%s: %s; the worker ends and must be restarted", type(error).__name__, error)
    for handler in logging.getLogger().handlers:
        handler.flush()
    os._exit(EXIT_RESTART)
