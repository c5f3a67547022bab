"""What an analyst sees: one .sql file a view or macro, in the order in which they are made.

`attach` makes them in any DuckDB connection, over the files that the manifest names and none else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from trustfold_projections.archive.duck import fixed
from trustfold_projections.archive.manifest import Line
from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.schema import ROLLUP, SCHEMAS, Topic
from trustfold_projections.laws.time_weights import MANTISSAS

RAW: Final[dict[str, Topic]] = {
    "raw_facts": "facts",
    "raw_policy": "policy",
    "raw_medians": "cost-median",
    "raw_decisions": "decisions",
    "raw_dead_letters": "dead-letters",
    "raw_ledger": "ledger",
}
"""The views over segments, by name; `raw_rollups` is the one over rollups."""

_TYPES: Final = {
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "bool": "BOOLEAN",
    "string": "VARCHAR",
    "binary": "BLOB",
}


def attach(connection: duckdb.DuckDBPyConnection, folder: str | Path) -> Archive:
    """Make every view of an archive in a connection, and fix its settings.

    `duckdb.connect()` and this line are all that an analyst needs. Every file is held against its
    digest first. Raises NoArchiveError, ArchiveDamagedError.
    """
    archive = Archive.open(Path(folder))
    fixed(connection)
    for name, topic in RAW.items():
        segments(connection, name, topic, archive.files(topic))
    rollups(connection, archive, archive.manifest.segments("ledger"))
    connection.execute("SET VARIABLE settled = $1::BIGINT", [archive.settled])
    make(connection, everything=True)
    return archive


def segments(
    connection: duckdb.DuckDBPyConnection, name: str, topic: Topic, files: list[str]
) -> None:
    """Make one of the views over segments."""
    _over(connection, name, SCHEMAS[topic], files)


def rollups(connection: duckdb.DuckDBPyConnection, archive: Archive, lines: Iterable[Line]) -> None:
    """Make the view over the rollups of some ledger segments."""
    _over(connection, "raw_rollups", ROLLUP, [archive.rollup(line) for line in lines])


def make(connection: duckdb.DuckDBPyConnection, *, everything: bool) -> None:
    """Make the views and macros over the raw ones: all, or those that sums rest on."""
    if everything:
        steps = itertools.pairwise(MANTISSAS)
        table = [{"i": i, "low": low, "step": high - low} for i, (low, high) in enumerate(steps)]
        connection.execute("SET VARIABLE mantissas = $1", [table])
    for name, script in scripts():
        if everything or name[:3] in ("110", "120"):
            connection.execute(script)
    connection.execute("SET VARIABLE sums_made = true")


def has_sums(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the macros of sums are there: to make them costs more than most sums."""
    ((made,),) = connection.execute("SELECT getvariable('sums_made')").fetchall()
    return made is not None


def scripts() -> list[tuple[str, str]]:
    """The .sql files by name, in order."""
    folder = resources.files(__name__)
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [(name, (folder / name).read_text(encoding="utf-8")) for name in files]


def _over(
    connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, files: list[str]
) -> None:
    """A view over files by way of a variable of its name; one without files has its columns."""
    connection.execute(f"SET VARIABLE {name} = $1::VARCHAR[]", [files])
    columns = ", ".join(f'"{column}"' for column in schema.names)
    source = f"SELECT {columns} FROM read_parquet(getvariable('{name}'))"
    if not files:
        nothing = ", ".join(f'NULL::{_type(field.type)} AS "{field.name}"' for field in schema)
        source = f"SELECT {nothing} WHERE false"
    connection.execute(f"CREATE OR REPLACE VIEW {name} AS {source}")


def _type(kind: pa.DataType) -> str:
    name = str(kind)
    return "BIGINT[]" if name.startswith("list") else _TYPES[name]
