"""The scores of all subjects under another half-life, from a ledger, by exact sums in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

from trustfold_projections.analysis.states import states_of
from trustfold_projections.analysis.whatif_law import HalfLife
from trustfold_projections.archive.rollup import BLK, BY_BLOCK, WEIGHT
from trustfold_projections.archive.rows import entry_of
from trustfold_projections.archive.schema import BLOCK, SUMS
from trustfold_projections.laws.fold import rollbacks_in_force
from trustfold_projections.laws.time_weights import MANTISSAS, ZERO
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject, subject_from_key

LEDGER_VIEW: Final = "ledger"
"""The relation that is read, with the columns of a ledger segment."""

_STEPS: Final = len(MANTISSAS) - 1

_MANTISSAS: Final = pa.schema(
    [pa.field("i", pa.int64()), pa.field("low", pa.int64()), pa.field("step", pa.int64())]
)
_ROLLED_BACK: Final = pa.schema(
    [
        pa.field("subject", pa.string()),
        pa.field(
            "intervals",
            pa.list_(pa.struct([pa.field("low", pa.int64()), pa.field("high", pa.int64())])),
        ),
    ]
)

# An entry is dead if its own moment or one of its chain lies in (to, at] of a rollback in force.
_LIVING: Final = f"""
SELECT l.subject, occurred_us, occurred_us - {ZERO} AS t, n, clean, sp_a, sp_w,
       a0, a1, a2, a3, a4, w0, w1, w2, w3, w4
FROM {LEDGER_VIEW} l LEFT JOIN rolled_back r USING (subject)
WHERE {{chosen}} AND l.recorded_us <= $moment AND l.kind NOT IN (6, 7) AND (
    r.intervals IS NULL
    OR len(list_filter(r.intervals, lambda i:
        (l.recorded_us > i.low AND l.recorded_us <= i.high)
        OR len(list_filter(l.chain, lambda c: c > i.low AND c <= i.high)) > 0)) = 0)
"""

# Everything BIGINT: up to 270 days no product passes 63 bits.
_WEIGHED: Final = f"""
SELECT p.* EXCLUDE (t, place), (t // $half_life)::INTEGER AS era,
       low + step * (place % $half_life) // $half_life AS m
FROM (SELECT *, (t % $half_life) * {_STEPS} AS place FROM ({_LIVING})) p
JOIN mantissas ON i = place // $half_life
"""

# A half-life of a day makes many blocks: four and four are added up before they are fetched.
_TOGETHER: Final = 4
_ADDED: Final = ", ".join(
    f"sum({name} * (1::HUGEINT << ({BLOCK} * (blk & {_TOGETHER - 1}))::INTEGER))::DECIMAL(38, 0) "
    f"AS {name}"
    for name in SUMS
)

_QUERY: Final = f"""
SELECT subject, (blk // {_TOGETHER})::INTEGER AS blk, {_ADDED}, sum(n)::BIGINT AS n, max(lu) AS lu
FROM (
    SELECT subject, {BLK} AS blk, {BY_BLOCK}, sum(n) AS n, max(occurred_us) FILTER (clean) AS lu
    FROM (SELECT *, {WEIGHT} AS g FROM ({_WEIGHED})) GROUP BY subject, blk
) GROUP BY ALL ORDER BY subject, blk
"""


def states_under(
    connection: duckdb.DuckDBPyConnection,
    half_life: HalfLife,
    moment: int,
    subject: Subject | None = None,
) -> list[State]:
    """The sums of every subject, or of one, as of a moment, weighted by a half-life; by subject.

    Reads the view LEDGER_VIEW. Only sums, n_samples and last_updated are filled in.
    """
    connection.register("mantissas", _mantissas())
    rolled_back = _rolled_back(connection, moment)
    connection.register("rolled_back", rolled_back)
    values: dict[str, Any] = {"moment": moment, "half_life": half_life.micros}
    chosen = "true"
    if subject is not None:
        values["subject"] = subject.key.decode()
        chosen = "l.subject = $subject"
    try:
        table: pa.Table = connection.sql(
            _QUERY.format(chosen=chosen), params=values
        ).to_arrow_table()
    finally:
        connection.unregister("mantissas")
        connection.unregister("rolled_back")
    made = {state.subject: state for state in states_of(table, _TOGETHER * BLOCK, {})}
    for key in rolled_back.column("subject").to_pylist():
        # Of one whose entries are all rolled back no sum is left; it is known all the same.
        known = subject_from_key(key)
        if subject in (None, known) and known not in made:
            made[known] = State(subject=known)
    return [made[known] for known in sorted(made)]


def entries_of_subject(
    connection: duckdb.DuckDBPyConnection, subject: Subject, moment: int
) -> list[Entry]:
    """A subject's entries recorded at or before a moment, in log order."""
    return _entries(
        connection,
        "subject = $subject AND recorded_us <= $moment",
        subject=subject.key.decode(),
        moment=moment,
    )


def _entries(connection: duckdb.DuckDBPyConnection, where: str, **values: Any) -> list[Entry]:
    table: pa.Table = connection.sql(
        f'SELECT * FROM {LEDGER_VIEW} WHERE {where} ORDER BY recorded_us, partition, "offset", idx',
        params=values,
    ).to_arrow_table()
    return [entry_of(row).entry for row in table.to_pylist()]


def _mantissas() -> pa.Table:
    steps = range(_STEPS)
    return pa.Table.from_pydict(
        {
            "i": list(steps),
            "low": [MANTISSAS[i] for i in steps],
            "step": [MANTISSAS[i + 1] - MANTISSAS[i] for i in steps],
        },
        schema=_MANTISSAS,
    )


def _rolled_back(connection: duckdb.DuckDBPyConnection, moment: int) -> pa.Table:
    """The intervals of the rollbacks in force at a moment, a row a subject."""
    by_subject: dict[Subject, list[Entry]] = {}
    for entry in _entries(connection, "kind IN (6, 7) AND recorded_us <= $moment", moment=moment):
        by_subject.setdefault(entry.subject, []).append(entry)
    found: Sequence[tuple[str, list[dict[str, int]]]] = [
        (
            subject.key.decode(),
            [{"low": one.to, "high": one.at} for one in rollbacks_in_force(entries)],
        )
        for subject, entries in by_subject.items()
    ]
    return pa.Table.from_pydict(
        {"subject": [key for key, _ in found], "intervals": [spans for _, spans in found]},
        schema=_ROLLED_BACK,
    )
