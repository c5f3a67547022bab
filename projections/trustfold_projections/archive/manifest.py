"""The manifest: which segments there are, in a chain of lines that nothing can be taken out of.

One JSON object a line in `manifest.jsonl`. Each names the SHA-256 of the line before (`prev`,
without its newline); the digest of the last line is the head, which stands for the whole archive.
What no line names does not count. Reading finds every contradiction; opening refuses the first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from trustfold_projections.archive.errors import (
    ArchiveDamagedError,
    ArchiveDiskError,
    NoArchiveError,
)
from trustfold_projections.archive.schema import Place, Topic
from trustfold_projections.archive.segment import Segment, names_of

NAME: Final = "manifest.jsonl"
GENESIS: Final = "0" * 64
"""The head of an archive without lines."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Line(Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """One line: a segment, a merge of segments, or (without a file) only how far it has settled.

    `start` and `end` (`from` and `to` in the file) are the declared offsets, `end` exclusive; on
    Kafka there are gaps inside. `settled` is the moment up to which every partition of facts is
    contained, and all that follows from it. `rollbacks` counts the entries that roll a subject
    back or lift that: without any, rollups alone are the sums. `memory` is how long the log
    remembers a trace, in microseconds (None: for ever): the ledger cannot be derived again
    without it. `replaces` are the files that a merge takes over.
    """

    prev: str
    topic: Topic | None
    partition: int | None
    start: int
    end: int
    rows: int
    min_recorded: int | None
    max_recorded: int | None
    settled: int
    file: str | None
    sha256: str | None
    rollup: str | None
    rollup_sha256: str | None
    rows_sha256: str | None
    rollbacks: int = 0
    memory: int | None = None
    level: int = 0
    replaces: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """The topic and partition of a segment's line."""
        assert self.topic is not None
        assert self.partition is not None
        return Place(self.topic, self.partition)


_IN = msgspec.json.Decoder(Line)


def segment_line(
    segment: Segment, before: Manifest, level: int = 0, replaces: tuple[str, ...] = ()
) -> Line:
    """The line of a written segment."""
    return Line(
        prev=before.head,
        topic=segment.place.topic,
        partition=segment.place.partition,
        start=segment.start,
        end=segment.end,
        rows=segment.rows,
        min_recorded=segment.min_recorded,
        max_recorded=segment.max_recorded,
        settled=before.settled,
        file=segment.file,
        sha256=segment.sha256,
        rollup=segment.rollup,
        rollup_sha256=segment.rollup_sha256,
        rows_sha256=segment.rows_sha256,
        rollbacks=segment.rollbacks,
        memory=before.memory,
        level=level,
        replaces=replaces,
    )


def settled_line(before: Manifest, settled: int, memory: int | None) -> Line:
    """A line that says no more than how far the log has settled."""
    return Line(
        prev=before.head,
        topic=None,
        partition=None,
        start=0,
        end=0,
        rows=0,
        min_recorded=None,
        max_recorded=None,
        settled=settled,
        file=None,
        sha256=None,
        rollup=None,
        rollup_sha256=None,
        rows_sha256=None,
        memory=memory,
    )


class Manifest:
    """The lines of an archive and what they come to. `problems` name what contradicts what."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.heads: list[str] = [GENESIS]
        self.live: dict[Place, list[Line]] = {}
        """By place the segments that count, in the order of their offsets, without a gap."""
        self.retired: dict[str, Line] = {}
        """The segments that a merge has taken over, by file."""
        self.problems: list[tuple[str, str]] = []
        """(where, what)."""
        self.size = 0
        """Bytes of the whole lines; what lies behind is a torn line."""
        self.torn = 0

    @property
    def head(self) -> str:
        """The digest of the last line."""
        return self.heads[-1]

    @property
    def settled(self) -> int:
        """Up to when the log had settled at the last line; 0 before any."""
        return self.lines[-1].settled if self.lines else 0

    @property
    def memory(self) -> int | None:
        """How long the log remembers a trace, as the last line has it."""
        return self.lines[-1].memory if self.lines else None

    def next(self, place: Place) -> int:
        """The first offset of a place that is not archived."""
        segments = self.live.get(place)
        return segments[-1].end if segments else 0

    def segments(self, topic: Topic) -> list[Line]:
        """The segments of a topic that count, by partition and offset."""
        return [
            line for place in sorted(self.live) if place.topic == topic for line in self.live[place]
        ]

    def add(self, line: Line) -> bytes:
        """Take the next line in; its bytes, with the newline. Problems are noted, not raised."""
        data = msgspec.json.encode(line)
        self.take(line, data)
        return data + b"\n"

    def take(self, line: Line, data: bytes) -> None:
        """Take a line in that stands in the file as these bytes."""
        where = f"line {len(self.lines) + 1} of {NAME}"
        for what in self._contradictions(line):
            self.problems.append((where, what))
        self.lines.append(line)
        self.heads.append(hashlib.sha256(data).hexdigest())
        self.size += len(data) + 1
        if line.file is None:
            return
        segments = self.live.setdefault(line.place, [])
        if line.replaces:
            gone = set(line.replaces)
            self.retired.update(
                {one.file: one for one in segments if one.file in gone and one.file}
            )
            at = next((i for i, one in enumerate(segments) if one.file in gone), len(segments))
            segments[:] = [one for one in segments if one.file not in gone]
            segments.insert(at, line)
        else:
            segments.append(line)

    def _contradictions(self, line: Line) -> Iterator[str]:
        if line.prev != self.head:
            yield (
                f"names {line.prev} as the line before, whose digest is {self.head}: a line was "
                "changed, taken out, doubled, or is of another archive"
            )
        if line.settled < self.settled:
            yield f"settled goes back from {self.settled} to {line.settled}"
        if line.file is None:
            if line.topic is not None or line.rows:
                yield "speaks of a segment and names no file"
            return
        yield from _incomplete(line)
        if line.topic is None or line.partition is None:
            return
        segments = self.live.get(line.place, [])
        known = {one.file for one in segments} | set(self.retired)
        if line.file in known:
            yield f"{line.file} is named a second time"
        if line.replaces:
            yield from _wrong_merge(line, segments)
        elif line.start != self.next(line.place):
            end = self.next(line.place)
            what = "doubled" if line.start < end else "missing"
            yield (
                f"{line.file} begins at {line.start}, the one before ends at {end}: "
                f"offsets {min(line.start, end)} to {max(line.start, end) - 1} are {what}"
            )


def _incomplete(line: Line) -> Iterator[str]:
    """What the line of a segment must say."""
    digests = [line.sha256, line.rows_sha256]
    if line.topic == "ledger":
        digests.append(line.rollup_sha256)
    if any(digest is None or _SHA256.fullmatch(digest) is None for digest in digests):
        yield f"the digests of {line.file} are no SHA-256"
    if line.topic is not None and line.partition is not None:
        names = names_of(Place(line.topic, line.partition), line.start, line.end)
        if (line.file, line.rollup) != names:
            yield f"{line.file} with {line.rollup} should be named {names[0]} with {names[1]}"
    else:
        yield f"does not say of which topic and partition {line.file} is"
    if line.min_recorded is None or line.max_recorded is None:
        yield f"does not say when what {line.file} holds was recorded"
    if not (0 <= line.start < line.end and line.rows > 0):
        yield f"{line.file} holds {line.rows} rows of offsets {line.start} to {line.end}"


def _wrong_merge(line: Line, segments: list[Line]) -> Iterator[str]:
    """What a merge must be: the segments it replaces, side by side, whole."""
    gone = set(line.replaces)
    at = [i for i, one in enumerate(segments) if one.file in gone]
    if len(at) != len(line.replaces) or not at or at[-1] - at[0] + 1 != len(at):
        yield f"{line.file} replaces {', '.join(line.replaces)}, which do not stand side by side"
        return
    parts = segments[at[0] : at[-1] + 1]
    ours = (line.start, line.end, line.rows, line.rollbacks)
    whole = (
        parts[0].start,
        parts[-1].end,
        sum(part.rows for part in parts),
        sum(part.rollbacks for part in parts),
    )
    if ours != whole:
        yield f"{line.file} has from, to, rows, rollbacks {ours}, what it replaces has {whole}"


def read(folder: Path) -> Manifest:
    """The manifest of an archive with all of its problems. Raises NoArchiveError.

    Raises ArchiveDiskError where it is there and cannot be read.
    """
    try:
        data = (folder / NAME).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NoArchiveError(
            f"there is no archive in {folder}: it holds no {NAME}; `trustfold archive {folder}` "
            "makes one"
        ) from None
    except OSError as error:
        raise ArchiveDiskError(f"{folder / NAME} cannot be read: {error}") from error
    return parse(data)


def parse(data: bytes) -> Manifest:
    """A manifest from its bytes."""
    manifest = Manifest()
    *whole, rest = data.split(b"\n")
    for number, text in enumerate(whole, 1):
        try:
            line = _IN.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            manifest.problems.append((f"line {number} of {NAME}", f"cannot be read: {error}"))
            break
        manifest.take(line, text)
    else:
        # A line without its newline was not finished: it never counted.
        manifest.torn = len(rest)
    return manifest


def load(folder: Path) -> Manifest:
    """A manifest without contradiction. Raises ArchiveDamagedError, NoArchiveError."""
    manifest = read(folder)
    if manifest.problems:
        where, what = manifest.problems[0]
        raise ArchiveDamagedError(
            f"{folder}: {where}: {what}; `trustfold --store archive:{folder} verify` names all"
        )
    return manifest
