"""What an auditor does with a store: follow a score to its facts, and repair the tables."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence

from trustfold_projections.laws.correlation import Key
from trustfold_projections.laws.correlation.abandoned import CLOSE_EXPECTED
from trustfold_projections.laws.explanation import without_event, without_trace
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import TrustCorruptionError, UnknownNameError
from trustfold_schemas.facts import Fact
from trustfold_schemas.findings import UNREADABLE
from trustfold_schemas.ledger import Entry
from trustfold_schemas.pending import Pending
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows, thresholds
from trustfold_streams.embedded.database import any_text
from trustfold_streams.embedded.errors import StoreDamagedError
from trustfold_streams.embedded.findings import Report
from trustfold_streams.embedded.folding import fold_ledger
from trustfold_streams.embedded.memory import (
    SCORE_COLUMNS,
    HeldSubject,
    load_key,
    load_medians,
    open_score,
)
from trustfold_streams.embedded.names import NAMED
from trustfold_streams.embedded.reader import history_of, load_subjects
from trustfold_streams.embedded.writer import score_row, trace_row, write_scores, write_traces


def read_pending(connection: sqlite3.Connection, now: int) -> list[Pending]:
    """Every trace that is not folded, the oldest first."""
    return [
        Pending(
            trace_id=trace_id,
            scope=scope,
            steps=steps,
            step_count=step_count,
            feedback=feedback,
            first_recorded=first,
            last_recorded=last,
            age=max(0, now - first),
            waits_for="its close" if closed is None else f"{(step_count or 0) - steps} more steps",
            reason=Reason.TRACE_NEVER_CLOSED
            if closed is None and feedback and now - first >= CLOSE_EXPECTED
            else None,
        )
        for trace_id, scope, steps, step_count, feedback, first, last, closed in connection.execute(
            "SELECT trace_id, scope, steps, step_count, feedback, first_recorded, last_recorded, "
            "closed FROM traces WHERE folded IS NULL ORDER BY first_recorded"
        )
    ]


def read_entries(connection: sqlite3.Connection, subject: Subject) -> list[Entry]:
    """A subject's ledger in log order, with the names of the facts that made its entries."""
    row = connection.execute(
        "SELECT subject_id FROM subjects WHERE scope = ? AND tool = ? AND effect = ?", subject
    ).fetchone()
    if row is None:
        return []
    return history_of(connection, row[0], subject, named=True)


def read_facts(connection: sqlite3.Connection, key: Key) -> list[Fact]:
    """All facts of a correlation key, in log order."""
    return [fact for fact, found in _facts(connection, rows.key_hash(key)) if found == key]


def _facts(
    connection: sqlite3.Connection, hashed: int, *, skip_unreadable: bool = False
) -> Iterator[tuple[Fact, Key]]:
    for row in connection.execute(
        f"SELECT {rows.FACT_COLUMNS} FROM facts WHERE key_hash = ? ORDER BY recorded", (hashed,)
    ):
        try:
            fact = rows.fact_of(row)
        except StoreDamagedError:
            if skip_unreadable:
                continue
            raise
        yield fact, rows.key_of_fact(fact)


def knows_trace(connection: sqlite3.Connection, trace_id: str) -> bool:
    """Whether any fact is of this trace."""
    return bool(read_facts(connection, Key("trace", trace_id)))


def entries_without(connection: sqlite3.Connection, subject: Subject, name: str) -> list[Entry]:
    """A subject's ledger had an event, or a trace, of this name never been.

    Raises UnknownNameError where nothing has the name.
    """
    entries = read_entries(connection, subject)
    if knows_trace(connection, name):
        return without_trace(entries, name)
    hashes = {
        hashed
        for (hashed,) in connection.execute(f"SELECT key_hash FROM facts WHERE {NAMED}", (name,))
    }
    if not hashes:
        raise UnknownNameError(f"no event and no trace of the log is named {name!r}")
    of_traces: dict[str, list[Fact]] = {}
    for hashed in sorted(hashes):
        for fact, key in _facts(connection, hashed):
            if key.kind == "trace":
                of_traces.setdefault(key.name, []).append(fact)
    return without_event(subject, entries, name, of_traces, load_medians(connection))


def rollback_subject(connection: sqlite3.Connection, rollback_id: str) -> Subject:
    """The subject that a rollback was of. Raises UnknownNameError."""
    row = connection.execute(
        "SELECT scope, tool, effect FROM ledger JOIN subjects USING (subject_id) "
        "WHERE rollback_id = ? AND kind = ?",
        (rollback_id, rows.KINDS["rollback"]),
    ).fetchone()
    if row is None:
        raise UnknownNameError(f"no rollback is named {rollback_id!r}")
    return Subject(*row)


def repair(connection: sqlite3.Connection) -> tuple[list[Subject], int]:
    """Rewrite wrong scores from the ledger, wrong trace summaries and thresholds from the facts.

    Facts and ledger are never touched; what rests on a row of theirs that cannot be read stays as
    it is, for `verify` to name. Call inside a transaction. The subjects, and the number of trace
    summaries and thresholds, that were rewritten.
    """
    with any_text(connection):
        summaries = _repair_traces(connection)
        with contextlib.suppress(*UNREADABLE):
            summaries += thresholds.rewrite(connection)
        return _repair_scores(connection), summaries


def _repair_scores(connection: sqlite3.Connection) -> list[Subject]:
    subjects = load_subjects(connection)
    ledger = fold_ledger(connection, subjects, Report())
    rewritten: list[Subject] = []
    for number, folded in ledger.items():
        subject = folded.state.subject
        if not folded.whole or _stored(connection, number, subject) == (folded.state, folded.head):
            continue
        with contextlib.suppress(*UNREADABLE):
            write_scores(connection, [score_row(HeldSubject(number, folded.state, folded.head))])
            rewritten.append(subject)
    surplus = [
        (number,)
        for (number,) in connection.execute("SELECT subject_id FROM scores")
        if number not in ledger
    ]
    connection.executemany("DELETE FROM scores WHERE subject_id = ?", surplus)
    return rewritten


def _stored(connection: sqlite3.Connection, number: int, subject: Subject) -> object:
    row = connection.execute(
        f"SELECT {SCORE_COLUMNS} FROM scores WHERE subject_id = ?", (number,)
    ).fetchone()
    try:
        return None if row is None else open_score(row, subject)
    except TrustCorruptionError:
        return None


def _repair_traces(connection: sqlite3.Connection) -> int:
    medians = MedianTable()  # no part of a summary
    seen: set[int] = set()
    repaired = 0
    expected: list[rows.Row] = []
    for (hashed,) in connection.execute("SELECT DISTINCT key_hash FROM facts").fetchall():
        facts = _facts(connection, hashed, skip_unreadable=True)
        for key in dict.fromkeys(key for _, key in facts):
            if key.kind != "trace":
                continue
            held = load_key(connection, key, medians, skip_unreadable=True)
            row = trace_row(held)
            seen.add(row[0])
            stored = connection.execute(
                "SELECT * FROM traces WHERE first_recorded = ?", (row[0],)
            ).fetchone()
            if stored != row:
                repaired += 1
                expected.append(row)
    surplus: Sequence[int] = [
        first
        for (first,) in connection.execute("SELECT first_recorded FROM traces")
        if first not in seen
    ]
    connection.executemany(
        "DELETE FROM traces WHERE first_recorded = ?", [(first,) for first in surplus]
    )
    write_traces(connection, expected)
    return repaired + len(surplus)
