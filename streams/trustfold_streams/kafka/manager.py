"""A stage on one worker: a member of the stage's group, and a task for each partition it has."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from trustfold_streams.clock import Clock
from trustfold_streams.kafka.clients import Watermarks, new_consumer
from trustfold_streams.kafka.records import Progress
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Stage
from trustfold_streams.kafka.task import STALLED_SECONDS, Hook, PartitionTask, no_hook

log = logging.getLogger("trustfold.kafka.manager")

REBALANCE_TIMEOUT_MS = 30_000
LAST_WORD_SECONDS = 2.0
"""So long a worker that ends tries to tell tools where it was."""


class TaskManager(ConsumerRebalanceListener):
    """Turns a group's assignments into partition tasks.

    `failed` ends with the first error of any of them, or of the listener, whose exceptions the
    client would only log.
    """

    def __init__(
        self, settings: KafkaSettings, stage: Stage, clock: Clock, hook: Hook = no_hook
    ) -> None:
        self.stage = stage
        self.tasks: dict[int, PartitionTask] = {}
        self.rebalances = 0
        self.group = f"{settings.app_id}-{stage.name}"
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settings = settings
        self._clock = clock
        self._hook = hook
        self._consumer: AIOKafkaConsumer | None = None
        self._watermarks = Watermarks(settings, f"{self.group}-ends")
        self._targets: dict[int, tuple[int, dict[TopicPartition, int]]] = {}
        self._caught_up: dict[int, int] = {}
        self._told: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        """Join the group."""
        self._consumer = new_consumer(
            self._settings,
            self.group,
            group=self.group,
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=self._settings.session_timeout_ms,
            heartbeat_interval_ms=self._settings.session_timeout_ms // 5,
            group_instance_id=self._settings.instance(self.stage.name),
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            max_poll_interval_ms=24 * 3_600_000,
            auto_offset_reset="none",
        )
        await self._watermarks.start()
        await self._consumer.start()
        self._consumer.subscribe(list(self.stage.inputs), listener=self)

    async def stop(self) -> None:
        """Finish the transactions in flight, then leave the group."""
        try:
            await self._pause_all()
            if self.tasks:
                with contextlib.suppress(TimeoutError, KafkaError):
                    async with asyncio.timeout(LAST_WORD_SECONDS):
                        await self.keep_group()
            for task in self.tasks.values():
                await task.close()
            self.tasks.clear()
        finally:
            await self._watermarks.stop()
            if self._consumer is not None:
                await self._consumer.stop()

    # ---- assignments ---------------------------------------------------------------------------

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - the port
        """Pause every task; states and producers are kept, in case their partitions come back."""
        try:
            await self._pause_all()
        except BaseException as error:
            self._fail(error)
            raise

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Close the tasks that left, start those that came or stayed; opening goes on behind."""
        try:
            self.rebalances += 1
            self._leave_to_tasks(assigned)
            partitions: dict[int, set[str]] = {}
            for place in assigned:
                partitions.setdefault(place.partition, set()).add(place.topic)
            wrong = {p: t for p, t in partitions.items() if t != set(self.stage.inputs)}
            if wrong:
                raise RuntimeError(  # noqa: TRY301 - it must reach `failed` like any other
                    f"the inputs of {self.stage.name} are partitioned apart: {wrong}"
                )
            for partition in [p for p in self.tasks if p not in partitions]:
                self._targets.pop(partition, None)
                self._caught_up.pop(partition, None)
                await self.tasks.pop(partition).close()
            for partition in sorted(partitions):
                self._start(partition)
            log.info("%s has partitions %s", self.stage.name, sorted(partitions))
        except BaseException as error:
            self._fail(error)
            raise

    def _leave_to_tasks(self, assigned: Iterable[TopicPartition]) -> None:
        """The group says only whose a partition is; its task reads it, by a consumer of its own.

        A fetch of aiokafka's waits for all of a broker's partitions that it has records of and that
        were not asked for yet: one task's transaction would hold up all the others.
        """
        assert self._consumer is not None
        for place in assigned:
            self._consumer.pause(place)
            self._consumer.seek(place, 0)  # or it would look for where to go on

    def _start(self, partition: int) -> None:
        task = self.tasks.get(partition)
        if task is None:
            task = self.tasks[partition] = PartitionTask(
                self._settings, self.stage, partition, self._hook
            )
        task.start().add_done_callback(self._ended)

    async def _pause_all(self) -> None:
        await asyncio.gather(*(task.pause() for task in self.tasks.values()))

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fail(task.exception())

    def _fail(self, error: BaseException | None) -> None:
        if not self.failed.done() and error is not None:
            self.failed.set_exception(error)

    # ---- progress ------------------------------------------------------------------------------

    def stalled(self) -> list[int]:
        """The partitions whose task has not come round for too long."""
        late = time.monotonic() - STALLED_SECONDS
        return [p for p, task in self.tasks.items() if task.alive_at < late]

    async def progress(self) -> list[Progress]:
        """How far each partition is; call every few seconds.

        A partition is caught up as of a moment once everything its inputs held then is processed.
        """
        await self._reach()
        now = self._clock.now()
        made: list[Progress] = []
        for partition, task in list(self.tasks.items()):
            if not task.opened:
                continue
            made.append(
                Progress(
                    stage=self.stage.name,
                    partition=partition,
                    positions={f"{p.topic}/{p.partition}": at for p, at in task.next.items()},
                    caught_up=self._caught_up.get(partition, 0),
                    recorded=task.work.recorded,
                    written=now,
                    state="refolding" if task.work.refolding else "running",
                )
            )
        return made

    async def keep_group(self) -> None:
        """Stay a member, and commit where the tasks are for tools that watch a group's lag.

        Nothing here reads these offsets; in each transaction they cost two of five requests (0019).
        """
        assert self._consumer is not None
        await self._consumer.getmany()  # gives nothing; who never asks is taken for stuck
        assigned = self._consumer.assignment()
        offsets = {
            place: at
            for task in self.tasks.values()
            for place, at in task.next.items()
            if place in assigned and self._told.get(place) != at
        }
        if offsets:
            try:
                await self._consumer.commit(offsets)
            except (CommitFailedError, IllegalStateError) as error:
                log.info("a rebalance came before offsets were told: %s", error)
            else:
                self._told.update(offsets)

    async def _reach(self) -> None:
        """Compare each task with the ends noted before, note the present ones, compare again."""
        await self._compare()
        wanted = [p for p, task in self.tasks.items() if p not in self._targets and task.opened]
        places = [place for p in wanted for place in self.tasks[p].inputs]
        if not places:
            return
        now = self._clock.now()
        ends = await self._watermarks.of(places)
        for partition in wanted:
            if partition in self.tasks:
                inputs = self.tasks[partition].inputs
                self._targets[partition] = (now, {place: ends[place] for place in inputs})
        await self._compare()

    async def _compare(self) -> None:
        # A rebalance may come at each await, and take tasks and targets away.
        for partition, task in list(self.tasks.items()):
            target = self._targets.get(partition)
            if target is not None and task.opened and await self._past(task, target[1]):
                self._caught_up[partition] = target[0]
                self._targets.pop(partition, None)

    async def _past(self, task: PartitionTask, target: dict[TopicPartition, int]) -> bool:
        """Whether a task has processed up to these ends; control records leave gaps at an end."""
        if all(task.next.get(place, 0) >= end for place, end in target.items()):
            return True
        if not task.idle:
            return False
        reached = await task.reached()
        return all(reached[place] >= end for place, end in target.items())

    def lag(self) -> dict[int, int]:
        """Records between each partition's position and the end noted last."""
        made: dict[int, int] = {}
        for partition, (_, ends) in self._targets.items():
            task = self.tasks.get(partition)
            if task is not None:
                made[partition] = sum(
                    max(0, end - task.next.get(place, 0)) for place, end in ends.items()
                )
        return made
