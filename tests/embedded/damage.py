"""A store that holds something of every column, to be damaged; and what it was before."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.embedded.documents import SHELL, closed, decided, numbered, step, undone
from tests.embedded.feeding import digests
from tests.embedded.tampering import SOMETHING_OF_EVERYTHING, tamper
from tests.oracles.histories import RECORDED_FROM
from trustfold_schemas.errors import TrustfoldError
from trustfold_schemas.facts import Stamp
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.database import Mode, layout
from trustfold_streams.embedded.verify import Report

TABLES = ("facts", "subjects", "ledger", "scores", "traces", "dead_letters", "meta")
LATER = RECORDED_FROM + 1_000_000

ANN = Stamp("human", "ann", ("", "team"))
ROBOT = Stamp("runtime", "robot", ("", "team"))

Rows = Mapping[str, list[tuple[Any, ...]]]


class Column(NamedTuple):
    """A column of a table, the column that names its rows, and its type."""

    table: str
    name: str
    key: str
    kind: str

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


def columns_of(*tables: str) -> list[Column]:
    """Every column of these tables, as the layout has them."""
    with closing(sqlite3.connect(":memory:")) as empty:
        found = []
        for table in tables:
            empty.execute(layout()["table", table])
            described = empty.execute(f"PRAGMA table_info({table})").fetchall()
            key = next(name for _, name, _, _, _, is_key in described if is_key)
            found += [Column(table, name, key, kind) for _, name, kind, *_ in described]
        return found


def full_store(path: Path) -> None:
    """Write a store in which every column of every table holds a value somewhere."""
    clock = ManualClock(RECORDED_FROM)
    with EmbeddedStore.open(path, clock=clock) as store:
        store.ingest(numbered(SOMETHING_OF_EVERYTHING), batch=4)
        said = [decided("t2", "denied"), decided("t9", subjects=[SHELL])]
        store.ingest(numbered(said, "ann"), ANN)
        said = [
            closed("t4", step("a"), step("b", SHELL, "error"), violations=[{"law": 1}]),
            undone("t4"),
            closed("t5", step("a"), step_count=2),
        ]
        store.ingest(numbered(said, "robot"), ROBOT)
        (letter,) = [one for one in store.dead_letters() if one.stamp == ROBOT]
        assert store.replay(letter, stamp=ANN).counted == "accepted"
        clock.moment = LATER
        store.states_as_of(LATER)


def open_store(path: Path, mode: Mode = "write") -> EmbeddedStore:
    """Open a store at a moment after all of it."""
    return EmbeddedStore.open(path, mode, clock=ManualClock(LATER))


def contents(path: Path) -> Rows:
    """All rows of the tables, by table."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
            for table in TABLES
        }


def content_digests(path: Path) -> dict[Subject, str]:
    """The content digests of a store without corrupt records."""
    with open_store(path) as store:
        return digests(store.states())


def report_on(path: Path) -> Report:
    """What verify says of a file."""
    with open_store(path, "read") as store:
        return store.verify()


def is_noticed(path: Path, mode: Mode) -> bool:
    """Whether opening, verifying or counting says that something is wrong, in our own words."""
    error: TrustfoldError | None = None
    report = Report()
    try:
        with open_store(path, mode) as store:
            report = store.verify()
            store.status()
    except TrustfoldError as raised:
        error = raised
    assert report.ok == (not report.findings)
    if error is None:
        return not report.ok
    assert str(path) in str(error) or "damaged" in str(error), error
    return True


def proofs(report: Report) -> set[str]:
    """The proofs that are broken."""
    return {finding.proof for finding in report.findings}


def changed(column: Column, old: Any) -> Any:
    """Another value in a cell: the next number, one other character, one other byte."""
    if old is None or old == "":
        return {"INTEGER": 1, "TEXT": "x", "BLOB": b"x"}[column.kind]
    if isinstance(old, int):
        return old + 1
    middle = len(old) // 2
    if isinstance(old, bytes):
        return old[:middle] + bytes((old[middle] ^ 1,)) + old[middle + 1 :]
    return old[:middle] + chr(ord(old[middle]) ^ 1) + old[middle + 1 :]


def some_rows(rows: Rows, column: Column) -> list[tuple[Any, Any]]:
    """Keys and values of a few rows: first and last, first with and first without a value."""
    described = [one.name for one in columns_of(column.table)]
    at, key = described.index(column.name), described.index(column.key)
    cells = [(row[key], row[at]) for row in rows[column.table]]
    full = [cell for cell in cells if cell[1] is not None]
    empty = [cell for cell in cells if cell[1] is None]
    assert full, f"no row has a value in {column}"
    return list(dict.fromkeys((cells[0], full[0], *empty[:1], full[-1], cells[-1])))


def damaged_copy(
    sound: Path, folder: Path, column: Column, key: Any, new: Any, number: int = 0
) -> Path:
    """A copy of a store in which one cell holds another value."""
    path = folder / f"damaged{number}.db"
    shutil.copy(sound, path)
    statement = f"UPDATE {column.table} SET {column.name} = ? WHERE {column.key} = ?"
    try:
        tamper(path, statement, values=(new, key))
    except sqlite3.IntegrityError:  # the next number is another row's
        tamper(path, statement, values=(new + 1_000_000, key))
    return path
