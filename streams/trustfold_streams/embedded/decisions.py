"""The table `decisions`: verdicts recorded before they are given, chained as facts are.

What is decided is the law's; here is only which row answers a question that was asked before.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Final

import msgspec

from trustfold_projections.laws.policy.hindsight import ASKED_AGAIN_WITHIN
from trustfold_schemas.decisions import Action, Decision, ReasonCode, Verdict
from trustfold_schemas.errors import UnknownNameError
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.errors import StoreDamagedError

COLUMNS = (
    "position, recorded, decision_id, scope, tool, effect, trace_id, step_id, args_fingerprint, "
    "said, verdict, would_be, reason, stale, owed_to, grounds"
)
_INSERT = f"INSERT INTO decisions ({COLUMNS}, chain) VALUES ({', '.join('?' * 17)})"

HEAD: Final = "decisions"
"""The name in `meta` of the chain of the last decision: a log that was cut off lacks it."""
_NOTE = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"

_VERDICT = msgspec.json.Decoder(Verdict)
_OUT = msgspec.json.Encoder()


def insert(connection: sqlite3.Connection, decision: Decision, before: bytes) -> None:
    """Write a decision at the end of its log, behind the chain `before`, and note the new head."""
    row = _row(decision)
    chain = chained(before, row)
    connection.execute(_INSERT, (*row, chain))
    connection.execute(_NOTE, (HEAD, chain))


def last(connection: sqlite3.Connection) -> tuple[int, int, bytes]:
    """Position, recorded moment and chain of the last decision; zeros if there is none."""
    row = connection.execute(
        "SELECT position, recorded, chain FROM decisions ORDER BY position DESC LIMIT 1"
    ).fetchone()
    return row or (0, 0, rows.GENESIS)


def noted_head(connection: sqlite3.Connection) -> object:
    """The chain of the last decision as it was noted beside the log."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (HEAD,)).fetchone()
    return rows.GENESIS if row is None else row[0]


def asked_before(connection: sqlite3.Connection, action: Action, now: int) -> Decision | None:
    """The latest decision on the same trace, step, subject and fingerprint within a day."""
    return _one(
        connection,
        "trace_id = ? AND step_id = ? AND (scope, tool, effect) = (?, ?, ?) "
        "AND args_fingerprint IS ? AND recorded > ? ORDER BY position DESC LIMIT 1",
        (
            action.trace_id,
            action.step_id,
            *action.subject,
            action.args_fingerprint,
            now - ASKED_AGAIN_WITHIN,
        ),
    )


def spot_check_owed(
    connection: sqlite3.Connection, action: Action, last_grant_at: int | None, now: int
) -> str | None:
    """The spot check of the action's trace and subject, of the last day, that no grant answered.

    Asking again as another step, or with other arguments, does not get round it.
    """
    row = connection.execute(
        "SELECT decision_id, recorded FROM decisions WHERE trace_id = ? "
        "AND (scope, tool, effect) = (?, ?, ?) AND reason = ? AND recorded > ? "
        "ORDER BY position DESC LIMIT 1",
        (action.trace_id, *action.subject, ReasonCode.SPOT_CHECK, now - ASKED_AGAIN_WITHIN),
    ).fetchone()
    if row is None or (last_grant_at is not None and last_grant_at > row[1]):
        return None
    return str(row[0])


def read_decision(connection: sqlite3.Connection, decision_id: str) -> Decision:
    """One decision. Raises UnknownNameError, StoreDamagedError where it may have been cut off."""
    decision = _one(connection, "decision_id = ?", (decision_id,))
    if decision is None:
        if last(connection)[2] != noted_head(connection):
            raise StoreDamagedError(
                f"no decision is named {decision_id!r}, and the last decisions were cut off the "
                "log: it does not end at the head that was noted beside it; `trustfold verify` "
                "says what else differs"
            )
        raise UnknownNameError(f"no decision is named {decision_id!r}")
    return decision


def of_subject(connection: sqlite3.Connection, subject: Subject) -> Iterator[Decision]:
    """A subject's decisions, in log order."""
    return _some(connection, "(scope, tool, effect) = (?, ?, ?) ORDER BY position", subject)


def by_subject(connection: sqlite3.Connection) -> Iterator[tuple[Subject, Decision]]:
    """Every decision that can be read, those of a subject together and in log order."""
    for row in connection.execute(
        f"SELECT {COLUMNS} FROM decisions ORDER BY tool, effect, scope, position"
    ):
        with contextlib.suppress(StoreDamagedError):
            decision = _decision_of(row)
            yield decision.action.subject, decision


def of_trace(connection: sqlite3.Connection, trace_id: str) -> Iterator[Decision]:
    """A trace's decisions, in log order."""
    return _some(connection, "trace_id = ? ORDER BY position", (trace_id,))


def chain_of(connection: sqlite3.Connection) -> Iterator[tuple[str, bool, bytes]]:
    """Every decision's id in log order, whether its row is as it was written, and its chain."""
    before, place = rows.GENESIS, 0
    for *row, chain in connection.execute(
        f"SELECT {COLUMNS}, chain FROM decisions ORDER BY position"
    ):
        place += 1
        yield str(row[2]), row[0] == place and chained(before, tuple(row)) == chain, chain
        before, place = chain, row[0]


def is_sound(connection: sqlite3.Connection, position: int) -> bool:
    """Whether a decision's row, and the chain before it, are as they were written."""
    before = rows.GENESIS if position == 1 else None
    for *row, chain in connection.execute(
        f"SELECT {COLUMNS}, chain FROM decisions WHERE position IN (?, ?) ORDER BY position",
        (position - 1, position),
    ):
        if row[0] == position:
            return before is not None and chained(before, tuple(row)) == chain
        before = chain
    return False


def chained(before: bytes, row: rows.Row) -> bytes:
    """The chain after a decision: SHA-256 over the chain before and the decision's columns."""
    return hashlib.sha256(b"%b%b" % (before, _OUT.encode(row))).digest()


def _row(decision: Decision) -> rows.Row:
    action, verdict = decision.action, decision.verdict
    return (
        decision.position,
        decision.recorded,
        decision.decision_id,
        *action.subject,
        action.trace_id,
        action.step_id,
        action.args_fingerprint,
        action.reversibility,
        verdict.verdict,
        verdict.would_be,
        verdict.reason.value,
        decision.stale,
        decision.owed_to,
        _OUT.encode(verdict).decode(),
    )


def _some(connection: sqlite3.Connection, where: str, values: rows.Row) -> Iterator[Decision]:
    for row in connection.execute(f"SELECT {COLUMNS} FROM decisions WHERE {where}", values):
        yield _decision_of(row)


def _one(connection: sqlite3.Connection, where: str, values: rows.Row) -> Decision | None:
    return next(_some(connection, where, values), None)


def _decision_of(row: rows.Row) -> Decision:
    """A decision from its COLUMNS. Raises StoreDamagedError where it is none any more."""
    (position, recorded, decision_id, scope, tool, effect, trace_id, step_id) = row[:8]
    fingerprint, said, _, _, _, stale, owed_to, grounds = row[8:]
    try:
        verdict = _VERDICT.decode(grounds)
    except msgspec.MsgspecError as error:
        raise StoreDamagedError(
            f"the decision {decision_id} is damaged: its grounds cannot be read: {error}"
        ) from error
    subject = Subject(scope, tool, effect)
    return Decision(
        decision_id=decision_id,
        recorded=recorded,
        position=position,
        action=Action(subject, said, trace_id, step_id, fingerprint),
        verdict=verdict,
        stale=stale,
        owed_to=owed_to,
    )
