"""docs/backtest.md: what it shows of the example is what the commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.commands import Shell

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "backtest.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"^```console\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)[0]


def test_the_example_is_what_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first block of the guide, command by command."""
    shell = Shell(tmp_path, capsys, monkeypatch)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    lines = EXAMPLE.splitlines()
    commands = [line.removeprefix("$ trustfold ") for line in lines if line.startswith("$ ")]
    printed = [line for line in lines if not line.startswith("$ ")]
    ended = [shell(*shlex.split(command)) for command in commands]
    assert [one.code for one in ended] == [0, 0]
    assert [line.rstrip() for line in ended[-1].out.splitlines() if line.strip()] == printed
