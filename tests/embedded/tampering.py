"""Changes a store's file behind its back, as somebody with write access and SQL could."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.embedded.documents import (
    NOTES,
    SHELL,
    closed,
    decided,
    lifted,
    median,
    played,
    recorded_step,
    rolled_back,
    step,
    synthesized,
    undone,
)
from tests.embedded.feeding import NOBODY_HELD
from tests.oracles.histories import RECORDED_FROM
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.verify import Report

SOMETHING_OF_EVERYTHING = (
    median(),
    recorded_step("t1", step("stray", SHELL)),
    closed("t1", step("a"), step("b", SHELL), cost_usd=0.01),
    decided("t1", step_ids=["a"]),
    closed("t2", step("a"), scope="team"),
    undone("t2"),
    b"no event",
    synthesized("alpha"),
    played("alpha", "beta"),
    recorded_step("t3", step()),
    decided("t3", "denied"),
    rolled_back(NOTES, RECORDED_FROM + 2),
    rolled_back(SHELL, RECORDED_FROM, "r2"),
    lifted(SHELL, "r2"),
    decided("t1", "denied"),
)
"""A history with every kind of entry, an open trace, a dead letter and two rollbacks."""


PROOFS = {"file", "facts", "ledger", "traces", "table", "dead letters"}


def tamper(path: Path, *statements: str, values: Sequence[Any] = ()) -> None:
    """Run statements on the file after dropping every trigger that would refuse them."""
    with contextlib.closing(sqlite3.connect(path, timeout=NOBODY_HELD)) as connection, connection:
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            changed = connection.execute(statement, values if "?" in statement else ())
            assert changed.rowcount != 0, f"{statement} changes nothing"


def cells(path: Path, table: str) -> list[tuple[str, str, bool]]:
    """The columns of a table: name, type, and whether it may be NULL."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
    return [(name, kind, not (required or key)) for _, name, kind, required, _, key in rows]


def verified(path: Path, anchor: str | None = None) -> Report:
    """The report on a file; every finding says where and what."""
    with EmbeddedStore.open(path, "read") as store:
        report = store.verify(anchor)
    for finding in report.findings:
        assert finding.proof in PROOFS
        assert finding.where
        assert finding.difference
    return report


def found(report: Report) -> set[str]:
    """The proofs that are broken."""
    assert report.ok == (not report.findings)
    return {finding.proof for finding in report.findings}
