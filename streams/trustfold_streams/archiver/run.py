"""Running the archiver: the lock, one pass or one after another, and what may be removed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from trustfold_projections.archive.errors import ArchiveDiskError
from trustfold_projections.archive.files import Files
from trustfold_projections.archive.manifest import Manifest
from trustfold_projections.archive.writer import ArchiveWriter, Limits, Log, Pass
from trustfold_streams.archiver.locks import without_readers, writing

Visit = Callable[[Manifest], AbstractContextManager[Log]]
"""Opens a log for one pass, given what is archived of it."""

SETTLED_SECONDS_MAX: Final = 600.0
"""So old may get what the archive of an idle log says of how far that has settled."""


class Archiver:
    """The one archiver of a folder, for as long as `open_archiver` lasts."""

    def __init__(self, writer: ArchiveWriter) -> None:
        self.writer = writer
        self._said_settled = -SETTLED_SECONDS_MAX

    def run(self, visit: Visit, advance: Callable[[int], None] = lambda _: None) -> Pass:
        """One pass: all that the log has in sight, durable when this returns."""
        settle = time.monotonic() - self._said_settled >= SETTLED_SECONDS_MAX
        before = self.writer.manifest.settled
        with visit(self.writer.manifest) as log:
            done = self.writer.archive(log, settle=settle, advance=advance)
        if settle or done.settled > before:
            self._said_settled = time.monotonic()
        with without_readers(self.writer.folder) as nobody_reads:
            if nobody_reads:
                self.writer.remove_retired()
        return done


@contextlib.contextmanager
def open_archiver(
    folder: Path, files: Files | None = None, limits: Limits | None = None
) -> Generator[Archiver]:
    """Become the archiver of a folder, which is made if need be.

    What an archiver that died has left is put right first. Raises ArchiveBusyError, and
    ArchiveDamagedError if the manifest contradicts itself, ArchiveDiskError where the disk refuses.
    """
    try:
        with writing(folder):
            yield Archiver(ArchiveWriter(folder, files, limits))
    except BrokenPipeError:
        raise  # whoever reads what is printed has gone; that is no matter of the disk
    except OSError as error:
        raise ArchiveDiskError(
            f"{folder} cannot be written: {error}; what was archived before is kept, and the next "
            "run goes on from there"
        ) from error
