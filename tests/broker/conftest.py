"""What the tests of commands are given; the broker itself is in `fixtures`."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.command_pipelines import (
    EVENTS,
    SECONDS_MAX,
    Pipeline,
    Run,
    configure,
    made,
)
from tests.broker.processes import WorkerProcess
from tests.broker.running import Running
from tests.cli.commands import TRUSTFOLD, Shell, counts


@pytest.fixture(scope="module")
def pipeline(broker: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """A pipeline with a worker that has folded an agent's first month; tests take other names."""
    found = made(broker.bootstrap)
    worker = WorkerProcess(found.settings, tmp_path_factory.mktemp("worker") / "log")
    try:
        asyncio.run(worker.ready())
        with pytest.MonkeyPatch.context() as patch:
            configure(patch, found)
            words = ("--store", found.store, "ingest", "--medians-first", "--json", str(EVENTS))
            done = subprocess.run(
                [TRUSTFOLD, *words], capture_output=True, timeout=SECONDS_MAX, check=True
            )
        assert json.loads(done.stdout) == {**counts(137), "medians": counts(25)}
        found.caught_up()
        yield found
    finally:
        worker.end()


@pytest.fixture
def idle(broker: Running) -> Pipeline:
    """A pipeline on which nobody works."""
    return made(broker.bootstrap)


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """A folder in which commands are run."""
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.fixture
def run(pipeline: Pipeline, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on the pipeline."""
    configure(monkeypatch, pipeline)
    return lambda *arguments, **more: shell(*arguments, "--store", pipeline.store, **more)


@pytest.fixture
def embedded(shell: Shell) -> Run:
    """Runs a command on a file that holds the same month."""
    assert shell("ingest", "--medians-first", str(EVENTS)).code == 0
    return shell
