"""How Faust reads: committed records only, and of those no more than an agent can use.

Two things that Faust has no setting for. It reads uncommitted records unless it runs its own
transactions, which are unsafe; `scores` is written in transactions of ours, and what was aborted
must not be seen. And each record costs it about 0.1 ms, so what an agent would pass over, or what
a later record of the same fetch supersedes, is left out before Faust sees it: else a busy log
would take the processor from the stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord
from faust.transport.drivers import aiokafka as driver

Records = Sequence[ConsumerRecord]
Thinner = Callable[[Records], list[ConsumerRecord]]
"""Chooses of a partition's records that were fetched together those that are handed on."""


def keys_that_begin_with(prefix: bytes) -> Thinner:
    """Hand on the records whose keys begin so."""

    def thin(records: Records) -> list[ConsumerRecord]:
        return _with_ends(
            records, [one for one in records if one.key is not None and one.key.startswith(prefix)]
        )

    return thin


def last_of_each_key(records: Records) -> list[ConsumerRecord]:
    """Hand on the last record of each key, as compaction would, and none of a worker's own."""
    last = {
        one.key: one for one in records if one.key is not None and not one.key.startswith(b"\0")
    }
    return _with_ends(records, list(last.values()))


def _with_ends(records: Records, chosen: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
    """The chosen records, and those without which Faust would acknowledge too little.

    The last one of a fetch carries the acknowledgement over what was left out; and a gap right
    behind offset 0 is one that Faust never closes, so offset 1 goes with it.
    """
    kept = {one.offset: one for one in chosen}
    kept |= {one.offset: one for one in records if one.offset < 2 or one is records[-1]}
    return [kept[offset] for offset in sorted(kept)]


class _ConsumerThread(driver.AIOKafkaConsumerThread):
    def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
        consumer = self.consumer
        kept = consumer.in_transaction
        # The one thing that is asked here is the isolation level.
        consumer.in_transaction = True
        try:
            return super()._create_worker_consumer(transport)
        finally:
            consumer.in_transaction = kept

    async def _fetch_records(
        self, consumer: AIOKafkaConsumer, *places: Any, **bounds: Any
    ) -> Mapping[TopicPartition, Records]:
        fetched = await super()._fetch_records(consumer, *places, **bounds)
        thinners: Mapping[str, Thinner] = getattr(self.app, "thinners", {})
        return {
            place: thinners[place.topic](records) if place.topic in thinners else records
            for place, records in fetched.items()
        }


class Consumer(driver.Consumer):
    """Faust's consumer, with the isolation level read_committed."""

    def _new_consumer_thread(self) -> _ConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)


class Transport(driver.Transport):
    """Faust's way to Kafka, with this consumer. The application names `thinners` by topic."""

    Consumer = Consumer
