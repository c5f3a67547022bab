"""The exact sums of every subject as of a moment, from rollups and the segments that straddle it.

Segments that lie wholly before the moment are read as their rollups; those that straddle it, and
all of the subjects with a rollback in force, entry by entry. Offsets are not monotone in recorded,
so any number of segments may straddle a moment.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from trustfold_projections.analysis import views
from trustfold_projections.analysis.records import columns_of, list_of
from trustfold_projections.analysis.states import Rollbacks, states_of
from trustfold_projections.archive.manifest import Line
from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.rows import entry_of
from trustfold_projections.archive.schema import BLOCK, LEDGER
from trustfold_projections.laws.fold import rollbacks_in_force
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject


def sums_as_of(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    moment: int,
    subject: Subject | None = None,
    *,
    by_entry: bool = False,
) -> tuple[pa.Table, Rollbacks]:
    """The sums of a subject by block of eras as of a moment, of all subjects or one; the rollbacks.

    Columns: subject, blk, the SUMS as BIGINT or DECIMAL(38, 0) (each stands for itself times
    2**(8 blk)), n, v, lu, lb, lg; sorted by subject and blk, and rows of one key are added up by
    who reads them. `by_entry` uses no rollup. Raises NotSettledError, ArchiveDamagedError.
    """
    archive.require_settled(moment)
    rollbacks = rollbacks_as_of(connection, archive, moment, subject)
    within: list[Line] = []
    astride: list[Line] = []
    for line in archive.manifest.segments("ledger"):
        if (line.max_recorded or 0) <= moment:
            within.append(line)
        elif (line.min_recorded or 0) <= moment:
            astride.append(line)
    whole = bool(rollbacks) or by_entry
    lines = [*within, *astride] if whole else astride
    views.segments(connection, "raw_ledger", "ledger", [archive.file(line) for line in lines])
    views.rollups(connection, archive, () if by_entry else within)
    where, values = "true", dict[str, object]()
    if subject is not None:
        where, values["subject"] = "subject = $subject", subject.key.decode()
    if len(within) == 1 and not lines:
        # A rollup by itself is its own sums, in a quarter of the time of the macro.
        source = "SELECT * EXCLUDE (seg_max) FROM raw_rollups"
    else:
        if not views.has_sums(connection):
            views.make(connection, everything=False)
        source = f"FROM sums_as_of($moment, by_entry := {by_entry})"
        values["moment"] = moment
    table: pa.Table = connection.sql(
        f"{source} WHERE {where} ORDER BY subject, blk", params=values
    ).to_arrow_table()
    return table, rollbacks


def rollbacks_as_of(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    moment: int,
    subject: Subject | None = None,
) -> Rollbacks:
    """The rollbacks recorded at or before a moment and not lifted by then."""
    entries: dict[str, list[Entry]] = {}
    lines = [line for line in archive.manifest.segments("ledger") if line.rollbacks]
    files = [archive.file(line) for line in lines if (line.min_recorded or 0) <= moment]
    for entry in _entries(connection, files, moment, subject, "kind IN (6, 7)"):
        entries.setdefault(entry.subject.key.decode(), []).append(entry)
    found = {key: rollbacks_in_force(entries[key]) for key in sorted(entries)}
    return {key: rollbacks for key, rollbacks in found.items() if rollbacks}


def read_entries(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    moment: int,
    subject: Subject | None = None,
) -> list[Entry]:
    """Entries recorded at or before a moment, those of a subject in log order."""
    return _entries(connection, archive.files("ledger", moment), moment, subject)


def _entries(
    connection: duckdb.DuckDBPyConnection,
    files: list[str],
    moment: int,
    subject: Subject | None,
    where: str = "true",
) -> list[Entry]:
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
    sums, rollbacks = sums_as_of(connection, archive, moment, subject)
    return states_of(sums, BLOCK, rollbacks)
