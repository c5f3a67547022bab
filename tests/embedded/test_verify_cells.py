"""Verify against a change of any single cell of the file: each is found, none ends it early."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.embedded.documents import numbered
from tests.embedded.feeding import FOLDERS, query, some_examples
from tests.embedded.tampering import SOMETHING_OF_EVERYTHING, cells, tamper, verified
from tests.oracles.histories import RECORDED_FROM
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore

PROVEN = {
    "dead_letters": {"body", "body_sha256", "reason"},
    "facts": None,
    "ledger": None,
    "scores": None,
    "subjects": None,
    "traces": None,
}
"""The columns that the proofs speak of, None for all: of a dead letter it is bytes and reason."""


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound file with nothing left in its write-ahead log."""
    path = tmp_path_factory.mktemp("pristine") / "trust.db"
    with EmbeddedStore.open(path, clock=ManualClock(RECORDED_FROM)) as store:
        store.ingest(numbered(SOMETHING_OF_EVERYTHING), batch=4)
    return path


def proven_cells(path: Path, table: str) -> list[tuple[str, str, bool]]:
    """The columns of a table that verify proves: name, type, and whether it may be NULL."""
    proven = PROVEN[table]
    return [cell for cell in cells(path, table) if proven is None or cell[0] in proven]


def is_found(pristine: Path, table: str, column: str, key: Any, value: Any) -> bool:
    """Whether verify finds this value in this cell of a copy of the file."""
    name = cells(pristine, table)[0][0]
    with tempfile.TemporaryDirectory(dir=FOLDERS) as folder:
        path = Path(folder) / "trust.db"
        shutil.copy(pristine, path)
        try:
            statement = f"UPDATE {table} SET {column} = ? WHERE {name} = ?"
            tamper(path, statement, values=(value, key))
        except sqlite3.IntegrityError:
            return True  # another row has this key, so that it cannot be
        return not verified(path).ok


@pytest.mark.parametrize("table", PROVEN)
def test_a_small_change_of_any_column_is_found(pristine: Path, table: str) -> None:
    """One more, one character more, or something where there was nothing, in every column."""
    (key, _, _), *_ = cells(pristine, table)
    for column, kind, _ in proven_cells(pristine, table):
        ((number, old),) = query(
            pristine, f"SELECT {key}, {column} FROM {table} ORDER BY {key} DESC LIMIT 1"
        )
        change = {"INTEGER": (old or 0) + 1 if kind == "INTEGER" else 0, "TEXT": f"{old} "}
        assert is_found(pristine, table, column, number, change.get(kind, b"\0")), column


@pytest.mark.parametrize("table", PROVEN)
@settings(some_examples)
@given(data=st.data())
def test_no_cell_changes_unseen(pristine: Path, table: str, data: st.DataObject) -> None:
    """Any other value in any cell of a table is found, and never ends the verification early."""
    (key, _, _), *_ = cells(pristine, table)
    column, kind, optional = data.draw(st.sampled_from(proven_cells(pristine, table)))
    rows = query(pristine, f"SELECT {key}, {column} FROM {table}")
    number, old = data.draw(st.sampled_from(rows))
    new = data.draw(_values(kind, old, optional=optional).filter(lambda value: value != old))
    assert is_found(pristine, table, column, number, new)


def _values(kind: str, old: Any, *, optional: bool) -> st.SearchStrategy[Any]:
    values: dict[str, st.SearchStrategy[Any]] = {
        "INTEGER": st.sampled_from((-1, 1)).map(lambda by: (old or 0) + by)
        | st.integers(-(2**63), 2**63 - 1),
        "TEXT": st.text(max_size=20) | st.just(f"{old} "),
        "BLOB": st.binary(max_size=40),
    }
    return st.none() | values[kind] if optional else values[kind]
