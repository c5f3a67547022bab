"""What an auditor does with a store: follow a score to its facts, and repair the tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from msgspec import Struct

from trustfold_projections.laws.correlation import Key, TraceState
from trustfold_projections.laws.correlation.abandoned import CLOSE_EXPECTED
from trustfold_projections.laws.explanation import without_event, without_trace
from trustfold_projections.laws.fold import refold
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import CallerError, TrustCorruptionError
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.memory import (
    HeldSubject,
    entries_of,
    last_position,
    load_key,
    load_medians,
    open_score,
)
from trustfold_streams.embedded.reader import head_of, load_subjects
from trustfold_streams.embedded.writer import score_row, trace_row, write_scores, write_traces


class UnknownNameError(CallerError):
    """Nothing in the log has this name."""


class Pending(Struct, frozen=True, kw_only=True):
    """A trace that is not finished. Instants in microseconds since 1970, `age` in microseconds.

    `reason` is trace_never_closed for feedback whose trace did not close within 7 days.
    """

    trace_id: str
    scope: str | None
    steps: int
    step_count: int | None
    feedback: int
    first_recorded: int
    last_recorded: int
    age: int
    waits_for: str
    reason: Reason | None


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
            waits_for="its close" if closed is None else f"{step_count - steps} more steps",
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
    return list(entries_of(connection, subject, head_of(connection, row[0]), named=True))


def read_facts(connection: sqlite3.Connection, key: Key) -> list[Fact]:
    """All facts of a correlation key, in log order."""
    return [fact for fact, found in _facts(connection, rows.key_hash(key)) if found == key]


def _facts(connection: sqlite3.Connection, hashed: int) -> Iterator[tuple[Fact, Key]]:
    for row in connection.execute(
        f"SELECT {rows.FACT_COLUMNS} FROM facts WHERE key_hash = ? ORDER BY recorded", (hashed,)
    ):
        fact = rows.fact_of(row)
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
        for (hashed,) in connection.execute(
            "SELECT key_hash FROM facts WHERE instr(body, ?1) AND json_extract(body, '$.id') = ?1",
            (name,),
        )
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
    """Rewrite wrong scores from the ledger and wrong trace summaries from the facts.

    Facts and ledger are never touched. Call inside a transaction. The subjects and the number
    of trace summaries that were rewritten.
    """
    subjects = load_subjects(connection)
    rewritten: list[HeldSubject] = []
    for number, subject in subjects.items():
        head = last_position(connection, number)
        if head is None:
            connection.execute("DELETE FROM scores WHERE subject_id = ?", (number,))
            continue
        state = refold(subject, entries_of(connection, subject, head))
        if _stored(connection, number, subject) != (state, head):
            rewritten.append(HeldSubject(number, state, head))
    marks = ", ".join(str(int(number)) for number in subjects)
    connection.execute(f"DELETE FROM scores WHERE subject_id NOT IN ({marks})")
    write_scores(connection, [score_row(held) for held in rewritten])
    return [held.state.subject for held in rewritten], _repair_traces(connection)


def _stored(connection: sqlite3.Connection, number: int, subject: Subject) -> object:
    row = connection.execute(
        "SELECT content, beside, digest, checksum FROM scores WHERE subject_id = ?", (number,)
    ).fetchone()
    try:
        return None if row is None else open_score(row, subject)
    except TrustCorruptionError:
        return None


def _repair_traces(connection: sqlite3.Connection) -> int:
    medians = load_medians(connection)
    seen: set[int] = set()
    repaired = 0
    expected: list[rows.Row] = []
    for (hashed,) in connection.execute("SELECT DISTINCT key_hash FROM facts").fetchall():
        for key in dict.fromkeys(key for _, key in _facts(connection, hashed)):
            if key.kind != "trace":
                continue
            held = load_key(connection, key, medians)
            assert isinstance(held.state, TraceState)
            row = trace_row(held, held.state)
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
