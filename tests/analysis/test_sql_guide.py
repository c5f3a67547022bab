"""The guides docs/archive.md and docs/sql.md do what they say, line by line."""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.cli.commands import LONG_ENOUGH, TRUSTFOLD
from trustfold_streams.cli.front import run

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "sql.md").read_text(encoding="utf-8")
ARCHIVE = (DOCS / "archive.md").read_text(encoding="utf-8")


@pytest.fixture
def folder(scene_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the store and the archive that the guide speaks of."""
    monkeypatch.chdir(scene_store.parent)
    return scene_store.parent


def test_their_commands_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All but the prompt and --follow, which are other tests'."""
    commands = re.findall(r"^    trustfold (.*?)(?: +#.*)?$", ARCHIVE + GUIDE, re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        words = shlex.split(command)
        if words[-1] != "sql" and "--follow" not in words:
            assert run(words) == 0, command
    assert "fs_write" in capsys.readouterr().out


def test_its_python_runs(folder: Path) -> None:
    """One line makes the views in a connection of one's own."""
    (block,) = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(block, "docs/sql.md", "exec"), names)
    connection = names["connection"]
    assert isinstance(connection, duckdb.DuckDBPyConnection)
    assert connection.sql("FROM leaderboard").fetchall()


def test_the_prompt(folder: Path) -> None:
    """At a terminal: queries over several lines, errors that do not end it, the list of views."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [TRUSTFOLD, "--store", "archive:archive", "sql"], stdin=theirs, stdout=theirs, stderr=theirs
    ) as child:
        os.close(theirs)
        for line in ("SELECT", "40 + 2 AS answer;", "SELEC;", ".views people", ".quit"):
            os.write(ours, line.encode() + b"\n")
        said = b""
        while True:
            try:
                some = os.read(ours, 4096)
            except OSError:
                break
            said += some
        assert child.wait(LONG_ENOUGH) == 0
    os.close(ours)
    text = said.decode()
    assert re.search(r"answer\S*\s+42", text), text
    assert "syntax error" in text
    assert "answers_a_day_max" in text
