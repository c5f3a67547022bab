"""What each topic must be like, as data: every rule beside the promise that it keeps.

A worker refuses to start when a grave one is broken. `topics` creates by these rules and checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from trustfold_streams.kafka.settings import INPUT_TOPICS

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
MEBIBYTE: Final = 1 << 20

UNLIMITED: Final = -1
"""Kafka's word for no limit."""

CHANGELOGS: Final = ("agents-synapse-changelog", "agents-watch-changelog")
"""The tables of the Faust agents, by the names that Faust gives them: `app` makes none itself."""

OWN_TOPICS: Final = (
    "facts",
    "ledger",
    "scores",
    "traces",
    "decisions",
    "synapse",
    "watch",
    "progress",
    "dead-letters",
    *CHANGELOGS,
)
SINGLE: Final = frozenset({"policy", "cost-median", "progress"})
"""Topics of one partition: their records have one order."""

KEPT_FOR_EVER: Final = frozenset({"facts", "ledger", "policy", "cost-median", "decisions"})
COMPACTED: Final = frozenset({"scores", "traces", "synapse", "progress", *CHANGELOGS})
RECORDED_BY_THE_LOG: Final = frozenset({"facts", "policy", "cost-median"})
LARGE: Final = frozenset({"facts", "ledger", "traces", "scores", "dead-letters", *CHANGELOGS})


class Rule(Struct, frozen=True):
    """What one setting must be, and why.

    Either `exactly` or the bounds hold; -1, which Kafka reads as no limit, is over every `least`.
    `create` is what a new topic gets. A `grave` rule keeps a promise; another one saves work.
    """

    key: str
    create: str
    why: str
    exactly: str | None = None
    least: int | None = None
    most: int | None = None
    grave: bool = True

    def holds(self, have: str) -> bool:
        """Whether a value keeps the rule."""
        if self.exactly is not None:
            return have == self.exactly
        try:
            number = int(have)
        except ValueError:
            return False
        if number == UNLIMITED:
            return self.most is None
        return (self.least is None or number >= self.least) and (
            self.most is None or number <= self.most
        )

    @property
    def want(self) -> str:
        """The rule in words."""
        if self.exactly is not None:
            return self.exactly
        bounds = (
            None if self.least is None else f"at least {self.least}",
            None if self.most is None else f"at most {self.most}",
        )
        return ", ".join(bound for bound in bounds if bound)


class Advice(Struct, frozen=True):
    """A broker's setting that should not be `wrong`; `alone`: only on a lone node, or never there.

    It may be the operator's considered choice, so it stops nobody.
    """

    key: str
    wrong: str
    want: str
    why: str
    alone: bool | None = None


ADVICE: Final = (
    Advice(
        "controlled.shutdown.enable",
        "true",
        "false",
        "a lone node stopped under load reports transactions as committed whose markers are "
        "missing (KAFKA-20734); three nodes are safe with it",
        alone=True,
    ),
    Advice(
        "auto.create.topics.enable",
        "true",
        "false",
        "a misspelled topic would spring up with the wrong settings",
    ),
    Advice(
        "transaction.state.log.replication.factor",
        "1",
        "3",
        "the end of one node would be the end of all transactions",
        alone=False,
    ),
    Advice(
        "offsets.topic.replication.factor",
        "1",
        "3",
        "the end of one node would be the end of the groups",
        alone=False,
    ),
)


def rules_of(name: str, memory_ms: int) -> Iterator[Rule]:
    """The rules of a topic named without its prefix; traces are remembered for `memory_ms`."""
    if name in COMPACTED:
        yield Rule(
            "cleanup.policy",
            "compact",
            "the latest record of every key is the state; time or size must never remove it",
            exactly="compact",
        )
        yield Rule(
            "delete.retention.ms",
            str(DAY_MS),
            "a reader slower than this misses that a key was removed",
            least=HOUR_MS,
        )
        yield Rule(
            "segment.ms",
            str(HOUR_MS),
            "only closed segments are compacted, and a restore reads all that is not",
            most=DAY_MS,
            grave=False,
        )
    else:
        yield Rule(
            "cleanup.policy",
            "delete",
            "compaction would keep only the last record of each key",
            exactly="delete",
        )
        yield from _retention(name, memory_ms)
    if name in RECORDED_BY_THE_LOG:
        yield Rule(
            "message.timestamp.type",
            "LogAppendTime",
            "recorded is assigned by the log, never by a publisher",
            exactly="LogAppendTime",
        )
    yield from _sizes(name)
    yield Rule(
        "unclean.leader.election.enable",
        "false",
        "a leader that has not all records would lose acknowledged ones",
        exactly="false",
    )


def _retention(name: str, memory_ms: int) -> Iterator[Rule]:
    if name in KEPT_FOR_EVER:
        yield Rule(
            "retention.ms",
            str(UNLIMITED),
            "it is kept for ever: scores as of then are derived from it",
            exactly=str(UNLIMITED),
        )
    else:
        yield Rule(
            "retention.ms",
            str(UNLIMITED),
            "what the memory of traces still admits must still be there to be read",
            least=memory_ms,
        )
    yield Rule(
        "retention.bytes",
        str(UNLIMITED),
        "a limit of size removes records that nobody has read",
        exactly=str(UNLIMITED),
    )


def _sizes(name: str) -> Iterator[Rule]:
    if name in LARGE:
        yield Rule(
            "max.message.bytes",
            str(8 * MEBIBYTE),
            "an envelope, a trace's state or the bytes of a dead letter must fit",
            least=8 * MEBIBYTE,
        )
    elif name in INPUT_TOPICS:
        # Kafka's own limit is the largest legal event and 12 bytes, so that it does not fit.
        yield Rule(
            "max.message.bytes",
            str(2 * MEBIBYTE),
            "an event of 1 MiB must fit with its headers, and what is too large for an event "
            "must still fit into a dead letter",
            least=2 * MEBIBYTE,
            most=4 * MEBIBYTE,
        )
