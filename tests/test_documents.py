"""What a reader would try first: the Python of README.md, and every example in a docstring."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LONG_ENOUGH = 60.0
"""Seconds after which an example that does not end is a failure."""

SOURCES = ("schemas", "projections", "streams")


def modules_with_examples() -> list[str]:
    """Every module of ours that has an example in a docstring."""
    return sorted(
        ".".join(path.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__")
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
    )


def python_blocks() -> list[str]:
    """The Python blocks of the README, as they stand there."""
    return FENCE.findall(README.read_text(encoding="utf-8"))


def test_the_readme_has_python_to_run() -> None:
    """The tests below would pass on a README without any."""
    assert python_blocks()


@pytest.mark.parametrize("number", range(len(python_blocks())))
def test_the_python_of_the_readme_runs_as_written(tmp_path: Path, number: int) -> None:
    """Pasted into a file of an empty folder it ends well, warns of nothing and says something."""
    (tmp_path / "example.py").write_text(python_blocks()[number], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", "example.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "TrustScore(" in done.stdout
    assert "n_samples=1" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["example.py", "trust.db"]


def test_the_public_face_has_examples() -> None:
    """What a newcomer imports shows how it is used, and so does what it hands out."""
    assert {"trustfold", "trustfold_projections.laws.signals"} <= set(modules_with_examples())


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_of_a_module_are_true(name: str) -> None:
    """Each example in a docstring gives what it says it gives."""
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
