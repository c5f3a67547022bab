"""An opened archive: its manifest without contradiction, and its files held against their digests.

A changed bit gives other sums without an error in about half of all cases, so a file is used only
after its SHA-256 was seen to be right; once a file and opening.
"""

from __future__ import annotations

from pathlib import Path

from trustfold_projections.archive import manifest as manifests
from trustfold_projections.archive.manifest import Line, Manifest
from trustfold_projections.archive.reading import check_file
from trustfold_projections.archive.schema import Topic
from trustfold_schemas.errors import NotSettledError
from trustfold_schemas.instants import format_instant


class Archive:
    """An archive as it was when it was opened; what is archived later is not in sight."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._checked: set[str] = set()

    @classmethod
    def open(cls, folder: Path) -> Archive:
        """Open an archive. Raises NoArchiveError, ArchiveDamagedError."""
        return cls(folder, manifests.load(folder))

    @property
    def settled(self) -> int:
        """The last moment as of which there is an answer."""
        return self.manifest.settled

    def require_settled(self, moment: int) -> None:
        """Raise NotSettledError for a moment that later facts could still change."""
        if moment > self.settled:
            raise NotSettledError(
                f"this archive has settled up to {format_instant(self.settled)}: it cannot say "
                f"what was known at {format_instant(moment)}; archive the log again, or ask as of "
                "an earlier moment"
            )

    def files(self, topic: Topic, moment: int | None = None) -> list[str]:
        """The checked segments of a topic, or those that hold anything recorded by a moment."""
        return [
            self.file(line)
            for line in self.manifest.segments(topic)
            if moment is None or (line.min_recorded or 0) <= moment
        ]

    def file(self, line: Line) -> str:
        """A segment, checked. Raises ArchiveDamagedError."""
        return self._path(line.file, line.sha256)

    def rollup(self, line: Line) -> str:
        """The rollup of a ledger segment, checked. Raises ArchiveDamagedError."""
        return self._path(line.rollup, line.rollup_sha256)

    def _path(self, name: str | None, sha256: str | None) -> str:
        assert name is not None
        if name not in self._checked:
            check_file(self.folder, name, sha256)
            self._checked.add(name)
        return str(self.folder / name)
