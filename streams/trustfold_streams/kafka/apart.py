"""The logs `policy` and `cost-median`: read by themselves, judged alike by whoever reads them.

They are no facts: nothing of them passes through ingest, so what they refuse is found here. Every
worker folds `cost-median` for its medians; the one that has a log's partition in the group of
`ApartStage` also writes the dead letters. What is refused follows from the log alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from aiokafka import TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from msgspec import Struct

from trustfold_projections.laws.admission import admit
from trustfold_projections.laws.correlation import Key, KeyState, correlate, key_of, new_state
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import type_of
from trustfold_schemas.facts import Fact, Stamp
from trustfold_streams.kafka.clients import (
    lost_input,
    record_of,
    send,
)
from trustfold_streams.kafka.group_member import GroupMember
from trustfold_streams.kafka.records import (
    Letter,
    document_from,
    letter_output,
    partition_of,
    refuse_names,
)
from trustfold_streams.kafka.settings import InputTopic, KafkaSettings
from trustfold_streams.kafka.stage import Record
from trustfold_streams.kafka.task import STALLED_SECONDS

log = logging.getLogger("trustfold.kafka.apart")

APART: tuple[InputTopic, ...] = ("policy", "cost-median")
"""Input topics that are logs of their own, each of one partition."""
AGAIN_SECONDS = 0.1


class ApartLog:
    """One of these logs, folded in its order from its beginning."""

    def __init__(self, settings: KafkaSettings, topic: InputTopic) -> None:
        self.medians = MedianTable()
        self._settings = settings
        self._topic: InputTopic = topic
        self._states: dict[Key, KeyState] = {}
        self._recorded = 0

    def take(self, record: Record) -> Letter | None:
        """Take the next record in; the dead letter that it is, if it is refused."""
        self._recorded = max(self._recorded, record.timestamp * 1_000)
        stamp = self._settings.stamp(self._topic)
        try:
            self._admit(record, stamp)
        except EventRefused as refused:
            return Letter(
                reason=refused.reason,
                detail=refused.detail,
                origin=f"{record.topic}/{record.partition}/{record.offset}",
                stamp=stamp,
                body=record.value or b"",
                headers=tuple(record.headers),
            )
        return None

    def _admit(self, record: Record, stamp: Stamp) -> None:
        refuse_names(record.headers)
        document = document_from(record.value, record.headers)
        event = admit(document, stamp)
        if event.topic != self._topic:
            raise EventRefused(
                Reason.NOT_PERMITTED,
                f"Expected events of the topic {self._topic}, which is a log of its own, "
                f"got `{type_of(event)}`",
            )
        key = key_of(event)
        state = self._states.get(key) or new_state(key)
        fact = Fact(record.offset, self._recorded, stamp, event, document)
        outcome = correlate(state, fact, self.medians)
        for refusal in outcome.refusals:
            raise EventRefused(refusal.reason, refusal.detail)
        self._states[key] = state


class _Open(Struct):
    """A log that this worker tells of: what was told of before, and how far it was judged."""

    log: ApartLog
    told: int
    next: int = 0


class ApartStage(GroupMember):
    """One worker's member of the group that writes the dead letters of these logs.

    At least once: a letter that is written again is the same letter to whoever lists them.
    """

    name = "apart"

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__(settings, APART)
        self._open: dict[TopicPartition, _Open] = {}

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - the port
        """Let the batch in flight be acknowledged before its partitions go."""
        async with self._batch:
            self._open.clear()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Fold what is new here from its beginning, and remember what was told of before."""
        assert self._consumer is not None
        try:
            for place in assigned:
                told = await self._consumer.committed(place)
                # No await between these: what was fetched from elsewhere is never taken for it.
                self._consumer.seek(place, 0)
                self._open[place] = _Open(
                    ApartLog(self._settings, self._topics[place.topic]), told or 0
                )
        except BaseException as error:
            self._fail(error)
            raise

    async def _run(self) -> None:
        assert self._consumer is not None
        while True:
            self.alive_at = time.monotonic()
            try:
                got = await self._consumer.getmany(timeout_ms=1_000, max_records=4_000)
            except NoOffsetForPartitionError:
                # Asked before the listener has sought; it goes on in a moment.
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            except OffsetOutOfRangeError as error:
                raise await lost_input(self._consumer, error) from error
            # What was fetched before a rebalance is not for the log that was opened after it.
            known = {place: self._open.get(place) for place in got}
            async with self._batch:
                for place, records in got.items():
                    opened = known[place]
                    if opened is not None and opened is self._open.get(place):
                        await self._tell(place, opened, map(record_of, records))

    def stalled(self) -> bool:
        """Whether the loop has not come round for too long."""
        return self.alive_at < time.monotonic() - STALLED_SECONDS

    async def _tell(self, place: TopicPartition, known: _Open, records: Iterable[Record]) -> None:
        assert self._producer is not None
        assert self._consumer is not None
        letters: list[Letter] = []
        for record in records:
            letter = known.log.take(record)
            known.next = record.offset + 1
            if letter is not None and record.offset >= known.told:
                letters.append(letter)
                self.refused[letter.reason.value] += 1
                log.warning("%s is refused: %s", letter.origin, letter.detail)
        topic = self._settings.topic("dead-letters")
        outputs = [
            letter_output(topic, partition_of(one.body, self._settings.partitions), one)
            for one in letters
        ]
        await asyncio.gather(*await send(self._producer, outputs))
        if known.next > known.told:
            try:
                await self._consumer.commit({place: known.next})
            except (CommitFailedError, IllegalStateError) as error:
                # Another worker has the log now and tells of it again; that is allowed.
                log.warning("a rebalance came before a commit: %s", error)
            known.told = known.next
