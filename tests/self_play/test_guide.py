"""docs/self-play.md is true: its Python gives what it shows, and so do its commands."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path
from typing import get_args

import pytest

from tests.cli.commands import Shell
from trustfold_projections.laws.self_play import SkippedVia

GUIDE = Path(__file__).parents[2] / "docs" / "self-play.md"
TEXT = GUIDE.read_text(encoding="utf-8")
RESULT = {
    "context": "budget",
    "winner": "beta",
    "loser": "alpha",
    "critic": "judge",
    "verdict": "shorter",
    "critic_cost_usd": 0.01,
}


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """A folder in which commands are run."""
    return Shell(tmp_path, capsys, monkeypatch)


def test_the_python_of_the_guide_is_true() -> None:
    """Each example gives what it says it gives."""
    found = doctest.testfile(str(GUIDE), module_relative=False)
    assert (found.failed, found.attempted > 5) == (0, True)


def test_every_way_to_skip_is_told() -> None:
    """The table has each `via` once."""
    told = re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE)
    assert sorted(told) == sorted(get_args(SkippedVia))


def test_the_commands_of_the_guide_say_what_it_shows(shell: Shell) -> None:
    """Load, plan, record, look: as the first example has it."""
    (question,) = re.findall(r"`question\.json` is `(\{.*?\})`", TEXT, re.DOTALL)
    assert shell("effect", "load-defaults").out.strip() in TEXT
    plan = shell("self-play", "plan", "-", "--json", stdin=" ".join(question.split()).encode())
    assert plan.out.strip() in TEXT
    recorded = shell("self-play", "record", "-", stdin=json.dumps(RESULT).encode())
    assert recorded.out.split(":")[0] in TEXT
    shown = shell("synapse", "budget").out
    assert [line.split() for line in shown.splitlines()] == [
        line.split()
        for line in TEXT.split("$ trustfold synapse budget\n")[1].split("\n\n")[0].splitlines()
    ]
