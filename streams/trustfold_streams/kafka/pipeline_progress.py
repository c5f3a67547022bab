"""How far a pipeline is, by what its stages said last: complete as of, settled as of, lag."""

from __future__ import annotations

from collections.abc import Mapping

from aiokafka import TopicPartition

from trustfold_schemas.instants import SECOND
from trustfold_schemas.status import StageStatus, TopicStatus
from trustfold_streams.clock import Clock
from trustfold_streams.kafka.admin import TopicState
from trustfold_streams.kafka.clients import new_consumer
from trustfold_streams.kafka.records import progress_from
from trustfold_streams.kafka.scanning import NAME, scan
from trustfold_streams.kafka.settings import INPUT_TOPICS, KafkaSettings
from trustfold_streams.kafka.table import TableReader
from trustfold_streams.kafka.topic_rules import OWN_TOPICS

CLOCKS_APART = 5 * SECOND
"""So far the clocks of a worker and of the broker may be apart: a worker's word that it had read
all that there was at a moment settles the log up to this long before."""

UNCOMMITTED = "read_uncommitted"

ALIVE = 15 * SECOND
"""A worker that wrote progress within this time is alive: it does so every 5 seconds."""


class PipelineProgress:
    """What the stages have said, read once. Made by `read`."""

    def __init__(self, settings: KafkaSettings, clock: Clock) -> None:
        self.table = TableReader(settings, clock)
        """Never started: it holds no scores, and judges what is said like one that does."""
        self._settings = settings
        self._clock = clock
        self._caught_up: dict[int, int] = {}

    @classmethod
    async def read(cls, settings: KafkaSettings, clock: Clock) -> PipelineProgress:
        """Read the topic of progress as it stands."""
        made = cls(settings, clock)
        async for record in scan(settings, "progress", [0], whole=False):
            if record.value is not None:
                progress = progress_from(record.value)
                made.table.take_progress(progress)
                if progress.stage == "correlate":
                    known = made._caught_up.get(progress.partition, 0)
                    made._caught_up[progress.partition] = max(known, progress.caught_up)
        return made

    @property
    def alive(self) -> bool:
        """Whether any worker spoke lately."""
        return alive(self.table, self._clock)

    def settled_up_to(self) -> int:
        """The moment at or before which nothing will be recorded any more; 0 if unknown.

        Every partition of the facts was processed past it: what a stage has caught up with stays
        true, whoever works on it now.
        """
        every = range(self._settings.partitions)
        least = min(self._caught_up.get(partition, 0) for partition in every)
        return max(0, least - CLOCKS_APART)

    async def stages(self) -> tuple[StageStatus, ...]:
        """What each partition of each stage said last, and what lies before it."""
        said = self.table.progress()
        places = sorted({_place(name) for one in said for name in one.positions})
        _, ends = await _offsets(self._settings, places)
        return tuple(
            StageStatus(
                stage=one.stage,
                partition=one.partition,
                caught_up=one.caught_up or None,
                written=one.written,
                lag=sum(max(0, ends[_place(name)] - at) for name, at in one.positions.items()),
                state=one.state,
            )
            for one in said
        )


def alive(table: TableReader, clock: Clock) -> bool:
    """Whether any worker spoke lately, by what a reader of the table has heard."""
    return any(one.written > clock.now() - ALIVE for one in table.progress())


async def topic_statuses(
    settings: KafkaSettings, have: Mapping[str, TopicState]
) -> tuple[TopicStatus, ...]:
    """The topics of a pipeline that are there, and how much each holds."""
    counts = {
        name: have[settings.topic(name)].partitions
        for name in (*INPUT_TOPICS, *OWN_TOPICS)
        if settings.topic(name) in have
    }
    places = [
        TopicPartition(settings.topic(name), partition)
        for name, count in counts.items()
        for partition in range(count)
    ]
    first, ends = await _offsets(settings, places)
    return tuple(
        TopicStatus(
            topic=name,
            partitions=count,
            offsets=sum(
                ends[place] - first[place]
                for place in places
                if place.topic == settings.topic(name)
            ),
        )
        for name, count in counts.items()
    )


def _place(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("/")
    return TopicPartition(topic, int(partition))


async def _offsets(
    settings: KafkaSettings, places: list[TopicPartition]
) -> tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]:
    """Where partitions begin and end, with what is not committed yet."""
    if not places:
        return {}, {}
    consumer = new_consumer(settings, f"{settings.app_id}-{NAME}", isolation_level=UNCOMMITTED)
    try:
        await consumer.start()
        # Assigned, so that the client asks for their metadata at once and not topic by topic.
        consumer.assign(places)
        return await consumer.beginning_offsets(places), await consumer.end_offsets(places)
    finally:
        await consumer.stop()
