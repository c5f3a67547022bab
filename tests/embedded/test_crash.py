"""A writer that is killed at any moment leaves a sound file, from which another goes on."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.embedded.documents import (
    NOTES,
    SHELL,
    closed,
    decided,
    excluded,
    median,
    numbered,
    recorded_step,
    step,
    undone,
)
from tests.embedded.feeding import FOLDERS, digests, query
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import EmbeddedStore

BATCH = 50
TRACES = 800
KILLS = 20
LONG_ENOUGH = 120.0
"""Seconds after which a child that does not end is a failure."""

CHILD = """
import sys
from trustfold_streams.embedded import Document, EmbeddedStore

def told(receipts):
    print(len(receipts), flush=True)

with open(sys.argv[2], "rb") as lines, EmbeddedStore.open(sys.argv[1]) as store:
    print(0, flush=True)
    documents = (Document(line.rstrip(b"\\n"), "log") for line in lines)
    store.ingest(documents, batch=int(sys.argv[3]), committed=told)
"""


def events() -> list[bytes]:
    """A log of a few thousand events, all of which are facts: closes and what comes after them."""
    made = [median()]
    for number in range(TRACES):
        name = f"t{number}"
        subject = (NOTES, SHELL, Subject("", f"tool{number % 7}", "invoke"))[number % 3]
        made.append(recorded_step(name, step("a", subject)))
        made.append(closed(name, step("a", subject), step("b"), cost_usd=number % 4 / 100))
        if number % 2:
            made.append(decided(name, step_ids=["a"]))
        if number % 5 == 0:
            made.append(undone(f"t{number // 2}") if number % 10 else decided(name, "denied"))
        if number % 11 == 0:
            made.append(excluded(name))
    return list(dict.fromkeys(made))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log in a file, an event a line."""
    path = tmp_path_factory.mktemp("crash") / "log.jsonl"
    path.write_bytes(b"".join(event + b"\n" for event in events()))
    return path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[Subject, str]:
    """What an ingest comes to that nobody interrupts."""
    with EmbeddedStore.open(tmp_path_factory.mktemp("undisturbed") / "trust.db") as store:
        summary = store.ingest(numbered(events()))
        assert summary.accepted == summary.total
        return digests(store.states())


@pytest.fixture
def path() -> Generator[Path]:
    """A store in memory: SIGKILL takes a process, not the machine, so no disk is waited for."""
    with tempfile.TemporaryDirectory(dir=FOLDERS) as folder:
        yield Path(folder) / "trust.db"


@contextlib.contextmanager
def child(store: Path, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """A process that ingests the log and tells of each committed batch on a line."""
    command = [sys.executable, "-c", CHILD, str(store), str(log), str(BATCH)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def killed_after(store: Path, log: Path, batches: int, spin: int) -> int:
    """Kill a child a moment after it told of so many batches; the documents it told of."""
    told = 0
    with child(store, log) as process:
        assert process.stdout is not None
        for _ in range(batches + 1):
            told += int(process.stdout.readline())
        for _ in range(spin):
            pass
        process.send_signal(signal.SIGKILL)
        told += sum(int(line) for line in process.stdout.readlines() if line.endswith(b"\n"))
        assert process.wait(LONG_ENOUGH) in (-signal.SIGKILL, 0)
    return told


@pytest.mark.parametrize("seed", range(KILLS))
def test_what_was_told_of_survives_a_kill_and_the_rest_can_follow(
    path: Path, log: Path, undisturbed: dict[Subject, str], seed: int
) -> None:
    """After kill -9 whole batches are there, all that were told of, and resuming ends as ever."""
    chance = random.Random(seed)
    expected = events()
    batches = chance.randrange(len(expected) // BATCH)
    told = killed_after(path, log, batches, chance.randrange(200_000))
    assert told >= batches * BATCH

    with EmbeddedStore.open(path, "write") as store:
        facts = store.status().facts
        assert facts >= told
        assert facts % BATCH == 0 or facts == len(expected)
        kept = [
            body.encode() for (body,) in query(path, "SELECT body FROM facts ORDER BY recorded")
        ]
        assert kept == expected[:facts]
        assert store.verify().findings == []
        summary = store.ingest(numbered(expected))
        assert (summary.duplicates, summary.accepted) == (facts, len(expected) - facts)
        assert digests(store.states()) == undisturbed
        assert store.verify().findings == []


def test_kills_one_after_another(path: Path, log: Path, undisturbed: dict[Subject, str]) -> None:
    """A log that is resumed and killed again and again loses nothing and counts nothing twice."""
    chance = random.Random("again")
    told = 0
    for _ in range(5):
        told = max(told, killed_after(path, log, 8, chance.randrange(50_000)))
        with EmbeddedStore.open(path, "read") as store:
            assert store.status().facts >= told
            assert store.verify().findings == []
    with child(path, log) as process:
        assert process.stdout is not None
        assert sum(int(line) for line in process.stdout) == len(events())
        assert process.wait(LONG_ENOUGH) == 0
    with EmbeddedStore.open(path, "read") as store:
        assert store.status().facts == len(events())
        assert digests(store.states()) == undisturbed
        assert store.verify().findings == []


def test_a_kill_while_the_file_is_made_leaves_nothing_in_the_way(
    path: Path, log: Path, undisturbed: dict[Subject, str]
) -> None:
    """However early the first writer was killed, the next one makes the store and fills it."""
    command = [sys.executable, "-c", CHILD, str(path), str(log), str(BATCH)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        for _ in range(10_000_000):
            if path.exists():
                break
        process.kill()
    with EmbeddedStore.open(path) as store:
        store.ingest(numbered(events()))
        assert digests(store.states()) == undisturbed
        assert store.verify().findings == []
