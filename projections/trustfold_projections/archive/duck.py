"""DuckDB as it is used here: nothing is downloaded, and nothing depends on the machine."""

from __future__ import annotations

from typing import Final

import duckdb

SETTINGS: Final[tuple[tuple[str, str], ...]] = (
    ("autoinstall_known_extensions", "false"),
    ("autoload_known_extensions", "false"),
    ("TimeZone", "'UTC'"),
    ("Calendar", "'gregorian'"),
    ("preserve_insertion_order", "false"),
)
"""Times are BIGINT microseconds; a zone matters only to who casts them."""


def fixed(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The connection, with every setting that answers depend on set."""
    for name, value in SETTINGS:
        connection.execute(f"SET {name} = {value}")
    return connection


def in_memory() -> duckdb.DuckDBPyConnection:
    """A database in memory, for one computation; it draws no progress bar into what is printed."""
    connection = fixed(duckdb.connect(":memory:"))
    connection.execute("SET enable_progress_bar = false")
    return connection
