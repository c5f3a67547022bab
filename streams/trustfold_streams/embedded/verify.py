"""The proofs of SPEC 4 on one file: facts unbroken, ledger derived from them, table folded from it.

Every difference is named; `ok` follows from the differences found.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from trustfold_projections.laws.correlation import Key, KeyState, TraceState, correlate, key_of
from trustfold_projections.laws.fold import fold, rollbacks_in_force
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused, TrustCorruptionError
from trustfold_schemas.events import type_of
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import format_instant
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State, content_json
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.database import snapshot
from trustfold_streams.embedded.memory import HeldKey, Recent, load_key, note, open_score
from trustfold_streams.embedded.reader import load_subjects
from trustfold_streams.embedded.writer import trace_row

FINDINGS_MAX = 1_000
"""More differences than this are counted, not named."""

Advance = Callable[[int], None]


class Finding(Struct, frozen=True):
    """One difference: which proof it breaks, where, and what stands against what."""

    proof: str
    where: str
    difference: str


class Report(Struct, kw_only=True):
    """The outcome of a verification."""

    facts: int = 0
    entries: int = 0
    subjects: int = 0
    traces: int = 0
    dead_letters: int = 0
    head: str = rows.GENESIS.hex()
    anchor: str | None = None
    findings: list[Finding] = msgspec.field(default_factory=list)
    findings_unnamed: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def found(self, proof: str, where: str, difference: str) -> None:
        """Add a difference."""
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(proof, where, difference))
        else:
            self.findings_unnamed += 1


def verify(
    connection: sqlite3.Connection, anchor: str | None = None, advance: Advance = lambda _: None
) -> Report:
    """Prove the file, all of it at one moment. `anchor` is a head of the chain kept elsewhere.

    `advance` is told of every fact that was checked.
    """
    report = Report(anchor=anchor)
    with snapshot(connection):
        _check_pages(connection, report)
        subjects = load_subjects(connection)
        derivation = _Derivation(connection, subjects, report)
        _check_facts(connection, derivation, report, advance)
        derivation.close()
        _check_table(connection, subjects, report)
        _check_dead_letters(connection, report)
    return report


def _check_pages(connection: sqlite3.Connection, report: Report) -> None:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            report.found("file", "SQLite's own check", line)


# ---- facts, and the ledger from them ---------------------------------------------------------


def _check_facts(
    connection: sqlite3.Connection, derivation: _Derivation, report: Report, advance: Advance
) -> None:
    """Walk the chain of facts, re-deriving the ledger on the way."""
    chain = rows.GENESIS
    anchored = report.anchor in (None, chain.hex())
    for row in connection.execute("SELECT * FROM facts ORDER BY recorded"):
        recorded, hashed, kind, role, identity, scopes, body, stored = row
        where = f"fact {format_instant(recorded)}"
        if rows.chained(chain, row) != stored:
            report.found("facts", where, "the chain breaks here: the fact or one before it differs")
        chain = stored
        anchored = anchored or report.anchor == chain.hex()
        report.facts += 1
        try:
            fact = rows.fact_of((recorded, role, identity, scopes, body))
        except (EventRefused, msgspec.MsgspecError) as error:
            report.found("facts", where, f"its body is no event any more: {error}")
            continue
        key = key_of(fact.event)
        if rows.key_hash(key) != hashed:
            report.found("facts", where, f"key_hash {hashed} is not that of {key}")
        if rows.TYPE_PREFIX + kind != type_of(fact.event):
            report.found("facts", where, f"type {kind} is not that of its body")
        derivation.take(key, fact)
        advance(report.facts)
    report.head = chain.hex()
    if not anchored:
        report.found(
            "facts",
            "the chain",
            f"the anchor {report.anchor} is no head that this log ever had: facts were cut off "
            "or changed after it was noted",
        )


class _Derivation:
    """Re-derives entries and trace summaries fact by fact, and holds them against the tables."""

    def __init__(
        self, connection: sqlite3.Connection, subjects: dict[int, Subject], report: Report
    ) -> None:
        self._connection = connection
        self._report = report
        self._numbers = {subject: number for number, subject in subjects.items()}
        self._heads: dict[Subject, int] = {}
        self._medians = MedianTable()
        self._keys: Recent[Key, HeldKey] = Recent(50_000)
        self._summaries: dict[int, rows.Row] = {}
        self._position = 0
        self._stored = self._read_ledger()
        self._next = next(self._stored, None)

    def _read_ledger(self) -> Iterator[rows.Row]:
        yield from self._connection.execute(
            f"SELECT position, subject_id, prev, {rows.ENTRY_COLUMNS} FROM ledger ORDER BY position"
        )

    def take(self, key: Key, fact: Fact) -> None:
        """Take one fact through correlation; its entries must be the next of the ledger."""
        held = self._keys.get(key)
        if held is None:
            held = self._keys.put(
                key, load_key(self._connection, key, self._medians, before=fact.recorded)
            )
        outcome = correlate(held.state, fact, self._medians)
        if not outcome.remembered:
            self._report.found(
                "ledger",
                f"fact {format_instant(fact.recorded)}",
                "stands in the log, but the facts before it refuse it: "
                + ("a duplicate" if not outcome.refusals else outcome.refusals[0].detail),
            )
        note(held, fact.recorded)
        self._keys.trim()
        if isinstance(held.state, TraceState):
            self._summarize(held, held.state)
        for entry in outcome.entries:
            self._compare(entry)

    def _summarize(self, held: HeldKey, state: KeyState) -> None:
        assert isinstance(state, TraceState)
        assert held.first_recorded is not None
        self._summaries[held.first_recorded] = trace_row(held, state)

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
            self._missing(entry)
            return
        if stored != expected:
            self._report.found(
                "ledger", f"entry {stored[0]} ({entry.entry_id})", _difference(stored, expected)
            )
        self._advance()

    def _advance(self) -> rows.Row | None:
        self._next = next(self._stored, None)
        return self._next

    def _missing(self, entry: Entry) -> None:
        self._report.found(
            "ledger",
            f"entry {entry.entry_id}",
            f"the facts derive it at {format_instant(entry.recorded)}, the ledger lacks it",
        )

    def _surplus(self, stored: rows.Row) -> None:
        self._report.found(
            "ledger",
            f"entry {stored[0]}",
            f"recorded {format_instant(stored[3])}: no fact derives it",
        )

    def close(self) -> None:
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
                    "no fact begins it" if expected is None else _trace_difference(row, expected),
                )
        for expected in self._summaries.values():
            self._report.found("traces", f"trace {expected[2]}", "the table lacks it")


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


def _difference(stored: rows.Row, expected: rows.Row, names: tuple[str, ...] = _ENTRY_NAMES) -> str:
    return "; ".join(
        f"{name} is {s!r}, the facts give {e!r}"
        for name, s, e in zip(names, stored, expected, strict=True)
        if s != e
    )


def _trace_difference(stored: rows.Row, expected: rows.Row) -> str:
    return _difference(stored, expected, _TRACE_NAMES)


# ---- the table from the ledger ---------------------------------------------------------------


def _check_table(
    connection: sqlite3.Connection, subjects: dict[int, Subject], report: Report
) -> None:
    states, heads = _fold_ledger(connection, subjects, report)
    known = connection.execute(
        "SELECT subject_id, content, beside, digest, checksum FROM scores ORDER BY subject_id"
    )
    for number, *columns in known:
        report.subjects += 1
        subject = subjects.get(number)
        if subject is None:
            report.found("table", f"score {number}", "belongs to no subject")
            continue
        where = f"score of {subject.key.decode()}"
        try:
            state, head = open_score(tuple(columns), subject)
        except (TrustCorruptionError, AttributeError) as error:
            report.found("table", where, str(error))
            states.pop(number, None)
            continue
        folded = states.pop(number, None)
        if folded is None:
            report.found("table", where, "the ledger has no entry of it")
        else:
            _compare_states(report, where, (state, head), (folded, heads[number]))
    for number in states:
        where = f"score of {subjects[number].key.decode()}"
        report.found("table", where, "the ledger has entries of it, the table lacks it")


def _fold_ledger(
    connection: sqlite3.Connection, subjects: dict[int, Subject], report: Report
) -> tuple[dict[int, State], dict[int, int]]:
    """Fold the ledger as it stands, in one pass; entries of no subject are named."""
    columns = f"SELECT subject_id, position, {rows.ENTRY_COLUMNS} FROM ledger"
    rolled_back: dict[int, list[Entry]] = {}
    for number, _, *row in connection.execute(
        f"{columns} WHERE rollback_id IS NOT NULL ORDER BY position"
    ):
        if number in subjects:
            entry = rows.entry_of(tuple(row), subjects[number])
            rolled_back.setdefault(number, []).append(entry)
    states: dict[int, State] = {}
    heads: dict[int, int] = {}
    for number, position, *row in connection.execute(f"{columns} ORDER BY position"):
        subject = subjects.get(number)
        if subject is None:
            report.found("ledger", f"entry {position}", f"belongs to no subject: {number}")
            continue
        state = states.get(number)
        if state is None:
            state = states[number] = State(
                subject=subject, rollbacks=rollbacks_in_force(rolled_back.get(number, ()))
            )
        heads[number] = position
        try:
            if not fold(state, rows.entry_of(tuple(row), subject)):
                state.version += 1
        except (KeyError, ValueError, msgspec.MsgspecError) as error:
            report.found("ledger", f"entry {position}", f"cannot be folded: {error}")
    return states, heads


def _compare_states(
    report: Report, where: str, table: tuple[State, int | None], ledger: tuple[State, int]
) -> None:
    if content_json(table[0]) != content_json(ledger[0]):
        report.found(
            "table",
            where,
            f"the table has {content_json(table[0]).decode()}, "
            f"the ledger folds to {content_json(ledger[0]).decode()}",
        )
    beside = [(state.rollbacks, state.version, head) for state, head in (table, ledger)]
    if beside[0] != beside[1]:
        report.found(
            "table",
            where,
            f"rollbacks, version and position are {beside[0]}, the ledger gives {beside[1]}",
        )


def _check_dead_letters(connection: sqlite3.Connection, report: Report) -> None:
    for number, reason, body, digest in connection.execute(
        "SELECT dead_letter_id, reason, body, body_sha256 FROM dead_letters"
    ):
        report.dead_letters += 1
        if hashlib.sha256(body).digest() != digest:
            report.found("dead letters", f"dead letter {number}", "its bytes were changed")
        if reason not in set(Reason):
            report.found("dead letters", f"dead letter {number}", f"no such reason: {reason!r}")
