"""Reading segments back, each held against the digest that its line names before it is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from trustfold_projections.archive.digests import in_log_order, sha256_of
from trustfold_projections.archive.errors import ArchiveDamagedError
from trustfold_projections.archive.manifest import Line
from trustfold_projections.archive.rows import Row, decision_of, entry_of, fact_of, letter_of
from trustfold_projections.archive.schema import SCHEMAS, Topic


def check_file(folder: Path, name: str | None, sha256: str | None) -> Path:
    """A file of the archive, its bytes held against their digest. Raises ArchiveDamagedError."""
    assert name is not None
    path = folder / name
    try:
        got = sha256_of(path)
    except OSError as error:
        raise ArchiveDamagedError(f"{path} is missing or cannot be read: {error}") from None
    if got != sha256:
        raise ArchiveDamagedError(
            f"{path} has the SHA-256 {got}, its line names {sha256}: its bytes were changed, or it "
            "is of another archive"
        )
    return path


def read_segment(folder: Path, line: Line) -> pa.Table:
    """The rows of a segment in the order of their offsets. Raises ArchiveDamagedError."""
    path = check_file(folder, line.file, line.sha256)
    table = pq.read_table(path)
    wanted = SCHEMAS[line.place.topic]
    if not table.schema.equals(wanted):
        raise ArchiveDamagedError(f"{path} has the columns {table.schema}, wanted {wanted}")
    return in_log_order(line.place.topic, table)


def read_rows(topic: Topic, table: pa.Table) -> Sequence[Row]:
    """The rows of a table, in its order."""
    return [_READERS[topic](row) for row in table.to_pylist()]


_READERS: dict[Topic, Callable[[dict[str, Any]], Row]] = {
    "facts": fact_of,
    "policy": fact_of,
    "cost-median": fact_of,
    "decisions": decision_of,
    "dead-letters": letter_of,
    "ledger": entry_of,
}
