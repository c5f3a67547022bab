"""A pipeline on Kafka as a log to archive: what is committed, up to ends that are taken first.

How far the log has settled is read before the ends, so that everything recorded by then, and what
follows from it, lies before them. Offsets have gaps where transactions end; a range is declared
over them. Where nothing is left of a range that should be whole, the archiver stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final

import msgspec
from aiokafka import TopicPartition

from trustfold_projections.archive.manifest import Manifest
from trustfold_projections.archive.rows import DecisionRow, EntryRow, LetterRow, Row, decision_row
from trustfold_projections.archive.schema import Place, Topic
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import DAY
from trustfold_schemas.ledger import Entry
from trustfold_schemas.packed import unpack_envelope
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.kafka.apart import ApartLog
from trustfold_streams.kafka.clients import Watermarks, new_consumer, record_of
from trustfold_streams.kafka.decisions import decision_from
from trustfold_streams.kafka.errors import BrokerSlowError, LostInputError
from trustfold_streams.kafka.pipeline_progress import PipelineProgress
from trustfold_streams.kafka.reaching import (
    quiet_client,
    require_topics,
    topics_there,
    translated,
)
from trustfold_streams.kafka.records import (
    document_from,
    letter_from,
    replayed_from,
    stamp_from,
)
from trustfold_streams.kafka.scanning import SILENCE_SECONDS_MAX
from trustfold_streams.kafka.settings import InputTopic, KafkaSettings
from trustfold_streams.kafka.stage import Record

RECORDS_MAX: Final = 20_000
NAME: Final = "archiver"

_SINGLE: Final[tuple[Topic, ...]] = ("policy", "cost-median")
_CUT: Final[tuple[Topic, ...]] = ("facts", "decisions", "dead-letters", "ledger")
"""Topics of as many partitions as the settings say."""


@contextlib.contextmanager
def kafka_log(
    settings: KafkaSettings, archived: Manifest, clock: Clock | None = None
) -> Generator[KafkaLog]:
    """A pipeline's log as it is now. Raises BrokerError, UnsafeTopicsError, LostInputError."""
    with quiet_client(), translated(settings), asyncio.Runner() as runner:
        log = KafkaLog(settings, archived, runner)
        try:
            runner.run(log.start(SystemClock() if clock is None else clock))
            yield log
        finally:
            runner.run(log.stop())


class KafkaLog:
    """The log of one pipeline during one visit."""

    def __init__(self, settings: KafkaSettings, archived: Manifest, runner: asyncio.Runner) -> None:
        self.settled = 0
        self._settings = settings
        self._archived = archived
        self._runner = runner
        self._open = contextlib.AsyncExitStack()
        self._ends: dict[Place, int] = {}

    @property
    def memory(self) -> int | None:
        """How long a trace is remembered."""
        return self._settings.memory_days * DAY

    async def start(self, clock: Clock) -> None:
        """Connect inside the loop, and note how far the log has settled and then where it ends."""
        require_topics(
            self._settings, await topics_there(self._settings), [*_CUT, *_SINGLE, "progress"]
        )
        progress = await PipelineProgress.read(self._settings, clock)
        # What the archive has said holds, whoever has forgotten it since.
        self.settled = max(progress.settled_up_to(), self._archived.settled)
        name = f"{self._settings.app_id}-{NAME}"
        self._consumer = new_consumer(self._settings, name)
        self._open.push_async_callback(self._consumer.stop)
        await self._consumer.start()
        watermarks = Watermarks(self._settings, name)
        self._open.push_async_callback(watermarks.stop)
        await watermarks.start()
        places = [Place(topic, 0) for topic in _SINGLE] + [
            Place(topic, partition)
            for topic in _CUT
            for partition in range(self._settings.partitions)
        ]
        named = {place: self._named(place) for place in places}
        ends = await watermarks.of(list(named.values()))
        self._ends = {place: ends[one] for place, one in named.items()}

    async def stop(self) -> None:
        """Disconnect."""
        await self._open.aclose()

    def ends(self) -> Mapping[Place, int]:
        """Where each partition ended when the visit began, open transactions included."""
        return self._ends

    def rows(self, place: Place, start: int, end: int) -> Iterable[Row]:
        """The rows of a partition, in order; open transactions are waited for."""
        if place.topic == "ledger":
            return self._entries(place, start, end)
        if place.topic == "dead-letters":
            return self._letters(place, start, end)
        if place.topic == "decisions":
            return self._decisions(place, start, end)
        if place.topic == "facts":
            return self._facts(place, start, end)
        return self._apart(place, start, end)

    def holds(self, place: Place, row: Row) -> bool:
        """Whether this very record is there; True where the log no longer reaches back to it."""
        at = row.position if isinstance(row, Fact) else row.offset
        try:
            found = list(self.rows(place, at, at + 1))
        except LostInputError:
            return True
        if isinstance(row, Fact):
            # Its moment is never before that of the record before it, which is not read here.
            return [one.document for one in found if isinstance(one, Fact)] == [row.document]
        return row in found

    def _named(self, place: Place) -> TopicPartition:
        return TopicPartition(self._settings.topic(place.topic), place.partition)

    def _records(
        self, place: Place, start: int, end: int, *, whole: bool = True
    ) -> Iterator[Record]:
        """The committed records with start <= offset < end.

        Raises LostInputError where they are to be `whole` and the partition begins later.
        """
        one = self._named(place)
        self._runner.run(self._begin(one, start, whole=whole))
        heard = time.monotonic()
        while self._runner.run(self._position(one)) < end:
            # The ends of transactions leave gaps, so the position says when the end is reached.
            got = self._runner.run(self._more(one))
            yield from (record for record in got if record.offset < end)
            if got:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_SECONDS_MAX:
                raise BrokerSlowError(
                    f"{one.topic}/{one.partition} gave nothing for {SILENCE_SECONDS_MAX:.0f} s "
                    f"before its end at {end}"
                )

    async def _begin(self, place: TopicPartition, start: int, *, whole: bool) -> None:
        self._consumer.assign([place])
        first = (await self._consumer.beginning_offsets([place]))[place]
        if whole and first > start:
            raise LostInputError(place.topic, place.partition, start, first)
        self._consumer.seek(place, max(start, first))

    async def _position(self, place: TopicPartition) -> int:
        return await self._consumer.position(place)

    async def _more(self, place: TopicPartition) -> list[Record]:
        got = await self._consumer.getmany(place, timeout_ms=200, max_records=RECORDS_MAX)
        return [record_of(record) for record in got.get(place, ())]

    # ---- rows of each topic --------------------------------------------------------------------

    def _facts(self, place: Place, start: int, end: int) -> Iterator[Fact]:
        segments = self._archived.live.get(place, [])
        # The clock of a partition never goes back, for correlation as for the archive.
        recorded = max((line.max_recorded or 0 for line in segments), default=0)
        for record in self._records(place, start, end):
            recorded = max(recorded, record.timestamp * 1_000)
            body = record.value or b""
            stamp = stamp_from(record.headers)
            yield Fact(record.offset, recorded, stamp, decode_event(body), body)

    def _apart(self, place: Place, start: int, end: int) -> Iterator[Fact]:
        """What is accepted of `policy` or `cost-median`: judged from its beginning, as always."""
        topic: InputTopic = "policy" if place.topic == "policy" else "cost-median"
        stamp = self._settings.stamp(topic)
        log = ApartLog(self._settings, topic)
        recorded = 0
        for record in self._records(place, 0, end):
            recorded = max(recorded, record.timestamp * 1_000)
            if log.take(record) is None and record.offset >= start:
                document = document_from(record.value, record.headers)
                yield Fact(record.offset, recorded, stamp, decode_event(document), document)

    def _entries(self, place: Place, start: int, end: int) -> Iterator[EntryRow]:
        for record in self._records(place, start, end):
            for idx, located in enumerate(unpack_envelope(record.value or b"")):
                # As every store gives them: an envelope's are arrays when they are printed.
                entry = Entry(**msgspec.structs.asdict(located.entry))
                yield EntryRow(
                    record.offset, entry, located.partition, located.offset, located.number, idx
                )

    def _decisions(self, place: Place, start: int, end: int) -> Iterator[DecisionRow]:
        for record in self._records(place, start, end):
            decision = decision_from(record)
            # What is no decision is none to whoever reads them, and so not here.
            if decision is not None:
                yield decision_row(decision)

    def _letters(self, place: Place, start: int, end: int) -> Iterator[LetterRow]:
        # Dead letters are not kept for ever.
        for record in self._records(place, start, end, whole=False):
            if replayed_from(record.value, record.headers) is None:
                letter = letter_from(record.value, record.headers)
                yield LetterRow(
                    record.offset,
                    record.timestamp * 1_000,
                    letter.reason.value,
                    letter.detail,
                    letter.origin,
                    letter.stamp,
                    letter.body,
                )
