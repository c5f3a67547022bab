"""What every file of an archive must be; each that is otherwise is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from trustfold_projections.archive.digests import in_log_order, rows_digest
from trustfold_projections.archive.errors import ArchiveDamagedError
from trustfold_projections.archive.manifest import NAME, Line, Manifest
from trustfold_projections.archive.reading import check_file
from trustfold_projections.archive.rollup import rollup_of
from trustfold_projections.archive.schema import SCHEMAS
from trustfold_projections.archive.segment import FOLDER, rollbacks_in

Problem = tuple[str, str]
"""Where, and what."""


def check_files(folder: Path, manifest: Manifest) -> Iterator[Problem]:
    """Every segment that counts, those that merges have taken over, and what else lies there."""
    if manifest.torn:
        yield (
            f"file {NAME}",
            (
                f"ends in a torn line of {manifest.torn} bytes, which does not count: an archiver "
                "is writing it, or died; the next one cuts it off"
            ),
        )
    for lines in manifest.live.values():
        for line in lines:
            try:
                yield from _check_segment(folder, manifest, line)
            except (ArchiveDamagedError, pa.ArrowException, OSError, ValueError) as error:
                yield f"segment {line.file}", str(error)
    named = {
        name for line in manifest.lines for name in (line.file, line.rollup) if name is not None
    }
    for path in sorted((folder / FOLDER).glob("*")):
        if f"{FOLDER}/{path.name}" not in named:
            yield (
                f"file {FOLDER}/{path.name}",
                (
                    "no line of the manifest names it: lines were cut off, it is of another "
                    "archive, or an archiver is writing it"
                ),
            )


def _check_segment(folder: Path, manifest: Manifest, line: Line) -> Iterator[Problem]:
    where = f"segment {line.file}"
    topic = line.place.topic
    path = check_file(folder, line.file, line.sha256)
    table = pq.read_table(path)
    if not table.schema.equals(SCHEMAS[topic]):
        yield where, f"has the columns {table.schema}, wanted {SCHEMAS[topic]}"
        return
    table = in_log_order(topic, table)
    yield from _claims(where, line, table)
    for old in _taken_over(manifest, line):
        part = _between(table, old.start, old.end)
        if (part.num_rows, rows_digest(topic, part)) != (old.rows, old.rows_sha256):
            yield where, f"does not hold the rows of {old.file}, which it replaces"
    if line.rollup is not None:
        rollup = pq.read_table(check_file(folder, line.rollup, line.rollup_sha256))
        if not rollup.equals(rollup_of(table)):
            yield f"segment {line.rollup}", "is not the rollup of its segment"


def _claims(where: str, line: Line, table: pa.Table) -> Iterator[Problem]:
    recorded = table.column("recorded_us").to_numpy()
    offsets = table.column("offset").to_numpy()
    least, most = (int(recorded.min()), int(recorded.max())) if len(recorded) else (None, None)
    if table.num_rows != line.rows:
        yield where, f"has {table.num_rows} rows, its line says {line.rows}"
    if (least, most) != (line.min_recorded, line.max_recorded):
        yield (
            where,
            (
                f"was recorded from {least} to {most}, its line says {line.min_recorded} to "
                f"{line.max_recorded}"
            ),
        )
    if len(offsets) and not (line.start <= offsets.min() and offsets.max() < line.end):
        yield (
            where,
            (
                f"holds offsets {offsets.min()} to {offsets.max()}, its line says {line.start} to "
                f"{line.end - 1}"
            ),
        )
    if (table.column("partition").to_numpy() != line.partition).any():
        yield where, f"holds rows of another partition than {line.partition}"
    if (table.column("seg_max").to_numpy() != most).any():
        yield where, f"has another seg_max than {most}"
    if rollbacks_in(line.place, table) != line.rollbacks:
        yield where, f"has another number of rollbacks than its line says, {line.rollbacks}"
    if rows_digest(line.place.topic, table) != line.rows_sha256:
        yield where, "has other rows than its line says"


def _taken_over(manifest: Manifest, line: Line) -> Iterator[Line]:
    """The lines whose rows a merge took over, also by way of other merges."""
    for name in line.replaces:
        old = manifest.retired.get(name)
        if old is not None:  # that a merge names what never was, the manifest's problems say
            yield old
            yield from _taken_over(manifest, old)


def _between(table: pa.Table, start: int, end: int) -> pa.Table:
    offsets = table.column("offset").to_numpy()
    low, high = (int(offsets.searchsorted(at)) for at in (start, end))
    return table.slice(low, high - low)
