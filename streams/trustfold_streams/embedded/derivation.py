"""The second proof of a verification: ledger and trace summaries derived again from the facts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from trustfold_projections.laws.correlation import Key, TraceState, correlate
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.findings import Report, difference, moment_named
from trustfold_streams.embedded.memory import HeldKey, Recent, load_key, note
from trustfold_streams.embedded.writer import trace_row

KEYS_MAX = 50_000

_ENTRY_NAMES = ("position", "subject_id", "prev", *rows.ENTRY_COLUMNS.split(", "))
_TRACE_NAMES = (
    "first_recorded",
    "last_recorded",
    "trace_id",
    "scope",
    "outcome",
    "steps",
    "step_count",
    "feedback",
    "facts",
    "closed",
    "folded",
    "excluded",
)


class Derivation:
    """Re-derives entries and trace summaries fact by fact, and holds them against the tables."""

    def __init__(
        self, connection: sqlite3.Connection, subjects: dict[int, Subject], report: Report
    ) -> None:
        self._connection = connection
        self._report = report
        self._numbers = {subject: number for number, subject in subjects.items()}
        self._heads: dict[Subject, int] = {}
        self._medians = MedianTable()
        self._keys: Recent[Key, HeldKey] = Recent(KEYS_MAX)
        self._summaries: dict[int, rows.Row] = {}
        self._position = 0
        self._stored = self._read_ledger()
        self._next = next(self._stored, None)

    def _read_ledger(self) -> Iterator[rows.Row]:
        for row in self._connection.execute(
            f"SELECT position, subject_id, prev, {rows.ENTRY_COLUMNS} FROM ledger ORDER BY position"
        ):
            if isinstance(row[3], int):
                yield row
            else:
                self._report.found("ledger", f"entry {row[0]}", f"recorded is {row[3]!r}")

    def take(self, key: Key, fact: Fact) -> None:
        """Take one fact through correlation; its entries must be the next of the ledger."""
        held = self._keys.get(key)
        if held is None:
            # Earlier facts that cannot be read have been named; the rest still says something.
            held = self._keys.put(
                key,
                load_key(
                    self._connection, key, self._medians, before=fact.recorded, skip_unreadable=True
                ),
            )
        state = held.known(self._medians)
        outcome = correlate(state, fact, self._medians)
        if not outcome.remembered:
            self._report.found(
                "ledger",
                f"fact {moment_named(fact.recorded)}",
                "stands in the log, but the facts before it refuse it: "
                + ("a duplicate" if not outcome.refusals else outcome.refusals[0].detail),
            )
        note(held, fact.recorded)
        self._keys.trim()
        if isinstance(state, TraceState):
            assert held.first_recorded is not None
            self._summaries[held.first_recorded] = trace_row(held)
        for entry in outcome.entries:
            self._compare(entry)

    def _compare(self, entry: Entry) -> None:
        self._position += 1
        self._report.entries += 1
        head = self._heads.get(entry.subject)
        number = self._numbers.get(entry.subject)
        expected = (self._position, number, head, *rows.entry_values(entry))
        self._heads[entry.subject] = self._position
        stored = self._next
        # Keep in step by recorded moment, so that one missing entry is one finding.
        while stored is not None and stored[3] < entry.recorded:
            self._surplus(stored)
            stored = self._advance()
        if stored is None or stored[3] > entry.recorded:
            self._report.found(
                "ledger",
                f"entry {entry.entry_id}",
                f"the facts derive it at {moment_named(entry.recorded)}, the ledger lacks it",
            )
            return
        if stored != expected:
            self._report.found(
                "ledger",
                f"entry {stored[0]} ({entry.entry_id})",
                difference(stored, expected, _ENTRY_NAMES),
            )
        self._advance()

    def _advance(self) -> rows.Row | None:
        self._next = next(self._stored, None)
        return self._next

    def _surplus(self, stored: rows.Row) -> None:
        self._report.found(
            "ledger",
            f"entry {stored[0]}",
            f"recorded {moment_named(stored[3])}: no fact derives it",
        )

    def finish(self) -> None:
        """Name what the ledger holds beyond the facts, and compare the summaries of traces."""
        while self._next is not None:
            self._surplus(self._next)
            self._advance()
        for row in self._connection.execute("SELECT * FROM traces ORDER BY first_recorded"):
            self._report.traces += 1
            expected = self._summaries.pop(row[0], None)
            if row != expected:
                self._report.found(
                    "traces",
                    f"trace {row[2]}",
                    "no fact begins it"
                    if expected is None
                    else difference(row, expected, _TRACE_NAMES),
                )
        for expected in self._summaries.values():
            self._report.found("traces", f"trace {expected[2]}", "the table lacks it")
