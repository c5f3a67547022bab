"""Reading events from files and standard input, a document a line."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import IO

import click

from trustfold_schemas.receipts import Document

LINE_BYTES_MAX = 16 << 20
"""Of a longer line the first 16 MiB are kept as its dead letter."""


class Source:
    """One input: a file, or standard input copied to a temporary file where it is read twice."""

    def __init__(self, name: str, *, twice: bool) -> None:
        self.name = "standard input" if name == "-" else name
        self.size: int | None = None
        self._copy: IO[bytes] | None = None
        if name != "-":
            self.size = Path(name).stat().st_size
        elif twice:
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the command
            while piece := sys.stdin.buffer.read(1 << 20):
                self._copy.write(piece)
            self.size = self._copy.tell()

    def close(self) -> None:
        """Let a temporary copy go."""
        if self._copy is not None:
            self._copy.close()

    @contextlib.contextmanager
    def _open(self) -> Generator[IO[bytes]]:
        if self._copy is not None:
            self._copy.seek(0)
            yield self._copy
        elif self.size is None:
            yield sys.stdin.buffer
        else:
            with Path(self.name).open("rb") as file:
                yield file

    def documents(self) -> Iterator[Document]:
        """Its lines; blank ones are no documents."""
        with self._open() as file:
            number = 0
            while line := file.readline(LINE_BYTES_MAX):
                number += 1
                if not line.endswith(b"\n") and len(line) == LINE_BYTES_MAX:
                    while (rest := file.readline(LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
                        pass
                body = line.rstrip(b"\r\n")
                if body.strip():
                    yield Document(body, f"{self.name}:{number}")


def open_sources(names: Iterable[str], *, twice: bool) -> list[Source]:
    """Open all inputs, or none: a file that cannot be read is wrong use, said before the start."""
    names = list(names)
    if names.count("-") > 1:
        raise click.UsageError("standard input (`-`) can be named once only")
    for name in names:
        if name != "-":
            try:
                with Path(name).open("rb"):
                    pass
            except OSError as error:
                raise click.UsageError(f"{name} cannot be read: {error.strerror}") from None
    return [Source(name, twice=twice) for name in names]
