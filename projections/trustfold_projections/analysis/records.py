"""Facts and entries of an archive as the laws read them, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.rows import EntryRow, entry_of, fact_of
from trustfold_projections.archive.schema import FACTS, LEDGER, Topic
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.events import CostMedianEvent
from trustfold_schemas.facts import Fact

BATCH_ROWS = 8_192


def list_of(files: list[str]) -> str:
    """Files as a list of SQL; a quote in a path is doubled."""
    return "[" + ", ".join("'" + file.replace("'", "''") + "'" for file in files) + "]"


def columns_of(schema: pa.Schema) -> str:
    """All columns of a schema, quoted: `offset` is a word of SQL."""
    return ", ".join(f'"{name}"' for name in schema.names)


def facts_of(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    topic: Topic = "facts",
    where: str = "true",
    order: str = 'partition, "offset"',
    **values: object,
) -> Iterator[tuple[int, Fact]]:
    """(partition, fact) of facts, policy or cost-median, by partition and offset or as asked."""
    files = archive.files(topic)
    if not files:
        return
    reader = connection.sql(
        f"SELECT {columns_of(FACTS)} FROM read_parquet({list_of(files)}) "
        f"WHERE {where} ORDER BY {order}",
        params=values,
    ).to_arrow_reader(BATCH_ROWS)
    for batch in reader:
        for row in batch.to_pylist():
            yield row["partition"], fact_of(row)


def entries_of(
    connection: duckdb.DuckDBPyConnection, archive: Archive, moment: int, order: str
) -> Iterator[tuple[int, EntryRow]]:
    """(partition, entry) of the entries recorded at or before a moment."""
    files = archive.files("ledger", moment)
    if not files:
        return
    reader = connection.sql(
        f"SELECT {columns_of(LEDGER)} FROM read_parquet({list_of(files)}) "
        f"WHERE recorded_us <= $moment ORDER BY {order}",
        params={"moment": moment},
    ).to_arrow_reader(BATCH_ROWS)
    for batch in reader:
        for row in batch.to_pylist():
            yield row["partition"], entry_of(row)


def facts_of_trace(
    connection: duckdb.DuckDBPyConnection, archive: Archive, trace_id: str
) -> list[Fact]:
    """All facts of a trace, in log order; it lies in one partition."""
    return [
        fact
        for _, fact in facts_of(
            connection,
            archive,
            where="trace_id = $trace_id AND recorded_us <= $moment",
            trace_id=trace_id,
            moment=archive.settled,
        )
    ]


def facts_of_event(
    connection: duckdb.DuckDBPyConnection, archive: Archive, event_id: str
) -> list[str | None]:
    """The traces of the facts with an event id; None for one that is of no trace."""
    files = archive.files("facts")
    if not files:
        return []
    rows = connection.execute(
        f"SELECT DISTINCT trace_id FROM read_parquet({list_of(files)}) "
        "WHERE event_id = $event_id AND recorded_us <= $moment",
        {"event_id": event_id, "moment": archive.settled},
    ).fetchall()
    return [trace_id for (trace_id,) in rows]


def medians_of(connection: duckdb.DuckDBPyConnection, archive: Archive) -> MedianTable:
    """All medians of an archive, in log order."""
    medians = MedianTable()
    for _, fact in facts_of(connection, archive, "cost-median"):
        if isinstance(fact.event, CostMedianEvent):
            medians.add(fact.event.data, fact.recorded)
    return medians


def letters_of(
    connection: duckdb.DuckDBPyConnection, archive: Archive, reason: Reason
) -> frozenset[bytes]:
    """The bytes of the dead letters of a reason."""
    files = archive.files("dead-letters")
    if not files:
        return frozenset()
    rows = connection.execute(
        f"SELECT DISTINCT body FROM read_parquet({list_of(files)}) WHERE reason = $reason",
        {"reason": reason.value},
    ).fetchall()
    return frozenset(body for (body,) in rows)
