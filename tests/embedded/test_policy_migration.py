"""A store of the layout before the policy becomes one that holds decisions."""

from __future__ import annotations

import sqlite3
from importlib import resources
from pathlib import Path

import pytest

from tests.embedded.asking import Office
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.database import APPLICATION_ID
from trustfold_streams.embedded.errors import NewerStoreError


@pytest.fixture
def old(path: Path) -> Path:
    """An empty store as the first version made it."""
    folder = resources.files("trustfold_streams.embedded") / "migrations"
    with sqlite3.connect(path) as connection:
        connection.executescript((folder / "0001.sql").read_text(encoding="utf-8"))
        connection.execute("PRAGMA user_version = 1")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA journal_mode = WAL")
    return path


def test_a_store_of_the_first_layout_is_brought_on(old: Path, clock: ManualClock) -> None:
    """Opened for writing it decides; all of it verifies, the layout too."""
    with EmbeddedStore.open(old, "write", clock=clock) as store:
        office = Office(store, clock)
        office.rules()
        office.earned()
        assert office.ask().verdict.verdict == "allow"
        assert store.verify().findings == []


def test_a_reader_leaves_it_alone_and_says_so(old: Path) -> None:
    """Reading changes no file; the error says how to bring it on."""
    with pytest.raises(NewerStoreError, match="has layout 1"):
        EmbeddedStore.open(old, "read")


def test_decisions_of_the_layout_before_get_their_head_noted(
    path: Path, clock: ManualClock
) -> None:
    """What an older version decided is the log that a cut is held against."""
    with EmbeddedStore.open(path, clock=clock) as store:
        office = Office(store, clock)
        office.rules()
        office.ask()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM meta WHERE name = 'decisions'")
        connection.execute("PRAGMA user_version = 3")
    with EmbeddedStore.open(path, "write", clock=clock) as store:
        assert store.verify().findings == []
        assert store.verify().decisions == 1
