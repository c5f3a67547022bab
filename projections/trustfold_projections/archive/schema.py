"""What stands in a segment: its columns, their types and units, and how a file is laid out.

Moments are int64 microseconds since 1970, amounts millionths, money micro-USD. No column holds a
float, and none is wider than 64 bits: Parquet has no such integer, and DuckDB would turn it into a
double without a word.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import pyarrow as pa

from trustfold_schemas.ledger import Kind

Topic = Literal["facts", "policy", "cost-median", "decisions", "dead-letters", "ledger"]

TOPICS: Final[tuple[Topic, ...]] = (
    "facts",
    "policy",
    "cost-median",
    "decisions",
    "dead-letters",
    "ledger",
)
"""What is archived, in the order in which it is written: what a score rests on comes before it."""

LAYOUT: Final = 2
"""The number of this layout; it stands in every file."""

KINDS: Final[dict[Kind, int]] = {
    "evidence": 1,
    "correction": 2,
    "brake": 3,
    "self_play": 4,
    "initial": 5,
    "rollback": 6,
    "rollback_lifted": 7,
}
KIND_NAMES: Final[dict[int, Kind]] = {number: kind for kind, number in KINDS.items()}
ROLLBACK_KINDS: Final[tuple[Kind, ...]] = ("rollback", "rollback_lifted")

ROW_GROUP: Final = 122_880
BLOCK: Final = 8
"""Eras that one row of a rollup covers: so few that an entry's product fits in a BIGINT."""


class Place(NamedTuple):
    """One partition of a topic; the embedded store has one partition of each."""

    topic: Topic
    partition: int


def _field(name: str, kind: pa.DataType, about: str, *, null: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=null, metadata={"about": about})


_WHERE: Final = [
    _field("partition", pa.int32(), "partition of the topic; 0 in the embedded store"),
    _field(
        "offset",
        pa.int64(),
        "place in the partition: a Kafka offset; embedded: the position of an entry, the recorded "
        "moment of a fact",
    ),
    _field("recorded_us", pa.int64(), "when the log took it"),
]
_SEG_MAX: Final = _field(
    "seg_max", pa.int64(), "max(recorded_us) of the file, so that statistics prune by moment"
)
_STAMP: Final = [
    _field("role", pa.string(), "role of the publisher"),
    _field("identity", pa.string(), "who it was; NULL where the store knows none", null=True),
    _field("scopes", pa.string(), "scopes it may speak of, a JSON array; NULL is all", null=True),
]

FACTS: Final = pa.schema(
    [
        *_WHERE,
        _field("occurred_us", pa.int64(), "the event's `time`"),
        _field("type", pa.string(), "the event's type without `trustfold.`"),
        _field("source", pa.string(), "the event's source"),
        _field("event_id", pa.string(), "the event's id"),
        _field("trace_id", pa.string(), "its trace; NULL where it is of none", null=True),
        *_STAMP,
        _field("body", pa.string(), "the event's original document, JSON"),
        _SEG_MAX,
    ]
)
"""Segments of `facts`, `policy` and `cost-median`."""

COMPONENT_COLUMNS: Final = tuple(f"a{i}" for i in range(5)) + tuple(f"w{i}" for i in range(5))

LEDGER: Final = pa.schema(
    [
        *_WHERE[:2],
        _field("idx", pa.int32(), "number of the entry within its record; embedded: 0"),
        _WHERE[2],
        _field("occurred_us", pa.int64(), "when it happened"),
        _field("era", pa.int16(), "half-lives of 30 days between 2020-01-01 and occurred, floored"),
        _field("m", pa.int32(), "mantissa of the time weight: g = m * 2**era, 2**30 <= m < 2**31"),
        _field("subject", pa.string(), "key of the subject: the JSON array [scope, tool, effect]"),
        _field(
            "kind",
            pa.int8(),
            "1 evidence, 2 correction, 3 brake, 4 self_play, 5 initial, "
            "6 rollback, 7 rollback_lifted",
        ),
        _field("rev", pa.int32(), "number of the entry of this trace and subject, from 1"),
        _field("n", pa.int8(), "traces that it counts, signed"),
        _field("clean", pa.bool_(), "whether it can make a score fresh"),
        *(_field(f"a{i}", pa.int32(), f"amount of component {i}, ppm, signed") for i in range(5)),
        *(_field(f"w{i}", pa.int8(), f"weight of component {i}, signed") for i in range(5)),
        _field("sp_a", pa.int32(), "self-play amount, ppm", null=True),
        _field("sp_w", pa.int8(), "self-play weight", null=True),
        _field("bad_at", pa.int64(), "the moment that brakes the subject", null=True),
        _field("grant_at", pa.int64(), "the moment of a human grant", null=True),
        _field("median_usd", pa.int64(), "median of cost it was measured by", null=True),
        _field("to_us", pa.int64(), "where a rollback goes back to", null=True),
        _field(
            "rollback_id", pa.string(), "a rollback's own id, or that of the one lifted", null=True
        ),
        _field("trace_id", pa.string(), "its trace; NULL where it is of none", null=True),
        _field("event_id", pa.string(), "id of the event that made it"),
        _field("source", pa.string(), "source of the event that made it"),
        _field("formula", pa.string(), "the law its amounts were made for"),
        _field("fact_partition", pa.int32(), "partition of the fact that made it"),
        _field("fact_offset", pa.int64(), "offset of the fact that made it"),
        _field("fact_number", pa.int32(), "number among the entries of that fact, from 0"),
        _field(
            "chain",
            pa.list_(pa.field("element", pa.int64(), nullable=False)),
            "earlier recorded moments of this trace and subject; its own is implied",
        ),
        _SEG_MAX,
    ]
)
"""Segments of `ledger`, sorted by subject, recorded_us, offset, idx."""

DECISIONS: Final = pa.schema(
    [
        *_WHERE,
        _field("decision_id", pa.string(), "128 random bits that the step then carries"),
        _field("subject", pa.string(), "key of the subject"),
        _field("trace_id", pa.string(), "the trace of the action"),
        _field("step_id", pa.string(), "the step of the action"),
        _field("args_fingerprint", pa.string(), "keyed fingerprint of its arguments", null=True),
        _field("said", pa.string(), "the reversibility that the caller named", null=True),
        _field("verdict", pa.string(), "allow or approve_required"),
        _field("would_be", pa.string(), "what it would be but for shadow mode and spot checks"),
        _field("reason", pa.string(), "code of the first reason"),
        _field("stale", pa.string(), "why the table was not known to be caught up", null=True),
        _field("owed_to", pa.string(), "the decision whose spot check it waits for", null=True),
        _field("grounds", pa.string(), "all it rested on, JSON"),
        _SEG_MAX,
    ]
)

DEAD_LETTERS: Final = pa.schema(
    [
        *_WHERE,
        _field("reason", pa.string(), "why it was refused"),
        _field("detail", pa.string(), "what was got and what was wanted"),
        _field("origin", pa.string(), "where the bytes came from"),
        *_STAMP,
        _field("body", pa.binary(), "the original bytes"),
        _SEG_MAX,
    ]
)

SCHEMAS: Final[dict[Topic, pa.Schema]] = {
    "facts": FACTS,
    "policy": FACTS,
    "cost-median": FACTS,
    "decisions": DECISIONS,
    "dead-letters": DEAD_LETTERS,
    "ledger": LEDGER,
}

SORTED_BY: Final[dict[Topic, tuple[str, ...]]] = {
    **dict.fromkeys(TOPICS, ("offset",)),
    "ledger": ("subject", "recorded_us", "offset", "idx"),
}

SUMS: Final = (*(f"x{i}" for i in range(5)), *(f"d{i}" for i in range(5)), "sp_x", "sp_d")
"""The exact sums of a rollup: amounts, weights, and those of self-play."""

ROLLUP: Final = pa.schema(
    [
        _field("subject", pa.string(), "key of the subject"),
        _field("blk", pa.int32(), "era // 8; a sum stands for sum * 2**(8 * blk)"),
        *(_field(f"x{i}", pa.int64(), f"sum of amount {i} * g, ppm") for i in range(5)),
        *(_field(f"d{i}", pa.int64(), f"sum of weight {i} * g") for i in range(5)),
        _field("sp_x", pa.int64(), "sum of self-play amount * g, ppm"),
        _field("sp_d", pa.int64(), "sum of self-play weight * g"),
        _field("n", pa.int64(), "traces counted, signed"),
        _field("v", pa.int64(), "entries"),
        _field("lu", pa.int64(), "max(occurred_us) of clean evidence", null=True),
        _field("lb", pa.int64(), "max(bad_at)", null=True),
        _field("lg", pa.int64(), "max(grant_at)", null=True),
        _SEG_MAX,
    ]
)
"""The sums of a ledger segment by subject and block, as if no rollback were in force.

Rows of one key are added up. Where a sum passes 62 bits, its row holds what is left of 2**32, and
a second one, four blocks later, how many of them there are.
"""
