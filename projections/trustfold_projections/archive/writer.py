"""The one writer of an archive: what a pass writes, in an order that a crash can stop anywhere.

Segment, rollup, then one line of the manifest: a file without a line does not count, and is
removed at the next start; a line is written after what it names is durable. Locks and clocks are
the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from msgspec import Struct

from trustfold_projections.archive import manifest as manifests
from trustfold_projections.archive.errors import ArchiveDamagedError, OtherLogError
from trustfold_projections.archive.files import Disk, Files
from trustfold_projections.archive.manifest import (
    NAME,
    Line,
    Manifest,
    segment_line,
    settled_line,
)
from trustfold_projections.archive.reading import read_rows, read_segment
from trustfold_projections.archive.rows import Row, offset_of, size_of, table_of
from trustfold_projections.archive.schema import TOPICS, Place
from trustfold_projections.archive.segment import FOLDER, TMP, write_segment

CHUNK_ROWS: Final = 16_384
"""So many rows are turned into columns at a time."""


class Limits(Struct, frozen=True, kw_only=True):
    """How large things get.

    A segment has about `rows` rows or `bytes` bytes in memory; `merge` segments of one level are
    merged into one, if that has at most `merged_rows` rows and its parts as many bytes on disk.
    """

    rows: int = 1 << 20
    bytes: int = 256 << 20
    merge: int = 16
    merged_rows: int = 2 << 20
    merged_bytes: int = 64 << 20


class Log(Protocol):
    """A log as one visit of the archiver sees it: nothing it names changes while it lasts."""

    @property
    def settled(self) -> int:
        """Everything recorded at or before this moment, and what follows from it, is in sight."""
        ...

    @property
    def memory(self) -> int | None:
        """How long a trace is remembered, in microseconds; None is for ever."""
        ...

    def ends(self) -> Mapping[Place, int]:
        """Where each place ends: the first offset that is not in sight."""
        ...

    def rows(self, place: Place, start: int, end: int) -> Iterable[Row]:
        """The rows of a place with start <= offset < end, in order."""
        ...

    def holds(self, place: Place, row: Row) -> bool:
        """Whether the log holds this very row; True where it no longer reaches back so far."""
        ...


class Pass(Struct, frozen=True, kw_only=True):
    """What one pass has done."""

    rows: int
    segments: int
    merged: int
    settled: int
    head: str


class ArchiveWriter:
    """Writes one archive. Whoever makes one must hold its lock until it is gone.

    What a crash has left is put right when it is made: a torn line is cut off, files that no line
    names are removed.
    """

    def __init__(
        self, folder: Path, files: Files | None = None, limits: Limits | None = None
    ) -> None:
        self.folder = folder
        self._limits = Limits() if limits is None else limits
        self._files = Disk() if files is None else files
        self.manifest = self._open()
        self._checked = False

    def _open(self) -> Manifest:
        self._files.make_folder(self.folder / FOLDER)
        path = self.folder / NAME
        if not path.exists():
            self._files.append(path, b"")
            self._files.sync(path)
            self._files.sync(self.folder)
        manifest = manifests.load(self.folder)
        if manifest.torn:
            self._files.truncate(path, manifest.size)
            self._files.sync(path)
        named = {
            name
            for line in (*manifest.lines,)
            for name in (line.file, line.rollup)
            if name is not None
        }
        for path in sorted((self.folder / FOLDER).iterdir()):
            # A stranger's file is not ours to remove; `verify` names it.
            if is_ours(path.name) and f"{FOLDER}/{path.name}" not in named:
                self._files.remove(path)
        return manifest

    # ---- one pass ------------------------------------------------------------------------------

    def archive(
        self, log: Log, *, settle: bool = True, advance: Callable[[int], None] = lambda _: None
    ) -> Pass:
        """Archive what the log has in sight; durable when this returns.

        `settle` False: the line that says how far the log has settled is written only beside rows.
        `advance` is told of every chunk of rows. Raises OtherLogError.
        """
        ends = log.ends()
        self._check_log(log, ends)
        rows = segments = 0
        for topic in TOPICS:
            for place in sorted(place for place in ends if place.topic == topic):
                for end, table in self._tables(log, place, ends[place], advance):
                    self._append(place, end, table)
                    rows += table.num_rows
                    segments += 1
        if log.settled > self.manifest.settled and (rows or settle):
            self._write_line(settled_line(self.manifest, log.settled, log.memory))
        merged = self._merge()
        return Pass(
            rows=rows,
            segments=segments,
            merged=merged,
            settled=self.manifest.settled,
            head=self.manifest.head,
        )

    def _tables(
        self, log: Log, place: Place, end: int, advance: Callable[[int], None]
    ) -> Iterator[tuple[int, pa.Table]]:
        """(end of the declared range, its rows) of the segments to write, none larger than asked.

        The rows of one record, which share an offset, are never parted.
        """
        tables: list[pa.Table] = []
        held: list[Row] = []
        rows, size, most = 0, 0, self._limits
        for row in log.rows(place, self.manifest.next(place), end):
            full = len(held) >= min(CHUNK_ROWS, most.rows) or size >= most.bytes
            if full and offset_of(row) != offset_of(held[-1]):
                tables.append(table_of(place, held))
                rows += len(held)
                advance(len(held))
                if rows >= most.rows or size >= most.bytes:
                    yield offset_of(held[-1]) + 1, pa.concat_tables(tables)
                    tables, rows, size = [], 0, 0
                held = []
            held.append(row)
            size += size_of(row)
        if held:
            tables.append(table_of(place, held))
            advance(len(held))
        if tables:
            yield end, pa.concat_tables(tables)

    def _append(self, place: Place, end: int, table: pa.Table) -> None:
        start = self.manifest.next(place)
        segment = write_segment(self._files, self.folder, place, start, end, table)
        self._write_line(segment_line(segment, self.manifest))

    def _write_line(self, line: Line) -> None:
        data = self.manifest.add(line)
        if self.manifest.problems:
            where, what = self.manifest.problems[0]
            raise ArchiveDamagedError(f"{self.folder}: refusing to write {where}: {what}")
        path = self.folder / NAME
        self._files.append(path, data)
        self._files.sync(path)

    def _check_log(self, log: Log, ends: Mapping[Place, int]) -> None:
        """That the archive's last facts and entries are this log's too."""
        for place, segments in self.manifest.live.items():
            if not segments:
                continue
            end = ends.get(place, 0)
            if end < segments[-1].end:
                raise OtherLogError(
                    f"{self.folder} holds {place.topic}/{place.partition} up to offset "
                    f"{segments[-1].end - 1}, this log only up to {end - 1}: it is another log, "
                    "or was restored from a copy; archive it into another folder"
                )
            if self._checked or place.topic not in ("facts", "ledger"):
                continue
            table = read_segment(self.folder, segments[-1])
            last = read_rows(place.topic, table.slice(table.num_rows - 1))
            if not log.holds(place, last[0]):
                raise OtherLogError(
                    f"{self.folder} has another record than this log at offset "
                    f"{offset_of(last[0])} of {place.topic}/{place.partition}: it is the archive "
                    "of another log; archive this one into another folder"
                )
        self._checked = True

    # ---- merging -------------------------------------------------------------------------------

    def _merge(self) -> int:
        """Merge small segments of one level, until there is nothing to merge."""
        merged = 0
        while (found := self._mergeable()) is not None:
            place, parts = found
            tables = [read_segment(self.folder, part) for part in parts]
            table = pa.concat_tables(tables)
            start, end = parts[0].start, parts[-1].end
            segment = write_segment(self._files, self.folder, place, start, end, table)
            files = tuple(part.file for part in parts if part.file is not None)
            self._write_line(segment_line(segment, self.manifest, parts[0].level + 1, files))
            merged += 1
        return merged

    def _mergeable(self) -> tuple[Place, list[Line]] | None:
        most = self._limits
        for place, segments in self.manifest.live.items():
            for at in range(len(segments) - most.merge, -1, -1):
                parts = segments[at : at + most.merge]
                if (
                    len({part.level for part in parts}) == 1
                    and sum(part.rows for part in parts) <= most.merged_rows
                    and sum(self._size(part) for part in parts) <= most.merged_bytes
                ):
                    return place, parts
        return None

    def _size(self, line: Line) -> int:
        assert line.file is not None
        return (self.folder / line.file).stat().st_size

    def remove_retired(self) -> int:
        """Remove the files that merges have taken over; call only when nobody reads. How many."""
        names = [
            name
            for line in self.manifest.retired.values()
            for name in (line.file, line.rollup)
            if name is not None and (self.folder / name).exists()
        ]
        for name in names:
            self._files.remove(self.folder / name)
        if names:
            self._files.sync(self.folder / FOLDER)
        return len(names)


def is_ours(name: str) -> bool:
    """Whether a file of the folder is named as the archiver names its own."""
    return name.removesuffix(TMP).endswith(".parquet") and any(
        name.startswith(f"{topic}-") for topic in TOPICS
    )
