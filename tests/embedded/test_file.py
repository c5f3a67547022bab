"""The file: what may be opened as a store, what guards its rows, and who may write it when."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from tests.embedded.documents import NOTES, closed, decided
from tests.embedded.feeding import digests, ingest, query
from trustfold_schemas.errors import CallerError, TrustfoldError
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.database import Mode
from trustfold_streams.embedded.errors import (
    NewerStoreError,
    NoStoreError,
    NotAStoreError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
)

MODES: tuple[Mode, ...] = ("create", "write", "read")
IN_EVERY_MODE = pytest.mark.parametrize("mode", MODES)
SOON = 0.2
"""Seconds that a writer waits here for a lock that nobody gives back."""


@pytest.fixture
def stranger(path: Path, store: EmbeddedStore) -> Generator[sqlite3.Connection]:
    """A program that writes the store's file with plain SQL, after one trace was ingested."""
    ingest(store, closed("t1"), decided("t1"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


# ---- what is a store -------------------------------------------------------------------------


def test_a_new_file_is_marked_as_a_store(path: Path, store: EmbeddedStore) -> None:
    """It carries the application id `trus`, its layout, and a write-ahead log."""
    assert query(path, "PRAGMA application_id") == [(int.from_bytes(b"trus", "big"),)]
    assert query(path, "PRAGMA user_version") == [(store.status().layout,)]
    assert store.status().layout >= 1
    assert query(path, "PRAGMA journal_mode") == [("wal",)]


def test_opening_again_changes_nothing(path: Path, store: EmbeddedStore) -> None:
    """A second opening finds the layout and the rows of the first."""
    ingest(store, closed("t1"))
    before = store.status(), store.states()
    store.close()
    with EmbeddedStore.open(path, clock=store.clock) as again:
        assert (again.status().facts, again.states()) == (before[0].facts, before[1])
        assert again.status().layout == before[0].layout


def test_a_path_with_characters_that_mean_something_to_sqlite(tmp_path: Path) -> None:
    """Question marks, hashes and percent signs in a name are part of the name."""
    path = tmp_path / "50%3f? #1 доверие.db"
    with EmbeddedStore.open(path) as store:
        ingest(store, closed("t1"))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", ["write", "read"])
def test_a_missing_file_is_made_only_when_asked(path: Path, mode: Mode) -> None:
    """To read or to go on writing, the file must be there; nothing is made by the attempt."""
    with pytest.raises(NoStoreError, match=str(path)):
        EmbeddedStore.open(path, mode)
    assert not path.exists()
    assert issubclass(NoStoreError, CallerError)


@IN_EVERY_MODE
def test_a_missing_folder_is_not_made(tmp_path: Path, mode: Mode) -> None:
    """A typing error in a path makes no folders."""
    folder = tmp_path / "no such folder"
    with pytest.raises(NoStoreError, match=str(folder)):
        EmbeddedStore.open(folder / "trust.db", mode)
    assert not folder.exists()


@IN_EVERY_MODE
def test_a_folder_is_no_store(tmp_path: Path, mode: Mode) -> None:
    """A folder is refused by name."""
    with pytest.raises(NotAStoreError, match=str(tmp_path)):
        EmbeddedStore.open(tmp_path, mode)


@IN_EVERY_MODE
@pytest.mark.parametrize("content", [b"no", b"# My notes\n" * 1_000, bytes(5_000)])
def test_a_file_that_is_not_sqlite_is_no_store(path: Path, mode: Mode, content: bytes) -> None:
    """It is refused with its path and stays as it was."""
    path.write_bytes(content)
    with pytest.raises(NotAStoreError, match=str(path)):
        EmbeddedStore.open(path, mode)
    assert path.read_bytes() == content


@IN_EVERY_MODE
@pytest.mark.parametrize(
    "made_by",
    ["CREATE TABLE users (name TEXT)", "PRAGMA user_version = 1", "PRAGMA application_id = 77"],
)
def test_a_sqlite_file_of_another_program_is_no_store(path: Path, mode: Mode, made_by: str) -> None:
    """It is refused with its path and stays as it was, even where it holds no table yet."""
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(made_by)
    content = path.read_bytes()
    with pytest.raises(NotAStoreError, match=str(path)):
        EmbeddedStore.open(path, mode)
    assert path.read_bytes() == content
    assert issubclass(NotAStoreError, StoreError)


@IN_EVERY_MODE
def test_a_newer_layout_is_left_alone(path: Path, store: EmbeddedStore, mode: Mode) -> None:
    """A store of a later version is refused, naming both layouts, and not written."""
    layout = store.status().layout
    store.close()
    with closing(sqlite3.connect(path)) as later, later:
        later.execute(f"PRAGMA user_version = {layout + 1}")
    content = path.read_bytes()
    with pytest.raises(NewerStoreError, match=rf"{path} has layout {layout + 1}.* {layout}\b"):
        EmbeddedStore.open(path, mode)
    assert path.read_bytes() == content


def test_a_file_that_was_overwritten_in_part_is_called_damaged(
    path: Path, store: EmbeddedStore
) -> None:
    """Pages that SQLite cannot read are an error with the path and a way out, not a traceback."""
    ingest(store, *(closed(f"t{number}") for number in range(200)))
    store.close()
    content = bytearray(path.read_bytes())
    content[4_096:] = b"\xff" * (len(content) - 4_096)
    path.write_bytes(content)
    with (
        pytest.raises(StoreDamagedError, match=f"{path} is damaged"),
        EmbeddedStore.open(path, "write") as opened,
    ):
        opened.states()


# ---- what guards the rows --------------------------------------------------------------------


@pytest.mark.parametrize("table", ["facts", "ledger", "subjects"])
@pytest.mark.parametrize("change", ["UPDATE", "DELETE"])
def test_what_is_written_stays(
    path: Path, stranger: sqlite3.Connection, table: str, change: str
) -> None:
    """No program changes or deletes a row of the append-only tables by accident."""
    name = query(path, f"PRAGMA table_info({table})")[-1][1]
    statement = f"UPDATE {table} SET {name} = {name}"
    if change == "DELETE":
        statement = f"DELETE FROM {table}"
    before = query(path, f"SELECT * FROM {table}")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        stranger.execute(statement)
    assert query(path, f"SELECT * FROM {table}") == before


@pytest.mark.parametrize("by", [0, -1])
def test_facts_grow(stranger: sqlite3.Connection, by: int) -> None:
    """A fact whose recorded moment is not after the last one is refused by the file itself."""
    with pytest.raises(sqlite3.IntegrityError):
        stranger.execute(
            "INSERT INTO facts SELECT recorded + ?, key_hash, type, role, identity, scopes, body, "
            "chain FROM facts ORDER BY recorded DESC LIMIT 1",
            (by,),
        )


def test_replacing_is_no_way_around_the_guards(path: Path, store: EmbeddedStore) -> None:
    """INSERT OR REPLACE through the store's own connection deletes no fact or entry."""
    ingest(store, closed("t1"))
    for table, key in (("facts", "recorded"), ("ledger", "position"), ("subjects", "subject_id")):
        columns = [name for _, name, *_ in query(path, f"PRAGMA table_info({table})")]
        assert columns[0] == key
        before = query(path, f"SELECT * FROM {table}")
        with pytest.raises(sqlite3.IntegrityError):
            store._connection.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
        assert query(path, f"SELECT * FROM {table}") == before


def test_the_view_events_names_every_entry(path: Path, store: EmbeddedStore) -> None:
    """The ledger reads in the words of the specification: kind, subject, trace, event."""
    ingest(store, closed("t1"), decided("t1"))
    rows = query(
        path, "SELECT kind, tool, effect, trace_id, event_id, source FROM events ORDER BY position"
    )
    notes, whole = ("fs_write", "fs_write:~/notes/*", "t1"), ("runtime", "done", "t1")
    assert rows == [
        ("evidence", *notes, "close/t1", "rt"),
        ("evidence", *whole, "close/t1", "rt"),
        ("correction", *notes, "granted/t1", "rt"),
        ("correction", *whole, "granted/t1", "rt"),
    ]
    assert len(query(path, "SELECT DISTINCT entry_id FROM events")) == 4


# ---- who may write when ----------------------------------------------------------------------


def test_a_second_writer_waits_a_bounded_time(path: Path, clock: ManualClock) -> None:
    """While another holds the file a writer gives up by name, and afterwards it writes."""
    with (
        EmbeddedStore.open(path, clock=clock, busy_seconds=SOON) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        ingest(store, closed("t1"))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyError, match=str(path)):
            ingest(store, closed("t2"))
        assert len(store.states()) == 2
        other.execute("ROLLBACK")
        (receipt,) = ingest(store, closed("t2"))
        assert receipt.counted == "accepted"
        state = store.state(NOTES)
        assert state is not None
        assert state.n_samples == 2


def test_what_another_wrote_while_a_writer_waited_is_not_lost(
    path: Path, clock: ManualClock
) -> None:
    """A writer that was turned away sees, when it comes again, what was committed meanwhile."""
    with (
        EmbeddedStore.open(path, clock=clock, busy_seconds=SOON) as first,
        EmbeddedStore.open(path, clock=clock) as second,
    ):
        ingest(first, closed("t1"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusyError):
                ingest(first, closed("t2"))
            other.execute("ROLLBACK")
        ingest(second, closed("t2"), decided("t1"))
        receipts = ingest(first, closed("t2"), closed("t3"))
        assert [receipt.counted for receipt in receipts] == ["duplicates", "accepted"]
        assert digests(first.states()) == digests(second.states())
        assert first.verify().findings == []


def test_every_error_of_a_store_is_a_trustfold_error() -> None:
    """Who catches the base class catches whatever befalls a store."""
    for error in (NoStoreError, NotAStoreError, NewerStoreError, StoreBusyError, StoreDamagedError):
        assert issubclass(error, TrustfoldError)
