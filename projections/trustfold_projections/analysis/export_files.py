"""Rows of a result as a file: Parquet, CSV or JSON Lines, with the types of one Arrow schema."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from trustfold_schemas.errors import CallerError


class FileError(CallerError):
    """A file that was asked for cannot be written."""


FileKind = Literal["parquet", "csv", "jsonl"]
Row = Mapping[str, Any]

BATCH: Final = 20_000
"""Rows that are in memory at once."""


def write_rows(path: Path, kind: FileKind, schema: pa.Schema, rows: Iterable[Row]) -> int:
    """Write rows into a file, which appears under its name when it is whole; how many there were.

    In CSV an absent value is nothing at all, an empty text two quotes. Raises FileError.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        count = _WRITERS[kind](part, schema, _batches(rows))
        part.replace(path)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error}") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return count


def _batches(rows: Iterable[Row]) -> Iterator[Sequence[Row]]:
    some = iter(rows)
    while batch := list(islice(some, BATCH)):
        yield batch


def _write_parquet(path: Path, schema: pa.Schema, batches: Iterable[Sequence[Row]]) -> int:
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_pylist(list(batch), schema=schema))
            count += len(batch)
    return count


def _write_csv(path: Path, schema: pa.Schema, batches: Iterable[Sequence[Row]]) -> int:
    count = 0
    with path.open("wb") as file, pc.CSVWriter(file, schema) as writer:
        for batch in batches:
            writer.write_table(pa.Table.from_pylist(list(batch), schema=schema))
            count += len(batch)
    return count


def _write_jsonl(path: Path, schema: pa.Schema, batches: Iterable[Sequence[Row]]) -> int:
    count = 0
    with path.open("wb") as file:
        for batch in batches:
            for row in batch:
                file.write(json_line(schema, row))
            count += len(batch)
    return count


def json_line(schema: pa.Schema, row: Row) -> bytes:
    """One row as a line of JSON, every column present, in the order of the schema."""
    return msgspec.json.encode({name: row.get(name) for name in schema.names}) + b"\n"


_WRITERS: Final = {"parquet": _write_parquet, "csv": _write_csv, "jsonl": _write_jsonl}
