"""What a store says of itself: `trustfold status` prints it. Instants in us since 1970."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Status(Struct, frozen=True, kw_only=True):
    """What a store in a file holds; `head` is the chain's last value."""

    path: str
    layout: int
    bytes: int
    facts: int
    entries: int
    subjects: int
    traces: int
    traces_open: int
    first_recorded: int | None
    last_recorded: int | None
    head: str
    facts_by_type: dict[str, int]
    dead_letters_by_reason: dict[str, int]
    clock_behind_seconds: float


class TopicStatus(Struct, frozen=True, kw_only=True):
    """A topic: its partitions, and the offsets from its beginnings to its ends, all together.

    Offsets count the ends of transactions too, so that there are somewhat fewer records.
    """

    topic: str
    partitions: int
    offsets: int


class StageStatus(Struct, frozen=True, kw_only=True):
    """How far a stage is in one partition, as it said last, at `written`.

    `caught_up` is the last moment as of which everything was processed that its input held then
    (None: not yet); `lag` the offsets between its position and the input's end, of which one may
    be the end of a transaction.
    """

    stage: str
    partition: int
    caught_up: int | None
    written: int
    lag: int
    state: Literal["running", "refolding"]


class PipelineStatus(Struct, frozen=True, kw_only=True):
    """What a pipeline on Kafka holds, and how far its stages are.

    `complete_as_of`: every event published by then is in the table of scores (None: unknown);
    `stale`: that is longer ago than readers accept, so that they refuse.
    """

    bootstrap: str
    prefix: str
    topics: tuple[TopicStatus, ...]
    stages: tuple[StageStatus, ...]
    dead_letters_by_reason: dict[str, int]
    complete_as_of: int | None
    stale: bool
