"""Ctrl-C, readers that go away, and writers that come in the way, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from functools import partial

import pytest

from tests.cli.commands import LIKE_A_TERMINAL, LONG_ENOUGH, TRUSTFOLD, Shell
from tests.embedded.documents import closed, step
from tests.embedded.feeding import query
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import EmbeddedStore

BATCH = 100
ON_THE_WAY = 1 << 17
"""More bytes than a pipe and a reader's buffer hold between a writer and the store."""


def test_ctrl_c_keeps_what_was_committed(shell: Shell) -> None:
    """An ingest that is interrupted ends with 130, says so, and whole batches are kept."""
    lines = [closed(f"t{number}") + b"\n" for number in range(20 * BATCH)]
    command = [*LIKE_A_TERMINAL, "ingest", "-", "--json", f"--batch={BATCH}"]
    with subprocess.Popen(
        command,
        cwd=shell.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for line in lines:
                process.stdin.write(line)
            process.stdin.flush()
            # It has read all but what is on the way, and reads a batch after committing the last.
            process.send_signal(signal.SIGINT)
            out, err = process.stdout.read().decode(), process.stderr.read().decode()
            assert process.wait(LONG_ENOUGH) == 130
        finally:
            process.kill()
    read = (sum(map(len, lines)) - ON_THE_WAY) // max(map(len, lines))
    ((facts,),) = query(shell.store, "SELECT count(*) FROM facts")
    assert facts % BATCH == 0
    assert facts >= read - BATCH > 0
    assert "interrupted; what was committed is kept" in err
    assert "Traceback" not in err
    # A batch may have been committed just before it could be counted, never the other way round.
    assert json.loads(out)["accepted"] in (facts, facts - BATCH)
    with EmbeddedStore.open(shell.store, "read") as store:
        assert store.verify().findings == []


def many_subjects(shell: Shell) -> None:
    """A store whose board is longer than a pipe."""
    steps = [step(f"s{n}", Subject("", f"tool{n:04d}", "invoke")) for n in range(2_000)]
    shell.ingest(closed("t1", *steps))


@pytest.mark.parametrize("arguments", [["scores", "--json"], ["scores", "--top", "5000"]])
def test_a_reader_that_leaves_early_is_no_failure(shell: Shell, arguments: list[str]) -> None:
    """`trustfold scores | head -1` ends with 0 and without a word."""
    many_subjects(shell)
    with subprocess.Popen(
        [TRUSTFOLD, *arguments],
        cwd=shell.folder,
        bufsize=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.read(1)
            process.stdout.close()
            assert process.stderr.read().decode() == ""
            assert process.wait(LONG_ENOUGH) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    "arguments", [["scores", "--json"], ["scores"], ["status"], ["verify"], ["--help"], []]
)
def test_a_reader_that_was_never_there_is_no_failure(shell: Shell, arguments: list[str]) -> None:
    """Output that fits a buffer meets the broken pipe at the end only, and that is as quiet."""
    shell.ingest(closed("t1"))
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [TRUSTFOLD, *arguments],
            cwd=shell.folder,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=LONG_ENOUGH,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_a_store_that_another_holds_is_exit_3(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that waited in vain says which file and what to do; reading goes on meanwhile."""
    shell.ingest(closed("t1"))
    log = shell.file([closed("t2")])
    monkeypatch.setattr(EmbeddedStore, "open", partial(EmbeddedStore.open, busy_seconds=0.2))
    with closing(sqlite3.connect(shell.store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ended = shell("ingest", log)
        assert ended.code == 3
        assert "trust.db" in ended.err
        assert "try again" in ended.err
        assert shell("scores").code == 0
        other.execute("ROLLBACK")
    assert shell("ingest", log).code == 0
