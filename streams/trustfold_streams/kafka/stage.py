"""What a stage is: a pure law over one partition's records, its states, and what it writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from trustfold_streams.kafka.records import Headers, Output


class Record(NamedTuple):
    """An input record. `timestamp` is the log's, in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Batch(NamedTuple):
    """What a batch of records changes: rows of the state partition, and records elsewhere."""

    states: dict[bytes, bytes | None]
    outputs: list[Output]


class Lookup(Protocol):
    """Reads committed records of a partition again, from an offset up to another."""

    def __call__(self, topic: str, partition: int, first: int, end: int) -> AsyncIterator[Record]:
        """The records with first <= offset < end."""
        ...


class StageTask(Protocol):
    """One partition of a stage: its states in memory and the law over them."""

    recorded: int
    """The greatest moment read, in microseconds since 1970."""
    refolding: bool
    """Whether it rereads its log before it goes on."""

    def load(self, key: bytes, value: bytes | None) -> None:
        """Take one row of the state partition, in log order; None deletes."""
        ...

    async def process(self, records: Sequence[Record]) -> Batch:
        """Take a batch of records, in the order of each partition."""
        ...

    async def tick(self, now: int) -> list[Output]:
        """What a timer has to publish at the wall clock's `now`, outside any transaction."""
        ...


class Stage(Protocol):
    """A stage of the pipeline. Topics are full names."""

    @property
    def name(self) -> str:
        """What groups and transactional ids carry."""
        ...

    @property
    def inputs(self) -> tuple[str, ...]:
        """The topics it consumes, all with the same number of partitions."""
        ...

    @property
    def state_topic(self) -> str:
        """The compacted topic of its states."""
        ...

    def task(self, partition: int, lookup: Lookup) -> StageTask:
        """The work on one partition."""
        ...
