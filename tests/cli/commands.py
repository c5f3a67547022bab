"""Runs the command line in this process, and the installed command in another one."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from trustfold_streams.cli.front import run

TRUSTFOLD = str(Path(sys.executable).with_name("trustfold"))
LONG_ENOUGH = 120.0
"""Seconds after which a command that does not end is a failure."""

_WITH_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by a shell's background jobs
from trustfold_streams.cli import main
main()
"""
LIKE_A_TERMINAL = [sys.executable, "-c", _WITH_CTRL_C]
"""The command in a process that SIGINT reaches, whoever started the tests."""


class Ended(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        """The JSON of every line of standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


class Shell:
    """A folder to work in, and what commands print there."""

    def __init__(
        self, folder: Path, capture: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
    ) -> None:
        self.folder = folder
        self.store = folder / "trust.db"
        self._capture = capture
        self._patch = patch
        patch.chdir(folder)

    def __call__(self, *arguments: str, stdin: bytes = b"") -> Ended:
        """Run a command here."""
        self._patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capture.readouterr()
        code = run(list(arguments))
        return Ended(code, *self._capture.readouterr())

    def file(self, lines: Sequence[bytes] | bytes, name: str = "log.jsonl") -> str:
        """A file of these lines, or of just these bytes."""
        content = lines if isinstance(lines, bytes) else b"".join(one + b"\n" for one in lines)
        (self.folder / name).write_bytes(content)
        return name

    def ingest(self, *lines: bytes) -> Ended:
        """Ingest lines that must be all right."""
        ended = self("ingest", self.file(lines), "--strict", "--json")
        assert ended.code == 0, ended
        return ended

    def installed(
        self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> Ended:
        """Run the installed command in a process of its own, with these variables on top."""
        done = subprocess.run(
            [TRUSTFOLD, *arguments],
            cwd=self.folder,
            env={**os.environ, **(environment or {})},
            input=stdin,
            capture_output=True,
            timeout=LONG_ENOUGH,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def counts(accepted: int, duplicates: int = 0, conflicts: int = 0, dead_letters: int = 0) -> Any:
    """What `ingest --json` prints."""
    return {
        "accepted": accepted,
        "duplicates": duplicates,
        "conflicts": conflicts,
        "dead_letters": dead_letters,
    }
