"""The table reader for policies: tails `scores`, `policy` and `progress` with no group.

Ready only when it has caught up; refuses when what it holds is older than it may be. Any number of
processes may hold one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

from aiokafka import AIOKafkaConsumer, TopicPartition

from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.instants import SECOND, format_instant
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.kafka.clients import new_consumer
from trustfold_streams.kafka.errors import StaleTableError
from trustfold_streams.kafka.records import POSITION, Progress, partition_of, progress_from
from trustfold_streams.kafka.score_records import unpack_score
from trustfold_streams.kafka.settings import KafkaSettings

log = logging.getLogger("trustfold.kafka.table")

STALE_SECONDS = 60
"""A table that was not known to be complete within this time is refused."""


class Corrupt:
    """A score that may not be used, and why."""

    def __init__(self, subject: Subject, error: str) -> None:
        self.subject = subject
        self.error = error


class TableReader:
    """The materialized table in memory: records as bytes, opened and checked when asked for."""

    def __init__(self, settings: KafkaSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = SystemClock() if clock is None else clock
        self.corrupt_reads = 0
        self._scores = settings.topic("scores")
        self._progress = settings.topic("progress")
        self._packed: dict[bytes, bytes] = {}
        self._known: dict[bytes, Progress] = {}
        self._policy: list[bytes] = []
        self._consumer: AIOKafkaConsumer | None = None
        self._running: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    async def start(self) -> None:
        """Read everything that is there now, then follow in the background."""
        consumer = new_consumer(self.settings, f"{self.settings.app_id}-table")
        await consumer.start()
        self._consumer = consumer
        places = [
            TopicPartition(self._scores, partition) for partition in range(self.settings.partitions)
        ]
        places += [
            TopicPartition(self._progress, 0),
            TopicPartition(self.settings.topic("policy"), 0),
        ]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        while [p for p in places if await consumer.position(p) < ends[p]]:
            await self._poll(consumer, 200)
        self._running = asyncio.create_task(self._follow(consumer), name="table")

    async def stop(self) -> None:
        """Stop following."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        if self._consumer is not None:
            await self._consumer.stop()

    async def _follow(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            await self._poll(consumer, 500)

    async def _poll(self, consumer: AIOKafkaConsumer, timeout_ms: int) -> None:
        got = await consumer.getmany(timeout_ms=timeout_ms, max_records=20_000)
        for place, records in got.items():
            for record in records:
                self._take(place.topic, record.key, record.value)
        if got:
            async with self._changed:
                self._changed.notify_all()

    def _take(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        if topic == self._progress:
            if value is not None and key is not None:
                self._known[key] = progress_from(value)
        elif topic == self._scores:
            if key is None or key.startswith(b"\0"):
                return
            if value is None:
                self._packed.pop(key, None)
            else:
                self._packed[key] = value
        elif value is not None:
            self._policy.append(value)

    async def changed(self, seconds: float) -> None:
        """Wait until something new was read, or for so long."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return

    # ---- reading -------------------------------------------------------------------------------

    def complete_as_of(self) -> int:
        """The moment up to which every published event is known to be in the table; 0 if unknown.

        The least of what the stages' partitions were caught up with: an input partition that
        nobody works on holds it back, as a dead worker does.
        """
        stages = {f"correlate/{p}" for p in range(self.settings.partitions)}
        stages |= {f"fold/{p}" for p in range(self.settings.partitions)}
        moments = [one.caught_up for one in self._known.values()]
        if not stages <= {key.decode() for key in self._known}:
            return 0
        if any(one.state != "running" for one in self._known.values()):
            return 0
        return min(moments, default=0)

    def refuse_if_stale(self) -> None:
        """Raise StaleTableError unless the table is complete as of the last minute."""
        complete, now = self.complete_as_of(), self.clock.now()
        if complete < now - STALE_SECONDS * SECOND:
            raise StaleTableError(
                "the table is not known to be complete within the last "
                f"{STALE_SECONDS} s: "
                + (
                    f"the slowest stage had caught up as of {format_instant(complete)}"
                    if complete
                    else "not every stage reports that it has caught up; is a worker running?"
                )
            )

    def state(self, subject: Subject) -> State | None:
        """A subject's state, checked; None if nothing touched it. Raises TrustCorruptionError."""
        packed = self._packed.get(subject.key)
        if packed is None:
            return None
        try:
            state = unpack_score(packed)[0]
            if state.subject != subject:
                raise TrustCorruptionError(  # noqa: TRY301 - told like any other corruption
                    f"the score of {subject} holds that of {state.subject}"
                )
        except TrustCorruptionError as error:
            self.corrupt_reads += 1
            log.critical("no trust: %s", error)
            raise
        return state

    def states(self) -> Iterator[State | Corrupt]:
        """The whole table, in the order of subjects."""
        from trustfold_schemas.subject import subject_from_key

        for subject in sorted(subject_from_key(key) for key in self._packed):
            try:
                state = self.state(subject)
            except TrustCorruptionError as error:
                yield Corrupt(subject, str(error))
                continue
            if state is not None:
                yield state

    def progress(self) -> list[Progress]:
        """What each stage and partition reported last."""
        return [self._known[key] for key in sorted(self._known)]

    def partition(self, subject: Subject) -> int:
        """Where a subject's entries and scores stand."""
        return partition_of(subject.key, self.settings.partitions)

    @property
    def bookkeeping(self) -> bytes:
        """The prefix of keys that are the workers' own."""
        return POSITION[:1]
