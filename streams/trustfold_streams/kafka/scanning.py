"""Reading a topic once, from its start to all that was committed when asked: no group, no trace.

Where to look instead: `reading` knows what stands in the topics, `clients.PartitionReader` reads
one partition for a stage, `table` follows.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence

from aiokafka import TopicPartition

from trustfold_streams.kafka.clients import Watermarks, new_consumer, record_of
from trustfold_streams.kafka.errors import BrokerSlowError, LostInputError
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record

SILENCE_SECONDS_MAX = 90.0
"""A broker that gives nothing for so long is given up: longer than the life of a transaction."""
RECORDS_MAX = 20_000
NAME = "reader"


async def scan(
    settings: KafkaSettings, topic: str, partitions: Sequence[int], *, whole: bool = True
) -> AsyncGenerator[Record]:
    """The committed records of partitions of a topic, named without its prefix; each in order.

    It ends where the partitions ended when it began, open transactions waited for, so that what
    was acknowledged before is seen. Close it, or read it to its end.

    Raises:
        LostInputError: it is to be `whole`, and a partition no longer begins at offset 0.
        BrokerSlowError: the broker fell silent.
    """
    places = [TopicPartition(settings.topic(topic), partition) for partition in partitions]
    name = f"{settings.app_id}-{NAME}"
    consumer = new_consumer(settings, name)
    watermarks = Watermarks(settings, name)
    try:
        await consumer.start()
        await watermarks.start()
        consumer.assign(places)
        ends = await watermarks.of(places)
        first = await consumer.beginning_offsets(places)
        for place in places:
            if whole and first[place] > 0:
                raise LostInputError(place.topic, place.partition, 0, first[place])
            consumer.seek(place, first[place])
        waiting = [place for place in places if first[place] < ends[place]]
        heard = time.monotonic()
        while waiting:
            got = await consumer.getmany(*waiting, timeout_ms=200, max_records=RECORDS_MAX)
            for place, records in got.items():
                for record in records:
                    if record.offset < ends[place]:
                        yield record_of(record)
            # The ends of transactions leave gaps, so the position says when the end is reached.
            left = [place for place in waiting if await consumer.position(place) < ends[place]]
            if got or len(left) < len(waiting):
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_SECONDS_MAX:
                raise BrokerSlowError(
                    f"{left[0].topic}/{left[0].partition} gave nothing for "
                    f"{SILENCE_SECONDS_MAX:.0f} s before its end at {ends[left[0]]}"
                )
            waiting = left
    finally:
        await watermarks.stop()
        await consumer.stop()
