"""How Faust reads: committed records only, none lost, and no more than an agent can use.

Three things that Faust has no setting for:

- It reads uncommitted records unless it runs its own transactions, which are unsafe; `scores` is
  written in transactions of ours, and what was aborted must not be seen.
- It loses records when its tables are restored, in two ways (0.15.3: tables/recovery.py,
  on_recovery_completed). It resumes the sources before it seeks to where they were acknowledged,
  and then empties the agents' queues; and it hands the client its set of active partitions, which
  is emptied during the fetch and then means all: what came is dropped, the position goes on. So
  sources are held back here until it has sought, the set is copied, and `Handover` finds whatever
  else might be lost on the way.
- Each record costs it about 0.1 ms, so what an agent would pass over, or what a later record of
  the same fetch supersedes without a difference to the agent, is left out before Faust sees it:
  else a busy log would take the processor from the stages.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import faust
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


def where_each_key_changes(of: Callable[[bytes | None], object]) -> Thinner:
    """Hand on the last record of each key, and any before it whose value differs in `of`.

    None of a worker's own. `of` is asked only of keys that a fetch has more than once.
    """

    def thin(records: Records) -> list[ConsumerRecord]:
        by_key: dict[bytes, list[ConsumerRecord]] = {}
        for one in records:
            if one.key is not None and not one.key.startswith(b"\0"):
                by_key.setdefault(one.key, []).append(one)
        chosen: list[ConsumerRecord] = []
        for some in by_key.values():
            if len(some) > 1:
                marks = [of(one.value) for one in some]
                chosen += [one for n, one in enumerate(some[:-1]) if marks[n] != marks[n + 1]]
            chosen.append(some[-1])
        return _with_ends(records, chosen)

    return thin


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
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: AbstractSet[TopicPartition],
        **bounds: Any,
    ) -> Mapping[TopicPartition, Records]:
        # A copy: the set is changed while we wait, and an empty one means all partitions.
        active = frozenset(active_partitions)
        if not active:
            return {}
        fetched = await super()._fetch_records(consumer, active, **bounds)
        assert isinstance(self.consumer, Consumer)
        thinners = self.consumer.reading.thinners
        return {
            place: thinners[place.topic](records) if place.topic in thinners else records
            for place, records in fetched.items()
        }


class Handover:
    """Knows which records were handed to the agents' queues, and finds those that never came out.

    Rows remember the last offset that they count, so one that is skipped would be lost for ever:
    whoever finds one ends the process, and the next one reads it again. It also knows for how long
    nothing came out although something is inside, and for how long Faust has asked for nothing:
    an agent that hangs tells of nothing itself.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._handed: dict[tuple[str, int], deque[int]] = defaultdict(deque)
        self._taken: dict[tuple[str, int], int] = defaultdict(int)
        self._moved: dict[tuple[str, int], float] = {}
        self._monotonic = monotonic
        self._asked = monotonic()

    def sought(self) -> None:
        """The reading begins anew, behind what was acknowledged."""
        self._handed.clear()
        self._taken.clear()

    def hand(self, topic: str, partition: int, offset: int) -> None:
        """A record goes into a queue."""
        handed = self._handed[topic, partition]
        if not handed and not self._taken[topic, partition]:
            self._moved[topic, partition] = self._monotonic()
        if not handed or offset > handed[-1]:
            handed.append(offset)

    def take(self, topic: str, partition: int, offset: int) -> None:
        """A record came out. Raises RuntimeError if one that went in before it did not."""
        handed = self._handed[topic, partition]
        if handed and handed[0] < offset:
            raise RuntimeError(
                f"{topic}/{partition}: offset {handed[0]} was handed to an agent and vanished "
                f"before {offset}; it will be read again"
            )
        if handed and handed[0] == offset:
            handed.popleft()
        self._taken[topic, partition] += 1
        self._moved[topic, partition] = self._monotonic()

    def settle(self, topic: str, partition: int) -> None:
        """What came of a record that came out is durable."""
        # Those of before a rebalance are forgotten, and yet end some time.
        self._taken[topic, partition] = max(0, self._taken[topic, partition] - 1)
        self._moved[topic, partition] = self._monotonic()

    def ask(self) -> None:
        """Faust asks for more, as it does at least each second."""
        self._asked = self._monotonic()

    def asked_seconds(self) -> float:
        """For how long Faust has not asked."""
        return self._monotonic() - self._asked

    def stuck_seconds(self) -> dict[tuple[str, int], float]:
        """For how long nothing has moved in each partition of which something is inside."""
        now = self._monotonic()
        return {
            place: now - self._moved[place]
            for place in list(self._moved)
            if self._handed[place] or self._taken[place]
        }


class Consumer(driver.Consumer):
    """Faust's consumer: read_committed, and sources resume only after the seek."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        assert isinstance(self.app, ReadingApp)
        self.reading = self.app
        self._held: set[TopicPartition] = set()
        self._sought = False

    def _new_consumer_thread(self) -> _ConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def pause_partitions(self, tps: Iterable[TopicPartition]) -> None:
        """Pause partitions; those of a new assignment are paused first of all."""
        places = set(tps)
        self._held -= places
        self._sought = False
        super().pause_partitions(places)

    def resume_partitions(self, tps: Iterable[TopicPartition]) -> None:
        """Resume changelogs at once; hold sources until their position is known."""
        sources = {place for place in tps if not self._is_changelog_tp(place)}
        self._held |= sources
        super().resume_partitions({place for place in tps if place not in sources})

    async def perform_seek(self) -> None:
        """Seek sources to what was acknowledged."""
        await super().perform_seek()
        self.reading.handover.sought()
        self._sought = True

    def resume_flow(self) -> None:
        """Let records flow, and by now, when queues have been emptied, those of sources too."""
        super().resume_flow()
        if self._sought and self._held:
            super().resume_partitions(self._held)
            self._held = set()

    async def _wait_next_records(self, timeout: float) -> tuple[Any, Any]:  # noqa: ASYNC109 - its port
        self.reading.handover.ask()
        return await super()._wait_next_records(timeout)

    def _to_message(self, tp: TopicPartition, record: ConsumerRecord) -> Any:
        if record.topic in self.reading.thinners:
            self.reading.handover.hand(record.topic, record.partition, record.offset)
        return super()._to_message(tp, record)


class Transport(driver.Transport):
    """Faust's way to Kafka, with this consumer."""

    Consumer = Consumer


class ReadingApp(faust.App):
    """A Faust application that reads so. `thinners` by topic: those of its agents' sources."""

    def __init__(self, name: str, thinners: Mapping[str, Thinner], **settings: Any) -> None:
        super().__init__(name, **settings)
        self.thinners = thinners
        self.handover = Handover()

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)
