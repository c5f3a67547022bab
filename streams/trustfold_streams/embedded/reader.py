"""Reading a store: the table as it is, the table as of a moment, and what there is to know."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator

from trustfold_projections.laws.fold import fold, refold_as_of, rollbacks_in_force
from trustfold_schemas.errors import NotSettledError, TrustCorruptionError
from trustfold_schemas.instants import format_instant
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import Corrupt, State
from trustfold_schemas.status import Status
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.database import snapshot, transaction
from trustfold_streams.embedded.errors import StoreDamagedError
from trustfold_streams.embedded.memory import (
    SCORE_COLUMNS,
    broken_history,
    entries_of,
    last_position,
    open_score,
    settled_beyond,
)

log = logging.getLogger("trustfold.embedded")


def read_state(connection: sqlite3.Connection, subject: Subject) -> State | None:
    """The state of one subject from the table; None if nothing ever touched it.

    Raises TrustCorruptionError for a corrupt record, after a critical log line.
    """
    row = connection.execute(
        f"SELECT {SCORE_COLUMNS} FROM subjects "
        "LEFT JOIN scores USING (subject_id) WHERE scope = ? AND tool = ? AND effect = ?",
        subject,
    ).fetchone()
    if row is None:
        return None
    try:
        return open_score(row, subject)[0]
    except TrustCorruptionError as error:
        log.critical("no trust: %s", error)
        raise


def read_states(connection: sqlite3.Connection) -> Iterator[State | Corrupt]:
    """The whole table, in the order of subjects; a corrupt record is named, never used."""
    for scope, tool, effect, *columns in connection.execute(
        f"SELECT scope, tool, effect, {SCORE_COLUMNS} FROM subjects "
        "LEFT JOIN scores USING (subject_id) ORDER BY scope, tool, effect"
    ):
        subject = Subject(scope, tool, effect)
        try:
            yield open_score(tuple(columns), subject)[0]
        except TrustCorruptionError as error:
            log.critical("no trust: %s", error)
            yield Corrupt(subject, str(error))


def state_as_of(connection: sqlite3.Connection, subject: Subject, moment: int) -> State | None:
    """One subject's state from the entries recorded at or before a moment, or None."""
    with snapshot(connection):
        row = connection.execute(
            "SELECT subject_id FROM subjects WHERE scope = ? AND tool = ? AND effect = ?", subject
        ).fetchone()
        if row is None:
            return None
        state = refold_as_of(subject, history_of(connection, row[0], subject), moment)
    return state if state.version else None


def history_of(
    connection: sqlite3.Connection, subject_id: int, subject: Subject, *, named: bool = False
) -> list[Entry]:
    """A subject's entries in log order, as many as its record says.

    Back from its latest entry, which the record names, or else by reading the whole ledger. Raises
    StoreDamagedError where entries are missing.
    """
    row = connection.execute(
        f"SELECT {SCORE_COLUMNS} FROM scores WHERE subject_id = ?", (subject_id,)
    ).fetchone()
    try:
        state, head = open_score(row or (None,) * 4, subject)
        count = state.version
    except TrustCorruptionError as error:
        log.critical("reading the whole ledger: %s", error)
        head, count = last_position(connection, subject_id), None
    entries = list(entries_of(connection, subject, head, named=named))
    if count not in (None, len(entries)):
        raise broken_history(subject, f"it leads back to {len(entries)} entries of {count}")
    return entries


def states_as_of(connection: sqlite3.Connection, moment: int) -> dict[Subject, State]:
    """Every subject's state from the entries recorded at or before a moment, in one pass."""
    with snapshot(connection):
        subjects = load_subjects(connection)
        states: dict[Subject, State] = {}
        rolled_back = _rollbacks(connection, subjects, moment)
        for row in connection.execute(
            f"SELECT subject_id, {rows.ENTRY_COLUMNS} FROM ledger "
            "WHERE recorded <= ? ORDER BY position",
            (moment,),
        ):
            subject = _subject_of(subjects, row[0])
            state = states.get(subject)
            if state is None:
                state = states[subject] = State(
                    subject=subject, rollbacks=rollbacks_in_force(rolled_back.get(subject, ()))
                )
            if not fold(state, rows.entry_of(row[1:], subject)):
                state.version += 1
    return states


def _rollbacks(
    connection: sqlite3.Connection, subjects: dict[int, Subject], moment: int
) -> dict[Subject, list[Entry]]:
    """The rollback entries recorded at or before a moment, by subject."""
    found: dict[Subject, list[Entry]] = {}
    for row in connection.execute(
        f"SELECT subject_id, {rows.ENTRY_COLUMNS} FROM ledger "
        "WHERE rollback_id IS NOT NULL AND recorded <= ? ORDER BY position",
        (moment,),
    ):
        subject = _subject_of(subjects, row[0])
        found.setdefault(subject, []).append(rows.entry_of(row[1:], subject))
    return found


def _subject_of(subjects: dict[int, Subject], number: int) -> Subject:
    subject = subjects.get(number)
    if subject is None:
        raise StoreDamagedError(
            f"the table subjects is damaged: the ledger speaks of number {number}, which it does "
            "not hold; `trustfold verify` names every such row"
        )
    return subject


def load_subjects(connection: sqlite3.Connection) -> dict[int, Subject]:
    """All subjects by their number."""
    return {
        number: Subject(scope, tool, effect)
        for number, scope, tool, effect in connection.execute("SELECT * FROM subjects")
    }


def last_recorded(connection: sqlite3.Connection) -> int | None:
    """The moment of the last fact."""
    (moment,) = connection.execute("SELECT max(recorded) FROM facts").fetchone()
    rows.check_moment(moment)
    return None if moment is None else int(moment)


def settled_up_to(connection: sqlite3.Connection) -> int:
    """The moment at or before which nothing will be recorded any more."""
    return max(last_recorded(connection) or 0, settled_beyond(connection))


def settle(connection: sqlite3.Connection, moment: int, now: int, *, writable: bool) -> None:
    """Make sure that nothing will be recorded at or before a moment any more.

    Up to the last fact that is so already. Beyond it, a writable store is told to record later;
    one opened for reading refuses, and so does any for a moment that has not come.
    """
    if moment > now:
        raise NotSettledError(
            f"{format_instant(moment)} has not come: it is {format_instant(now)} by this clock"
        )
    reach = settled_up_to(connection)
    if moment <= reach:
        return
    if not writable:
        raise NotSettledError(
            f"the log has settled up to {format_instant(reach)}; ask as of that moment or "
            "before, or open the store for writing"
        )
    with transaction(connection):
        connection.execute(
            "INSERT INTO meta VALUES ('settled', ?) ON CONFLICT (name) DO UPDATE "
            "SET value = max(value, excluded.value)",
            (moment,),
        )


def read_status(connection: sqlite3.Connection, path: str, now: int) -> Status:
    """Count what the store holds."""

    def one(query: str) -> int:
        return int(connection.execute(query).fetchone()[0])

    with snapshot(connection):
        first, last = connection.execute(
            "SELECT (SELECT min(recorded) FROM facts), (SELECT max(recorded) FROM facts)"
        ).fetchone()
        head = connection.execute(
            "SELECT chain FROM facts ORDER BY recorded DESC LIMIT 1"
        ).fetchone()
        for moment in (first, last):
            rows.check_moment(moment)
        return Status(
            path=path,
            layout=one("PRAGMA user_version"),
            bytes=one("PRAGMA page_count") * one("PRAGMA page_size"),
            facts=one("SELECT count(*) FROM facts"),
            entries=one("SELECT count(*) FROM ledger"),
            subjects=one("SELECT count(*) FROM subjects"),
            traces=one("SELECT count(*) FROM traces"),
            traces_open=one("SELECT count(*) FROM traces WHERE folded IS NULL"),
            first_recorded=first,
            last_recorded=last,
            head=bytes(head[0] if head else rows.GENESIS).hex(),
            facts_by_type=dict(
                connection.execute("SELECT type, count(*) FROM facts GROUP BY type ORDER BY type")
            ),
            dead_letters_by_reason=dict(
                connection.execute(
                    "SELECT reason, count(*) FROM dead_letters GROUP BY reason ORDER BY reason"
                )
            ),
            clock_behind_seconds=max(0, (last or 0) - now) / 1_000_000,
        )
