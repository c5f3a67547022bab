"""A runtime that is killed at any moment was given no answer that the file does not hold."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.embedded.documents import NOTES, closed, numbered
from tests.embedded.feeding import FOLDERS
from trustfold_streams.embedded import EmbeddedStore

KILLS = 5
LONG_ENOUGH = 120.0
"""Seconds after which a child that does not end is a failure."""

CHILD = """
import sys
from trustfold_schemas.decisions import Action
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import EmbeddedStore

subject = Subject("", "fs_write", "fs_write:~/notes/*")
with EmbeddedStore.open(sys.argv[1]) as store:
    for number in range(100_000):
        action = Action(subject, "reversible", sys.argv[2], f"s{number}")
        print(store.policy.decide(action).decision_id, flush=True)
"""


@pytest.fixture
def path() -> Generator[Path]:
    """A store in memory: SIGKILL takes a process, not the machine, so no disk is waited for."""
    with tempfile.TemporaryDirectory(dir=FOLDERS) as folder:
        yield Path(folder) / "trust.db"


def killed_after(path: Path, trace: str, answers: int) -> list[str]:
    """The ids that a process was given before it was killed."""
    command = [sys.executable, "-c", CHILD, str(path), trace]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        given = [process.stdout.readline().strip() for _ in range(answers)]
        process.send_signal(signal.SIGKILL)
        given += [line.strip() for line in process.stdout if line.endswith("\n")]
        process.wait(LONG_ENOUGH)
    return given


def test_every_answer_that_was_given_is_in_the_file(path: Path) -> None:
    """In the order given, unbroken, and at most one more that nobody heard of."""
    with EmbeddedStore.open(path) as store:
        store.ingest(numbered([closed("t")]))
    chance = random.Random(11)
    for number in range(KILLS):
        given = killed_after(path, f"trace {number}", chance.randrange(1, 60))
        with EmbeddedStore.open(path) as store:
            made = store.policy.decisions(NOTES)
            held = [one.decision_id for one in made if one.action.trace_id == f"trace {number}"]
            assert held[: len(given)] == given
            assert len(held) <= len(given) + 1
            assert store.verify().findings == []
            assert store.policy.why(given[-1]).ok
