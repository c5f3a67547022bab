"""Locks on an archive's folder, held by the kernel and so by no process that has died.

One archiver writes. Readers share a second lock while they have segments open, so that files
which a merge has taken over are removed only when nobody may be reading them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path

from trustfold_projections.archive.errors import ArchiveBusyError

WRITER = "writer.lock"
READERS = "readers.lock"


@contextlib.contextmanager
def writing(folder: Path) -> Generator[None]:
    """Be the one archiver of a folder, which is made. Raises ArchiveBusyError."""
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / WRITER, fcntl.LOCK_EX, create=True) as held:
        if not held:
            raise ArchiveBusyError(f"another archiver is at work in {folder}")
        yield


@contextlib.contextmanager
def reading(folder: Path) -> Generator[None]:
    """Keep the files of an archive from being removed; also on a medium that is read-only."""
    with _locked(folder / READERS, fcntl.LOCK_SH, create=os.access(folder, os.W_OK)):
        yield


@contextlib.contextmanager
def without_readers(folder: Path) -> Generator[bool]:
    """Whether nobody reads; while this lasts, nobody begins to."""
    with _locked(folder / READERS, fcntl.LOCK_EX, create=True) as held:
        yield held


@contextlib.contextmanager
def _locked(path: Path, how: int, *, create: bool) -> Generator[bool]:
    """Hold a lock if it can be had. A reader waits: files are removed in an instant."""
    flags = os.O_RDONLY | (os.O_CREAT if create else 0)
    try:
        number = os.open(path, flags, 0o644)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(number, how if how == fcntl.LOCK_SH else how | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(number)
