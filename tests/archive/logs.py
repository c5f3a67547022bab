"""A log in memory, disks that die at a step, and what an archive holds and must not hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tests.archive.entries import SUBJECTS
from tests.embedded.documents import TIME, closed
from trustfold_projections.archive import manifest as manifests
from trustfold_projections.archive.files import Disk
from trustfold_projections.archive.reading import check_file, read_rows, read_segment
from trustfold_projections.archive.rows import EntryRow, Row, offset_of
from trustfold_projections.archive.schema import Place, Topic
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.ledger import Entry

FACTS, LEDGER = Place("facts", 0), Place("ledger", 0)


class MemoryLog:
    """Rows of places, of which so many are in sight."""

    def __init__(self, held: Mapping[Place, Sequence[Row]], settled: int) -> None:
        self._held = held
        self.settled = settled
        self.memory: int | None = None

    def ends(self) -> Mapping[Place, int]:
        """Where each place ends: behind a marker behind the last row."""
        return {place: offset_of(rows[-1]) + 2 for place, rows in self._held.items() if rows}

    def rows(self, place: Place, start: int, end: int) -> Iterable[Row]:
        """The rows of a place."""
        return [row for row in self._held.get(place, ()) if start <= offset_of(row) < end]

    def holds(self, place: Place, row: Row) -> bool:
        """Whether this very row is there."""
        return row in self._held.get(place, ())


GAP = 3
"""Offsets between two rows: a broker's markers stand there."""


def fact(number: int) -> Fact:
    """A closed trace in the log of facts."""
    document = closed(f"t{number}")
    return Fact(GAP * number, TIME + 10 * number, OWNER, decode_event(document), document)


def entry(number: int) -> EntryRow:
    """The evidence of one."""
    recorded = TIME + 10 * number
    made = Entry(
        kind="evidence",
        subject=SUBJECTS[number % 3],
        trace_id=f"t{number}",
        event_id=f"close/t{number}",
        source="rt",
        occurred=TIME,
        recorded=recorded,
        chain=(recorded,),
        amounts=(1_000_000, 0, 0, 1_000_000, 0),
        weights=(1, 0, 0, 1, 1),
        n_samples=1,
        clean=True,
    )
    return EntryRow(GAP * number, made, 0, GAP * number, 0)


def log_of(count: int) -> MemoryLog:
    """A log of so many facts and their entries."""
    held: dict[Place, list[Row]] = {
        FACTS: [fact(number) for number in range(count)],
        LEDGER: [entry(number) for number in range(count)],
    }
    return MemoryLog(held, TIME + 10 * (count - 1))


class Killed(BaseException):
    """What kill -9 does: nothing after it happens."""


class DyingDisk(Disk):
    """Does so many steps and dies in the next: before it, or in a write halfway through."""

    def __init__(self, steps: int, *, halfway: bool) -> None:
        self.left = steps
        self.halfway = halfway
        self.done: list[str] = []

    def _step(self, name: str, path: Path, half: Callable[[], None] = lambda: None) -> None:
        if not self.left:
            if self.halfway:
                half()
            raise Killed(name)
        self.left -= 1
        self.done.append(f"{name} {path.name}")

    def write(self, path: Path, produce: Callable[[BinaryIO], None]) -> None:
        """A file, or its first half."""

        def half() -> None:
            Disk.write(self, path, produce)
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

        self._step("write", path, half)
        super().write(path, produce)

    def append(self, path: Path, data: bytes) -> None:
        """A line, or its first half."""
        self._step("append", path, lambda: Disk.append(self, path, data[: len(data) // 2]))
        super().append(path, data)

    def sync(self, path: Path) -> None:
        """An fsync."""
        self._step("sync", path)
        super().sync(path)

    def rename(self, path: Path, to: Path) -> None:
        """A rename."""
        self._step("rename", path)
        super().rename(path, to)

    def truncate(self, path: Path, size: int) -> None:
        """A truncation."""
        self._step("truncate", path)
        super().truncate(path, size)

    def remove(self, path: Path) -> None:
        """An unlink."""
        self._step("remove", path)
        super().remove(path)


def held(folder: Path) -> dict[Topic, list[Row]]:
    """All rows of an archive by topic, in order; every file is held against its digest."""
    found: dict[Topic, list[Row]] = {}
    for place, lines in manifests.load(folder).live.items():
        for line in lines:
            rows = read_rows(place.topic, read_segment(folder, line))
            assert len(rows) == line.rows
            found.setdefault(place.topic, []).extend(rows)
            if line.rollup is not None:
                check_file(folder, line.rollup, line.rollup_sha256)
    return found


def orphans(folder: Path) -> Iterator[str]:
    """Files that no line of the manifest names as counting."""
    named = {
        name
        for lines in manifests.load(folder).live.values()
        for line in lines
        for name in (line.file, line.rollup)
    }
    for path in (folder / "segments").iterdir():
        if f"segments/{path.name}" not in named:
            yield path.name


def rewritten(folder: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the lines of a manifest, as somebody would who knows nothing of chains."""
    path = folder / manifests.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(change(lines)))


def with_field(line: bytes, name: str, value: object) -> bytes:
    """A line with one field changed."""
    return json.dumps(json.loads(line) | {name: value}, separators=(",", ":")).encode() + b"\n"
