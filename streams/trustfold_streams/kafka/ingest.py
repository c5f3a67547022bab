"""The stage `ingest`: input topics to the log of facts, rekeyed by our own hash.

It keeps no state and is at-least-once: records are acknowledged when what came of them is durable,
and correlation removes repeats. Whatever partition counts and hashes the producers used end here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence

from aiokafka import TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalStateError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)
from aiokafka.structs import ConsumerRecord

from trustfold_projections.laws.admission import admit
from trustfold_projections.laws.correlation import log_key_of
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import Event, type_of
from trustfold_streams.clock import Clock
from trustfold_streams.kafka.apart import AGAIN_SECONDS, APART
from trustfold_streams.kafka.clients import (
    lost_input,
    record_of,
    send,
)
from trustfold_streams.kafka.group_member import GroupMember
from trustfold_streams.kafka.records import (
    CONTENT_TYPE,
    Letter,
    Output,
    Progress,
    document_from,
    letter_output,
    partition_of,
    refuse_names,
    stamp_headers,
)
from trustfold_streams.kafka.settings import INPUT_TOPICS, InputTopic, KafkaSettings
from trustfold_streams.kafka.stage import Record
from trustfold_streams.kafka.task import (
    RECORDS_MAX,
    STALLED_SECONDS,
    Hook,
    no_hook,
    rest,
)

log = logging.getLogger("trustfold.kafka.ingest")

INPUTS: tuple[InputTopic, ...] = tuple(topic for topic in INPUT_TOPICS if topic not in APART)
"""The input topics that become facts; the other two are logs of their own."""
MEND_INPUT = (
    "Publish what is missing again. To go on without it, stop all workers and move the group to "
    "where its topics begin: `kafka-consumer-groups.sh --reset-offsets --to-earliest --all-topics"
)


def admitted(record: Record, topic: InputTopic, settings: KafkaSettings) -> Output:
    """One input record as a fact, or as a dead letter."""
    stamp = settings.stamp(topic)
    origin = f"{record.topic}/{record.partition}/{record.offset}"
    try:
        refuse_names(record.headers)
        document = document_from(record.value, record.headers)
        event = admit(document, stamp)
        _must_become_a_fact(event)
    except EventRefused as refused:
        body = record.value or b""
        letter = Letter(
            reason=refused.reason,
            detail=refused.detail,
            origin=origin,
            stamp=stamp,
            body=body,
            headers=tuple(record.headers),
        )
        partition = partition_of(body, settings.partitions)
        return letter_output(settings.topic("dead-letters"), partition, letter)
    key = log_key_of(event)
    return Output(
        settings.topic("facts"),
        partition_of(key, settings.partitions),
        key.encode(),
        document,
        [CONTENT_TYPE, ("tf-origin", origin.encode()), *stamp_headers(stamp)],
    )


def _must_become_a_fact(event: Event) -> None:
    """Refuse what has a log of its own: in the facts nobody would act on it, or not everybody."""
    if event.topic not in INPUTS:
        raise EventRefused(
            Reason.NOT_PERMITTED,
            f"Expected `{type_of(event)}` on the topic {event.topic}, which is a log of its own",
        )


class IngestStage(GroupMember):
    """One worker's member of the ingest group: poll, admit, send, await, commit."""

    name = "ingest"

    def __init__(self, settings: KafkaSettings, clock: Clock, hook: Hook = no_hook) -> None:
        super().__init__(settings, INPUTS)
        self.records = 0
        self.rebalances = 0
        self._clock = clock
        self._hook = hook
        self._done: dict[TopicPartition, int] = {}
        self._targets: dict[TopicPartition, tuple[int, int]] = {}
        self._caught_up: dict[TopicPartition, int] = {}
        self._recorded = 0

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - the port
        """Let the batch in flight be acknowledged before its partitions go."""
        async with self._batch:
            pass

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Begin anew what is known of partitions; those that nobody has read, at their start."""
        assert self._consumer is not None
        self.rebalances += 1
        kept = set(assigned)
        for known in (self._done, self._targets, self._caught_up):
            for place in [place for place in known if place not in kept]:
                del known[place]
        try:
            fresh = [place for place in kept if await self._consumer.committed(place) is None]
            if fresh:
                for place, first in (await self._consumer.beginning_offsets(fresh)).items():
                    self._consumer.seek(place, first)
        except BaseException as error:
            self._fail(error)
            raise

    async def _run(self) -> None:
        assert self._consumer is not None
        while True:
            self.alive_at = time.monotonic()
            got = await self._poll()
            if got:
                began = time.monotonic()
                async with self._batch:
                    await self._process(
                        [record_of(record) for place in sorted(got) for record in got[place]]
                    )
                await rest(began)

    async def _poll(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        assert self._consumer is not None
        try:
            return await self._consumer.getmany(timeout_ms=1_000, max_records=RECORDS_MAX)
        except NoOffsetForPartitionError:
            # Asked before the listener has sought; it goes on in a moment.
            await asyncio.sleep(AGAIN_SECONDS)
            return {}
        except OffsetOutOfRangeError as error:
            raise await lost_input(
                self._consumer, error, f"{MEND_INPUT} --group {self.group} --execute`"
            ) from error

    async def _process(self, records: Sequence[Record]) -> None:
        assert self._producer is not None
        assert self._consumer is not None
        letters = self._settings.topic("dead-letters")
        outputs = [
            admitted(record, self._topics[record.topic], self._settings) for record in records
        ]
        for output in outputs:
            if output.topic == letters:
                self.refused[dict(output.headers)["tf-reason"].decode()] += 1
        futures = await send(self._producer, outputs)
        self._hook(self.name, 0, "sent")
        await asyncio.gather(*futures)
        self._hook(self.name, 0, "acknowledged")
        offsets = {
            TopicPartition(record.topic, record.partition): record.offset + 1 for record in records
        }
        try:
            await self._consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError) as error:
            # Others have these partitions now and will read the records again; that is allowed.
            log.warning("a rebalance came before a commit: %s", error)
        self.records += len(records)
        self._recorded = max(self._recorded, max(record.timestamp for record in records) * 1_000)
        self._done.update(offsets)
        self._hook(self.name, 0, "committed")

    # ---- progress ------------------------------------------------------------------------------

    def stalled(self) -> list[int]:
        """[0] if the loop has not come round for too long."""
        return [0] if self.alive_at < time.monotonic() - STALLED_SECONDS else []

    async def progress(self) -> list[Progress]:
        """How far this worker's inputs are; one record an input partition."""
        assert self._consumer is not None
        places = sorted(self._consumer.assignment())
        if not places:
            return []
        now = self._clock.now()
        ends = await self._consumer.end_offsets(places)
        made: list[Progress] = []
        for place in places:
            for target in (self._targets.get(place), (now, ends[place])):
                if target is not None and await self._past(place, target[1]):
                    self._caught_up[place] = target[0]
                    self._targets.pop(place, None)
                elif target is not None:
                    self._targets.setdefault(place, target)
            made.append(
                Progress(
                    stage=f"ingest/{self._topics[place.topic]}",
                    partition=place.partition,
                    positions={f"{place.topic}/{place.partition}": self._done.get(place, 0)},
                    caught_up=self._caught_up.get(place, 0),
                    recorded=self._recorded,
                    written=self._clock.now(),
                )
            )
        return made

    async def _past(self, place: TopicPartition, end: int) -> bool:
        """Whether everything before an offset is acknowledged; gaps may stand at an end."""
        assert self._consumer is not None
        try:
            position = await self._consumer.position(place)
        except IllegalStateError:  # a rebalance took it away just now
            return False
        return position >= end and self._settled(place, end)

    def _settled(self, place: TopicPartition, end: int) -> bool:
        """Whether nothing of a partition is read but not yet acknowledged."""
        return not self._batch.locked() or self._done.get(place, 0) >= end

    def lag(self) -> int:
        """Records between the positions and the ends noted last."""
        return sum(max(0, end - self._done.get(p, 0)) for p, (_, end) in self._targets.items())
