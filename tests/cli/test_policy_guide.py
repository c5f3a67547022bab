"""docs/policy.md: its code runs, its table of reasons is whole, its commands are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.commands import Shell
from trustfold_schemas.decisions import ReasonCode
from trustfold_streams.cli.front import cli

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")


def test_the_table_of_reasons_is_whole_and_in_order() -> None:
    """Every code of the enumeration, once, the gravest first."""
    assert re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE) == [one.value for one in ReasonCode]


def test_every_command_it_names_exists() -> None:
    """The first word after `trustfold` in its examples."""
    named = set(re.findall(r"^ +(?:\$ )?trustfold ([a-z-]+)", GUIDE, re.MULTILINE))
    assert named >= {
        "decide",
        "effect",
        "threshold",
        "revoke",
        "reinstate",
        "mode",
        "why",
        "impact",
    }
    assert named <= set(cli.commands)


def test_its_python_runs(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands, in an empty folder."""
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    exec(compile(block, "docs/policy.md", "exec"), {"__name__": "__main__"})
    out = capsys.readouterr().out
    assert out.startswith("approve_required a declaration of how far the effect can be undone")
    assert out.endswith("undeclared_effect\n")
