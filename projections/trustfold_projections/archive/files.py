"""The port to the disk: every step of the archiver that a crash can come between.

`Disk` does them; tests put something in its place that dies at a chosen step.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Protocol


class Files(Protocol):
    """What the archiver does to its folder; each call is one step, and none is taken back."""

    def make_folder(self, path: Path) -> None:
        """Make a folder, if it is not there."""
        ...

    def write(self, path: Path, produce: Callable[[BinaryIO], None]) -> None:
        """Write a new file from its start, or over what is there; not yet durable."""
        ...

    def sync(self, path: Path) -> None:
        """Make a file or a folder durable."""
        ...

    def rename(self, path: Path, to: Path) -> None:
        """Give a file its name, at once or not at all."""
        ...

    def append(self, path: Path, data: bytes) -> None:
        """Add to the end of a file; not yet durable."""
        ...

    def truncate(self, path: Path, size: int) -> None:
        """Cut a file off; not yet durable."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is fine."""
        ...


class Disk:
    """The disk itself."""

    def make_folder(self, path: Path) -> None:
        """Make a folder, if it is not there."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, produce: Callable[[BinaryIO], None]) -> None:
        """Write a file from its start."""
        with path.open("wb") as file:
            produce(file)

    def sync(self, path: Path) -> None:
        """Make a file or a folder durable."""
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def rename(self, path: Path, to: Path) -> None:
        """Give a file its name."""
        path.rename(to)

    def append(self, path: Path, data: bytes) -> None:
        """Add to the end of a file."""
        with path.open("ab") as file:
            file.write(data)

    def truncate(self, path: Path, size: int) -> None:
        """Cut a file off."""
        os.truncate(path, size)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
