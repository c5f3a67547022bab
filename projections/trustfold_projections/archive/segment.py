"""Writing one segment and its rollup: `.tmp`, fsync, rename, fsync of the folder.

A file is never changed after it has its name. Whether it counts, the manifest says.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from trustfold_projections.archive.digests import in_log_order, rows_digest, sha256_of
from trustfold_projections.archive.files import Files
from trustfold_projections.archive.rollup import rollup_of
from trustfold_projections.archive.schema import (
    KINDS,
    LAYOUT,
    ROLLBACK_KINDS,
    ROW_GROUP,
    SCHEMAS,
    SORTED_BY,
    Place,
)

FOLDER: Final = "segments"
TMP: Final = ".tmp"

_PLAIN: Final = frozenset({"body", "grounds", "detail", "decision_id", "chain"})
"""Columns that a dictionary does not make smaller."""


class Segment(Struct, frozen=True, kw_only=True):
    """A written segment. Files are named from the archive's folder; `end` is exclusive."""

    place: Place
    start: int
    end: int
    rows: int
    rollbacks: int
    """Entries that roll a subject back, or lift that."""
    min_recorded: int
    max_recorded: int
    file: str
    sha256: str
    rollup: str | None
    rollup_sha256: str | None
    rows_sha256: str


def names_of(place: Place, start: int, end: int) -> tuple[str, str | None]:
    """How the segment of a declared range is named, and its rollup, from the archive's folder."""
    name = f"{FOLDER}/{place.topic}-{place.partition:04}-{start:020}-{end:020}"
    rollup = f"{name}.rollup.parquet" if place.topic == "ledger" else None
    return f"{name}.parquet", rollup


def write_segment(
    files: Files, folder: Path, place: Place, start: int, end: int, table: pa.Table
) -> Segment:
    """Write the rows of a declared range [start, end) of a place, durable when this returns.

    `table` has the schema of the topic, at least one row, and any order; its seg_max is set here.
    """
    ordered = in_log_order(place.topic, _with_seg_max(place, table))
    files.make_folder(folder / FOLDER)
    file, rollup = names_of(place, start, end)
    keys = [(column, "ascending") for column in SORTED_BY[place.topic]]
    written = ordered.sort_by(keys)
    _write(files, folder, file, written)
    rollup_sha256 = None
    if rollup is not None:
        _write(files, folder, rollup, rollup_of(written))
        rollup_sha256 = sha256_of(folder / rollup)
    files.sync(folder / FOLDER)
    recorded = ordered.column("recorded_us").to_numpy()
    return Segment(
        place=place,
        start=start,
        end=end,
        rows=table.num_rows,
        rollbacks=rollbacks_in(place, table),
        min_recorded=int(recorded.min()),
        max_recorded=int(recorded.max()),
        file=file,
        sha256=sha256_of(folder / file),
        rollup=rollup,
        rollup_sha256=rollup_sha256,
        rows_sha256=rows_digest(place.topic, ordered),
    )


def rollbacks_in(place: Place, table: pa.Table) -> int:
    """How many entries of a segment roll a subject back, or lift that."""
    if place.topic != "ledger":
        return 0
    kinds = table.column("kind").to_numpy()
    return sum(int((kinds == KINDS[kind]).sum()) for kind in ROLLBACK_KINDS)


def _with_seg_max(place: Place, table: pa.Table) -> pa.Table:
    """The table with the moment of its own last record."""
    last = pa.scalar(int(table.column("recorded_us").to_numpy().max()), pa.int64())
    field = SCHEMAS[place.topic].field("seg_max")
    return table.drop_columns(["seg_max"]).append_column(field, pa.repeat(last, table.num_rows))


def _write(files: Files, folder: Path, name: str, table: pa.Table) -> None:
    metadata = {"trustfold.layout": str(LAYOUT)}
    plain = table.cast(table.schema.remove_metadata().with_metadata(metadata))

    def produce(file: BinaryIO) -> None:
        pq.write_table(
            plain,
            file,
            row_group_size=ROW_GROUP,
            compression="zstd",
            use_dictionary=[column for column in plain.column_names if column not in _PLAIN],
        )

    tmp = folder / f"{name}{TMP}"
    files.write(tmp, produce)
    files.sync(tmp)
    files.rename(tmp, folder / name)
