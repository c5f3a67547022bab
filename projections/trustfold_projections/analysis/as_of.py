"""The exact sums of every subject as of a moment, from rollups and the segments that straddle it.

Segments that lie wholly before the moment are read as their rollups; those that straddle it, and
all of the subjects with a rollback in force, entry by entry. Offsets are not monotone in recorded,
so any number of segments may straddle a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from trustfold_projections.analysis.records import columns_of, list_of
from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.rollup import BY_BLOCK, BY_ERA, MARKS, MARKS_OF_MARKS
from trustfold_projections.archive.rows import entry_of
from trustfold_projections.archive.schema import BLOCK, LEDGER, LIMB, SUMS
from trustfold_projections.laws.fold import rollbacks_in_force
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import Rollback, State
from trustfold_schemas.subject import Subject, subject_from_key

Rollbacks = Mapping[str, tuple[Rollback, ...]]
"""The rollbacks in force at a moment, by the key of their subject."""

_ROLLBACK_KINDS = "(6, 7)"

_FROM_LIMBS = ", ".join(
    f"sum({name}_hi)::HUGEINT * {1 << LIMB} + sum({name}_lo) AS {name}" for name in SUMS
)
_SUMMED = ", ".join(f"sum({name}) AS {name}" for name in SUMS)
_DECIMALS = ", ".join(f"coalesce({name}, 0)::DECIMAL(38, 0) AS {name}" for name in SUMS)
_NOTHING = ", ".join(f"0::HUGEINT AS {name}" for name in SUMS)


def _rollup_part(files: list[str], where: str) -> str:
    return (
        f"SELECT subject, blk, {_FROM_LIMBS}, {MARKS_OF_MARKS} FROM read_parquet({list_of(files)}) "
        f"WHERE {where} GROUP BY subject, blk"
    )


def _ledger_part(files: list[str], where: str) -> str:
    return (
        f"SELECT subject, (era >> 5)::INTEGER AS blk, {BY_BLOCK}, {MARKS_OF_MARKS} FROM ("
        f"SELECT subject, era, {BY_ERA}, {MARKS} FROM read_parquet({list_of(files)}) "
        f"WHERE recorded_us <= $moment AND {where} GROUP BY subject, era) GROUP BY subject, blk"
    )


def _rolled_back_part(files: list[str], where: str) -> str:
    # An entry is dead if a moment of its chain, its own among them, lies in (to, at] of a rollback
    # in force. What is dead keeps nothing but `bad_at`: a rollback must not lift a brake.
    judged = (
        "SELECT l.*, len(list_filter(r.intervals, lambda i: "
        "(l.recorded_us > i.low AND l.recorded_us <= i.high) OR "
        "len(list_filter(l.chain, lambda c: c > i.low AND c <= i.high)) > 0)) > 0 AS dead "
        f"FROM read_parquet({list_of(files)}) l JOIN rolled_back r USING (subject) "
        f"WHERE l.recorded_us <= $moment AND {where.replace('subject', 'l.subject')}"
    )
    return (
        f"SELECT subject, (era >> 5)::INTEGER AS blk, {BY_BLOCK}, {MARKS_OF_MARKS} FROM ("
        f"SELECT subject, era, {BY_ERA}, sum(n) AS n, 0::BIGINT AS v, "
        "max(occurred_us) FILTER (clean) AS lu, NULL::BIGINT AS lb, max(grant_at) AS lg "
        f"FROM ({judged}) WHERE NOT dead GROUP BY subject, era) GROUP BY subject, blk "
        f"UNION ALL SELECT subject, 0 AS blk, {_NOTHING}, 0 AS n, count(*) AS v, NULL AS lu, "
        f"max(bad_at) AS lb, NULL AS lg FROM read_parquet({list_of(files)}) "
        f"WHERE recorded_us <= $moment AND {where} "
        "AND subject IN (SELECT subject FROM rolled_back) GROUP BY subject"
    )


def sums_as_of(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    moment: int,
    subject: Subject | None = None,
) -> tuple[pa.Table, Rollbacks]:
    """One row a subject and block of eras as of a moment, of all subjects or one; the rollbacks.

    Columns: subject, blk, the SUMS as DECIMAL(38, 0) (each stands for itself times 2**(32 blk)),
    n, v, lu, lb, lg; sorted by subject and blk. Raises NotSettledError, ArchiveDamagedError.
    """
    archive.require_settled(moment)
    rollbacks = rollbacks_as_of(connection, archive, moment, subject)
    lines = archive.manifest.segments("ledger")
    within = [line for line in lines if (line.max_recorded or 0) <= moment]
    astride = [
        line for line in lines if (line.min_recorded or 0) <= moment < (line.max_recorded or 0)
    ]
    values: dict[str, object] = {}
    chosen = "true"
    if subject is not None:
        values["subject"] = subject.key.decode()
        chosen = "subject = $subject"
    plain = (
        f"{chosen} AND subject NOT IN (SELECT subject FROM rolled_back)" if rollbacks else chosen
    )
    parts: list[str] = []
    if within:
        parts.append(_rollup_part([archive.rollup(line) for line in within], plain))
    if astride:
        parts.append(_ledger_part([archive.file(line) for line in astride], plain))
    if rollbacks:
        connection.register("rolled_back", _intervals(rollbacks))
        parts.append(_rolled_back_part(archive.files("ledger", moment), chosen))
    if not parts:
        return _empty(), rollbacks
    if astride or rollbacks:
        values["moment"] = moment
    query = (
        f"SELECT subject, blk, {_DECIMALS}, n::BIGINT AS n, v::BIGINT AS v, lu, lb, lg FROM ("
        f"SELECT subject, blk, {_SUMMED}, {MARKS_OF_MARKS} FROM ({' UNION ALL '.join(parts)}) "
        "GROUP BY subject, blk) ORDER BY subject, blk"
    )
    table: pa.Table = connection.sql(query, params=values).to_arrow_table()
    if rollbacks:
        connection.unregister("rolled_back")
    return table, rollbacks


def rollbacks_as_of(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    moment: int,
    subject: Subject | None = None,
) -> Rollbacks:
    """The rollbacks recorded at or before a moment and not lifted by then."""
    entries: dict[str, list[Entry]] = {}
    for entry in read_entries(connection, archive, moment, subject, f"kind IN {_ROLLBACK_KINDS}"):
        entries.setdefault(entry.subject.key.decode(), []).append(entry)
    found = {key: rollbacks_in_force(entries[key]) for key in sorted(entries)}
    return {key: rollbacks for key, rollbacks in found.items() if rollbacks}


def read_entries(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    moment: int,
    subject: Subject | None = None,
    where: str = "true",
) -> list[Entry]:
    """Entries recorded at or before a moment, those of a subject in log order."""
    files = archive.files("ledger", moment)
    if not files:
        return []
    values: dict[str, Any] = {"moment": moment}
    if subject is not None:
        where += " AND subject = $subject"
        values["subject"] = subject.key.decode()
    table: pa.Table = connection.sql(
        f"SELECT {columns_of(LEDGER)} FROM read_parquet({list_of(files)}) "
        f'WHERE recorded_us <= $moment AND {where} ORDER BY partition, "offset", idx',
        params=values,
    ).to_arrow_table()
    return [entry_of(row).entry for row in table.to_pylist()]


def states_as_of(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    moment: int,
    subject: Subject | None = None,
) -> list[State]:
    """The state of every subject, or of one, as of a moment, in the order of subjects."""
    table, rollbacks = sums_as_of(connection, archive, moment, subject)
    states: dict[str, State] = {}
    for row in table.to_pylist():
        key = row["subject"]
        state = states.get(key)
        if state is None:
            state = states[key] = State(
                subject=subject_from_key(key), rollbacks=rollbacks.get(key, ())
            )
        _add_block(state, row)
    return sorted(states.values(), key=lambda state: state.subject)


def _add_block(state: State, row: dict[str, Any]) -> None:
    shift = BLOCK * row["blk"]
    for i in range(5):
        state.num[i] += int(row[f"x{i}"]) << shift
        state.den[i] += int(row[f"d{i}"]) << shift
    state.self_play_num += int(row["sp_x"]) << shift
    state.self_play_den += int(row["sp_d"]) << shift
    state.n_samples += row["n"]
    state.version += row["v"]
    state.last_updated = _greatest(state.last_updated, row["lu"])
    state.last_bad_at = _greatest(state.last_bad_at, row["lb"])
    state.last_grant_at = _greatest(state.last_grant_at, row["lg"])


def _greatest(one: int | None, other: int | None) -> int | None:
    return max((moment for moment in (one, other) if moment is not None), default=None)


def _intervals(rollbacks: Rollbacks) -> pa.Table:
    kind = pa.list_(pa.struct([pa.field("low", pa.int64()), pa.field("high", pa.int64())]))
    return pa.Table.from_pydict(
        {
            "subject": list(rollbacks),
            "intervals": pa.array(
                [[{"low": one.to, "high": one.at} for one in some] for some in rollbacks.values()],
                type=kind,
            ),
        }
    )


def _empty() -> pa.Table:
    numbers = pa.decimal128(38, 0)
    return pa.schema(
        [
            pa.field("subject", pa.string()),
            pa.field("blk", pa.int32()),
            *(pa.field(name, numbers) for name in SUMS),
            *(pa.field(name, pa.int64()) for name in ("n", "v", "lu", "lb", "lg")),
        ]
    ).empty_table()
