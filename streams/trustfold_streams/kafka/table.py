"""The table reader for policies: tails `scores` and `progress` with no group.

Ready only when it has caught up; refuses when what it holds is older than it may be. Any number of
processes may hold one. What is in force is read beside it, by `policy_tail`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from trustfold_projections.laws.policy.standing import Standing, pack_standing, unpack_standing
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.instants import SECOND, format_instant
from trustfold_schemas.scores import Corrupt, State, content_digest
from trustfold_schemas.subject import Subject, subject_from_key
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.kafka.apart import APART
from trustfold_streams.kafka.clients import Watermarks, new_consumer, started
from trustfold_streams.kafka.errors import StaleTableError
from trustfold_streams.kafka.records import POSITION, Progress, partition_of, progress_from
from trustfold_streams.kafka.score_records import unpack_score
from trustfold_streams.kafka.settings import INPUT_TOPICS, KafkaSettings

log = logging.getLogger("trustfold.kafka.table")

STALE_SECONDS = 60
"""A table that was not known to be complete within this time is refused."""


AGAIN_SECONDS = 0.5

CLAIMS_MAX = 600
"""Claims of a stage's partition that are kept; they come at most once a second."""

Claims = deque[tuple[int, int]]
"""Pairs (caught_up, written) of one partition, both growing: at the second moment everything was
processed that its inputs held at the first. What was true once stays true, whoever said it."""


class TableReader:
    """The materialized table in memory: records as bytes, opened and checked when asked for."""

    def __init__(self, settings: KafkaSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = SystemClock() if clock is None else clock
        self.corrupt_reads = 0
        self._scores = settings.topic("scores")
        self._places = [TopicPartition(self._scores, p) for p in range(settings.partitions)]
        self._progress = settings.topic("progress")
        self._packed: dict[bytes, bytes] = {}
        self._standings: dict[bytes, bytes] = {}
        self._complete: int | None = None
        self._known: dict[bytes, Progress] = {}
        self._claims: dict[str, Claims] = {}
        self._heard: list[Progress] = []
        self._said: deque[tuple[Mapping[TopicPartition, int], list[Progress]]] = deque()
        self._watermarks = Watermarks(settings, f"{settings.app_id}-table-ends")
        self._consumer: AIOKafkaConsumer | None = None
        self._running: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    async def start(self) -> None:
        """Read everything that is there now, then follow in the background."""
        consumer = new_consumer(self.settings, f"{self.settings.app_id}-table")
        await self._watermarks.start()
        self._consumer = await started(consumer)
        places = [*self._places, TopicPartition(self._progress, 0)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        ends = await consumer.end_offsets(places)
        while [p for p in places if await consumer.position(p) < ends[p]]:
            await self._poll(consumer, 200)
        while self._said and not self._claims:
            await self._poll(consumer, 200)
        self._running = asyncio.create_task(self._follow(consumer), name="table")

    async def stop(self) -> None:
        """Stop following."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self._watermarks.stop()
        if self._consumer is not None:
            await self._consumer.stop()

    async def _follow(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            try:
                await self._poll(consumer, 500)
            except KafkaError as error:
                # Nothing is lost by trying again; until it succeeds the table grows stale.
                log.warning("the table cannot be followed: %s %s", type(error).__name__, error)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _poll(self, consumer: AIOKafkaConsumer, timeout_ms: int) -> None:
        got = await consumer.getmany(timeout_ms=timeout_ms, max_records=20_000)
        for place, records in got.items():
            for record in records:
                if place.topic == self._scores:
                    self.take_score(record.key, record.value)
                elif record.value is not None:
                    self._heard.append(progress_from(record.value))
        if self._heard:
            # What a stage says speaks of scores that may be still on their way to us.
            ends = await self._watermarks.of(self._places)
            self._said.append((ends, self._heard))
            self._heard = []
        await self._believe(consumer)
        if got:
            async with self._changed:
                self._changed.notify_all()

    def take_score(self, key: bytes | None, value: bytes | None) -> None:
        """Take in a record of `scores`; None deletes its subject."""
        if key is None or key.startswith(b"\0"):  # a worker's own
            return
        self._standings.pop(key, None)
        if value is None:
            self._packed.pop(key, None)
        else:
            self._packed[key] = value

    async def _believe(self, consumer: AIOKafkaConsumer) -> None:
        """Take in the progress that speaks of nothing beyond the scores read so far."""
        while self._said:
            ends, said = self._said[0]
            if [p for p in self._places if await consumer.position(p) < ends[p]]:
                return
            self._said.popleft()
            for progress in said:
                self.take_progress(progress)

    def take_progress(self, progress: Progress) -> None:
        """Take in what a stage says of one partition; a late word of an old owner is no harm."""
        self._known[progress.key] = progress
        claims = self._claims.setdefault(progress.key.decode(), deque(maxlen=CLAIMS_MAX))
        if progress.caught_up > (claims[-1][0] if claims else 0):
            claims.append((progress.caught_up, progress.written))
        self._complete = None

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

        What `fold` had caught up with at a moment is complete as of an earlier one: the moment
        that `correlate` had reached by then; and that, as of what `ingest` had reached by then.
        An input partition that nobody works on holds it back, as a dead worker does, or one that
        refolds; what was complete before stays so, and readers need not refuse at once.
        """
        if self._complete is None:
            self._complete = self._completed()
        return self._complete

    def _completed(self) -> int:
        partitions = range(self.settings.partitions)
        inputs = {f"ingest/{topic}/0" for topic in INPUT_TOPICS if topic not in APART}
        inputs |= {key for key in self._claims if key.startswith("ingest/")}
        moment = self._reached({f"fold/{p}" for p in partitions}, None)
        moment = self._reached({f"correlate/{p}" for p in partitions}, moment)
        return self._reached(inputs, moment)

    def _reached(self, keys: set[str], by: int | None) -> int:
        """With what all of these had caught up by a moment (None: now); 0 if unknown."""
        least: int | None = None
        for key in keys:
            claims = self._claims.get(key, ())
            known = next((c for c, said in reversed(claims) if by is None or said <= by), 0)
            least = known if least is None else min(least, known)
        return least or 0

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

    def checked(self, subject: Subject) -> State | Corrupt | None:
        """`state`, with what is wrong with it in its place."""
        try:
            return self.state(subject)
        except TrustCorruptionError as error:
            return Corrupt(subject, str(error))

    def standing(self, subject: Subject) -> Standing | Corrupt | None:
        """What a subject's state says of it, checked; None if nothing touched it.

        Opened at the first question after a change, and from then on as fast as from any table.
        """
        packed = self._standings.get(subject.key)
        if packed is None:
            state = self.checked(subject)
            if not isinstance(state, State):
                return state
            packed = pack_standing(state, bytes.fromhex(content_digest(state)))
            self._standings[subject.key] = packed
        return unpack_standing(packed)

    def states(self) -> Iterator[State | Corrupt]:
        """The whole table, in the order of subjects."""
        for subject in sorted(subject_from_key(key) for key in self._packed):
            state = self.checked(subject)
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
