"""The blocks of docs/kafka.md are run as they stand, on the broker of the tests."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.broker.command_process import BIN
from tests.broker.processes import ROOT, START_SECONDS_MAX
from tests.broker.running import Running

pytestmark = pytest.mark.broker

GUIDE = (ROOT / "docs" / "kafka.md").read_text(encoding="utf-8")
SHOWN = "127.0.0.1:9092"
"""The address in the guide."""


def commands() -> list[list[str]]:
    """The words of each command of trustfold that is shown step by step."""
    lines = re.findall(r"^    (trustfold [^#\n]*)", GUIDE, re.MULTILINE)
    assert len(lines) == 4
    return [shlex.split(line) for line in lines]


def run(words: list[str], environment: Mapping[str, str]) -> str:
    """Run a command that must end well; what it printed."""
    done = subprocess.run(
        [str(BIN / words[0]), *words[1:]],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=START_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_steps_and_the_python_of_the_guide(
    broker: Running, prefix: str, tmp_path: Path
) -> None:
    """Topics, worker, ingest and scores one after the other; then a score from Python."""
    environment = {
        **os.environ,
        "TRUSTFOLD_TOPIC_PREFIX": prefix,
        "TRUSTFOLD_TOPIC_PARTITIONS": "2",
        "TRUSTFOLD_METRICS_PORT": "0",
    }
    create, worker, *rest = [
        [word.replace(SHOWN, broker.bootstrap) for word in words] for words in commands()
    ]
    assert "topics are as they must be" in run(create, environment)
    assert worker.pop() == "&"
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(BIN / worker[0]), *worker[1:]], cwd=ROOT, env=environment, stdout=log, stderr=log
        )
        try:
            told = [run(words, environment) for words in rest]
            assert "137" in told[0]
            assert "fs_write:~/notes/*" in told[1]
            (block,) = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
            done = subprocess.run(
                [sys.executable, "-c", block.replace(SHOWN, broker.bootstrap)],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=START_SECONDS_MAX,
                check=False,
            )
            assert re.fullmatch(r"0\.\d{3}\n", done.stdout), done.stderr
            assert process.poll() is None, (tmp_path / "log").read_text()
        finally:
            process.terminate()
            process.wait(START_SECONDS_MAX)
