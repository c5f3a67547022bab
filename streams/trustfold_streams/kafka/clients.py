"""The Kafka clients as this package uses them: one place for settings, one for their types.

aiokafka ships no types; what leaves this module is typed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord

from trustfold_streams.kafka.errors import MEND, LostInputError
from trustfold_streams.kafka.lenient import LenientConsumer
from trustfold_streams.kafka.records import Headers, Output
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record

BATCH_BYTES_MAX = 512 << 10
FETCH_WAIT_MS = 50
"""How long a broker may hold back an empty fetch of many partitions: one that was just read takes
part in the next fetch only, so its next record may wait so long for others that have none."""
LONE_FETCH_WAIT_MS = 500
"""The same for a consumer of one partition, whose record ends the wait at once."""
REQUEST_BYTES_MAX = 8 << 20
FETCH_BYTES_MAX = 8 << 20
REQUEST_TIMEOUT_MS = 10_000
TRANSACTION_TIMEOUT_MS = 60_000
"""The fold of the largest legal trace is one transaction of some 150 MB. Whoever takes a dead
worker's partition ends its transaction at once; this is only for partitions that nobody takes."""

Partition = tuple[str, int]


def new_producer(
    settings: KafkaSettings, name: str, transactional_id: str | None = None, linger_ms: int = 0
) -> AIOKafkaProducer:
    """An idempotent producer that waits for all replicas; transactional with an id."""
    options: dict[str, Any] = settings.client_options()
    if transactional_id is not None:
        options["transactional_id"] = transactional_id
        options["transaction_timeout_ms"] = TRANSACTION_TIMEOUT_MS
    return AIOKafkaProducer(
        client_id=name,
        acks="all",
        enable_idempotence=True,
        linger_ms=linger_ms,
        max_batch_size=BATCH_BYTES_MAX,
        max_request_size=REQUEST_BYTES_MAX,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        retry_backoff_ms=20,
        **options,
    )


async def stop_producer(producer: AIOKafkaProducer, seconds: float) -> None:
    """Stop a producer; what it could not deliver by then is given up.

    Its own stop waits for ever for a broker that is away: idempotent batches never expire.
    """
    try:
        async with asyncio.timeout(seconds):
            await producer.stop()
    except TimeoutError:
        inside: Any = producer
        await inside._sender.close()  # noqa: SLF001 - it has no other way out
        await inside.client.close()


def new_consumer(
    settings: KafkaSettings, name: str, *, group: str | None = None, **more: Any
) -> AIOKafkaConsumer:
    """A consumer of committed records that commits only when told.

    `auto_offset_reset` none: what is removed before it was read raises, instead of being skipped.
    """
    return LenientConsumer(
        client_id=name,
        group_id=group,
        isolation_level=more.pop("isolation_level", "read_committed"),
        enable_auto_commit=False,
        auto_offset_reset=more.pop("auto_offset_reset", "earliest"),
        max_partition_fetch_bytes=FETCH_BYTES_MAX,
        fetch_max_wait_ms=more.pop("fetch_max_wait_ms", FETCH_WAIT_MS),
        **settings.client_options(),
        **more,
    )


async def started(consumer: AIOKafkaConsumer) -> AIOKafkaConsumer:
    """Start a consumer; one that is cancelled on the way leaves no connection open."""
    try:
        await consumer.start()
    except BaseException:
        await consumer.stop()
        raise
    return consumer


async def lost_input(
    consumer: AIOKafkaConsumer, error: OffsetOutOfRangeError, mend: str = MEND
) -> LostInputError:
    """What it means that a consumer's position is not in the log any more."""
    places: Mapping[TopicPartition, int] = error.args[0]
    place, wanted = next(iter(places.items()))
    first = (await consumer.beginning_offsets([place]))[place]
    got = first if first > wanted else (await consumer.end_offsets([place]))[place]
    return LostInputError(place.topic, place.partition, wanted, got, mend)


def record_of(record: ConsumerRecord) -> Record:
    """A client's record as ours."""
    return Record(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )


async def send(producer: AIOKafkaProducer, outputs: Iterable[Output]) -> list[Any]:
    """Hand records to a producer in batches of ours; the futures of their acknowledgements.

    Whoever calls must await every one of them: a commit succeeds although a batch failed.
    """
    builders: dict[Partition, Any] = {}
    futures: list[Any] = []
    for output in outputs:
        place = (output.topic, output.partition)
        builder = builders.get(place)
        if builder is None:
            builder = builders[place] = producer.create_batch()
        if not _append(builder, output):
            futures.append(await producer.send_batch(builder, output.topic, partition=place[1]))
            builder = builders[place] = producer.create_batch()
            if not _append(builder, output):
                raise RuntimeError(f"a record of {len(output.value or b'')} bytes fits no batch")
    for (topic, partition), builder in builders.items():
        futures.append(await producer.send_batch(builder, topic, partition=partition))
    return futures


def _append(builder: Any, output: Output) -> bool:
    added = builder.append(
        key=output.key, value=output.value, timestamp=None, headers=list(output.headers)
    )
    return added is not None


class PartitionReader:
    """Reads partitions from the start, or again, with no group and no effect on anybody.

    It connects when it is first asked and stays connected; one reading at a time.
    """

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._consumer: AIOKafkaConsumer | None = None

    async def stop(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            await self._consumer.stop()
            self._consumer = None

    async def records(
        self, topic: str, partition: int, first: int = 0, end: int | None = None
    ) -> AsyncIterator[Record]:
        """The committed records with first <= offset < end (None: what is committed now)."""
        place = TopicPartition(topic, partition)
        if self._consumer is None:
            self._consumer = await started(new_consumer(self._settings, self._name))
        consumer = self._consumer
        consumer.assign([place])
        last = (await consumer.end_offsets([place]))[place]
        until = last if end is None else min(end, last)
        beginning = (await consumer.beginning_offsets([place]))[place]
        consumer.seek(place, max(first, beginning))
        # Control records leave gaps, so the position says when the end is reached.
        while await consumer.position(place) < until:
            got = await consumer.getmany(place, timeout_ms=200, max_records=20_000)
            for record in got.get(place, ()):
                if record.offset < until:
                    yield record_of(record)


class Watermarks:
    """The ends of partitions with what is committed and not yet readable.

    A commit is acknowledged before its markers stand in every partition. Until they do, the last
    stable offset, which is what a consumer of committed records calls the end, leaves it out: who
    compares with that one believes too early that there is nothing more to read.
    """

    def __init__(self, settings: KafkaSettings, name: str) -> None:
        self._settings = settings
        self._name = name
        self._consumer: AIOKafkaConsumer | None = None

    async def start(self) -> None:
        """Connect."""
        self._consumer = await started(
            new_consumer(self._settings, self._name, isolation_level="read_uncommitted")
        )

    async def stop(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            await self._consumer.stop()

    async def of(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The high watermark of each."""
        assert self._consumer is not None
        made: Mapping[TopicPartition, int] = await self._consumer.end_offsets(list(places))
        return made


def headers_of(record: ConsumerRecord) -> Headers:
    """A record's headers."""
    return tuple(record.headers)
