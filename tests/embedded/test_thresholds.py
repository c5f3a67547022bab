"""The table of thresholds: versions are compared and swapped, and it can be told from the facts."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.documents import document
from trustfold_schemas.instants import SECOND
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import Document, EmbeddedStore, Receipt

START = 1_780_000_000 * SECOND


def threshold(name: str, min_score: float, expected: int | None = None, what: str = "set") -> bytes:
    """A threshold of every write below the notes, set or removed."""
    numbers = {"min_score": min_score, "min_samples": 10, "min_grants": 5, "min_approval_rate": 0.9}
    return document(
        f"trustfold.threshold.{what}.v1",
        name,
        "/operator",
        START,
        {
            "effect": "fs_write:~/notes/*",
            "risk_band": "reversible_with_cost",
            **(numbers if what == "set" else {}),
            "expected_version": expected,
            "by": "oscar",
            "why": "the month went well",
        },
    )


def receipts_of(store: EmbeddedStore, *bodies: bytes) -> list[Receipt]:
    """Ingest, and what became of each."""
    made: list[Receipt] = []
    store.ingest([Document(body, "test") for body in bodies], committed=made.extend)
    return made


def rows_of(path: Path) -> list[tuple[object, ...]]:
    """The table as SQL shows it."""
    with sqlite3.connect(path) as connection:
        return connection.execute(
            "SELECT min_score_ppm, min_samples, version FROM thresholds"
        ).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store lies."""
    return tmp_path / "trust.db"


def test_a_threshold_set_stands_in_the_table(path: Path) -> None:
    """What is set is one row with its version, in integers."""
    with EmbeddedStore.open(path, clock=ManualClock(START)) as store:
        receipts_of(store, threshold("a", 0.75))
        assert store.verify().ok
    assert rows_of(path) == [(750_000, 10, 1)]


def test_a_stale_version_is_refused_and_changes_nothing(path: Path) -> None:
    """One that replaces another version than the one in force is a dead letter."""
    with EmbeddedStore.open(path, clock=ManualClock(START)) as store:
        made = receipts_of(store, threshold("a", 0.75, 0), threshold("b", 0.5, 0))
    assert [receipt.reason for receipt in made] == [None, Reason.STALE_VERSION]
    assert "version 1, got 0" in str(made[1].detail)
    assert rows_of(path) == [(750_000, 10, 1)]


def test_a_version_in_force_is_replaced(path: Path) -> None:
    """One that names the version in force replaces it, over a reopening of the file too."""
    with EmbeddedStore.open(path, clock=ManualClock(START)) as store:
        receipts_of(store, threshold("a", 0.75))
    with EmbeddedStore.open(path, clock=ManualClock(START)) as store:
        receipts_of(store, threshold("b", 0.8, 1))
        assert store.verify().ok
    assert rows_of(path) == [(800_000, 10, 2)]


def test_a_removed_threshold_is_gone_and_its_version_counts_on(path: Path) -> None:
    """A removal takes the row away; what is set next has the version after it."""
    with EmbeddedStore.open(path, clock=ManualClock(START)) as store:
        receipts_of(store, threshold("a", 0.75), threshold("b", 0, what="removed"))
        assert rows_of(path) == []
        receipts_of(store, threshold("c", 0.7, 2))
        assert store.verify().ok
    assert rows_of(path) == [(700_000, 10, 3)]


def test_a_changed_row_is_named_and_repaired(path: Path) -> None:
    """Verify names a threshold that the facts did not set; repair writes what they did."""
    with EmbeddedStore.open(path, clock=ManualClock(START)) as store:
        receipts_of(store, threshold("a", 0.75))
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE thresholds SET min_score_ppm = 1")
        report = store.verify()
        assert [finding.proof for finding in report.findings] == ["thresholds"]
        assert store.repair() == ([], 1)
        assert store.verify().ok
    assert rows_of(path) == [(750_000, 10, 1)]
