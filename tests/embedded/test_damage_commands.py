"""On a store with a changed value no command hangs, and none ends in another program's error."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from tests.embedded.damage import (
    TABLES,
    Column,
    changed,
    columns_of,
    contents,
    damaged_copy,
    full_store,
    some_rows,
)
from tests.embedded.documents import NOTES, closed, decided, undone
from tests.embedded.tampering import tamper
from tests.oracles.histories import RECORDED_FROM, rfc3339
from trustfold_streams.cli.front import run
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.errors import StoreDamagedError

NAME = (NOTES.tool, NOTES.effect)
EARLY = rfc3339(RECORDED_FROM + 9)
WHY = ("--why", "to see")

COMMANDS = (
    ("status",),
    ("scores",),
    ("scores", "--as-of", EARLY),
    ("score", *NAME),
    ("score", *NAME, "--as-of", EARLY),
    ("explain", *NAME, "--without", "t1"),
    ("explain", *NAME, "--without", "close/t2"),
    ("pending",),
    ("peek", *NAME),
    ("impact", "t1"),
    ("threshold", "list"),
    ("synapse",),
    ("reflect", "movers"),
    ("dead-letters", "list", "--all"),
    ("verify",),
    ("rollback", *NAME, "--to", EARLY, *WHY, "--dry-run"),
    ("decide", *NAME, "--trace", "t9", "--step", "1"),
    ("ingest", "more.jsonl"),
    ("exclude", "t1", *WHY),
    ("lift", "r1", *WHY),
    ("dead-letters", "replay", "1"),
    ("verify", "--repair"),
)
"""Those that read first, so that the others find the damage as it was made."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that verifies."""
    path = tmp_path_factory.mktemp("sound") / "trust.db"
    full_store(path)
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with something to ingest."""
    monkeypatch.chdir(tmp_path)
    more = [closed("t1"), closed("new"), decided("t1", "denied"), undone("t2"), closed("t3")]
    (tmp_path / "more.jsonl").write_bytes(b"\n".join(more))
    return tmp_path


def far_off(column: Column, old: object) -> object:
    """A value that nothing sound comes near to."""
    return {"INTEGER": 2**62, "TEXT": "far off", "BLOB": b""}.get(column.kind, "far off")


@pytest.mark.parametrize("change", [changed, far_off], ids=["the next value", "a far value"])
@pytest.mark.parametrize("column", columns_of(*TABLES), ids=str)
def test_every_command_ends_in_our_own_words(
    sound: Path, folder: Path, column: Column, change: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them works, or ends with an exit code of ours; none raises, none goes on for ever."""
    assert callable(change)
    caplog.set_level(logging.CRITICAL + 1)
    key, old = some_rows(contents(sound), column)[-1]
    path = damaged_copy(sound, folder, column, key, change(column, old))
    codes = {command: run([*command, "--store", str(path)]) for command in COMMANDS}
    assert set(codes.values()) <= {0, 1, 2, 3}


@pytest.mark.parametrize(
    "change",
    [
        "prev = position",
        "prev = position + 1",
        "prev = 1",
        "prev = NULL",
        "prev = 1000000",
        "subject_id = subject_id + 1",
    ],
)
def test_a_broken_way_back_is_never_a_shorter_history(
    sound: Path, tmp_path: Path, change: str
) -> None:
    """A subject whose entries cannot all be found has no explanation, rather than a wrong one."""
    path = tmp_path / "trust.db"
    shutil.copy(sound, path)
    of_notes = f"(SELECT subject_id FROM subjects WHERE effect = '{NOTES.effect}' AND scope = '')"
    last = f"(SELECT max(position) FROM ledger WHERE subject_id = {of_notes})"
    if change == "prev = NULL":
        change = "prev = (SELECT max(position) FROM ledger WHERE subject_id != l.subject_id)"
    tamper(path, f"UPDATE ledger AS l SET {change} WHERE position = {last}")
    with EmbeddedStore.open(path, "read") as store:
        with pytest.raises(StoreDamagedError, match="the ledger of"):
            store.entries(NOTES)
        assert not store.verify().ok


def test_a_deleted_fact_is_never_a_shorter_explanation(sound: Path, tmp_path: Path) -> None:
    """An entry whose fact is gone cannot be named, and is not left out."""
    path = tmp_path / "trust.db"
    shutil.copy(sound, path)
    tamper(path, "DELETE FROM facts WHERE json_extract(body, '$.id') = 'close/t1'")
    with (
        EmbeddedStore.open(path, "read") as store,
        pytest.raises(StoreDamagedError, match="is missing"),
    ):
        store.entries(NOTES)
