"""The table of dead letters: writing them, listing them, taking them in after all."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from trustfold_projections.laws.correlation import Refusal
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.facts import Stamp
from trustfold_schemas.stored_dead_letters import StoredDeadLetter
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.errors import StoreDamagedError

INSERT = (
    "INSERT INTO dead_letters (reason, detail, origin, first_recorded, last_recorded, times, "
    "role, identity, scopes, body, body_sha256, seal) "
    "VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (body_sha256, reason) DO UPDATE SET times = times + 1, "
    "last_recorded = excluded.last_recorded, origin = excluded.origin, detail = excluded.detail"
)
_COLUMNS = (
    "dead_letter_id, reason, detail, origin, first_recorded, last_recorded, times, role, "
    "identity, scopes, body, replayed, replayed_as"
)


def dead_letter_row(
    refusal: Refusal, origin: str, moment: int, stamp: Stamp, body: bytes
) -> rows.Row:
    """A refusal as the parameters of INSERT."""
    publisher = (stamp.role, stamp.identity, rows.scopes_text(stamp))
    return (
        refusal.reason.value,
        refusal.detail,
        origin,
        moment,
        moment,
        *publisher,
        body,
        hashlib.sha256(body).digest(),
        seal_of(refusal.reason.value, *publisher, body),
    )


def seal_of(reason: str, role: str, identity: str | None, scopes: str | None, body: bytes) -> bytes:
    """SHA-256 over what a replay speaks with: the publisher's stamp, the reason, the bytes."""
    head = msgspec.json.encode((reason, role, identity, scopes))
    return hashlib.sha256(b"%b\n%b" % (head, body)).digest()


def write(connection: sqlite3.Connection, refused: Iterable[rows.Row]) -> None:
    """Write dead letters; the same bytes for the same reason are one row."""
    connection.executemany(INSERT, refused)


def read(
    connection: sqlite3.Connection,
    reasons: Sequence[Reason] = (),
    *,
    replayed: bool = False,
    ids: Sequence[int] = (),
) -> list[StoredDeadLetter]:
    """The dead letters, oldest first; those that were replayed only on request or by id."""
    where: list[str] = ["1"]
    values: list[str] = []
    if reasons:
        where.append(f"reason IN ({', '.join('?' * len(reasons))})")
        values += [reason.value for reason in reasons]
    if ids:
        where.append(f"dead_letter_id IN ({', '.join('?' * len(ids))})")
        values += [str(number) for number in ids]
    elif not replayed:
        where.append("replayed IS NULL")
    return [
        _letter(row)
        for row in connection.execute(
            f"SELECT {_COLUMNS} FROM dead_letters WHERE {' AND '.join(where)} "
            "ORDER BY dead_letter_id",
            values,
        )
    ]


def mark_replayed(connection: sqlite3.Connection, number: int, moment: int, event_id: str) -> None:
    """Note that a dead letter was taken in after all."""
    connection.execute(
        "UPDATE dead_letters SET replayed = ?, replayed_as = ? WHERE dead_letter_id = ?",
        (moment, event_id, number),
    )


def _letter(row: rows.Row) -> StoredDeadLetter:
    number, reason, detail, origin, first, last, times, *stamp, body, replayed, name = row
    try:
        for moment in (first, last, replayed):
            rows.check_moment(moment)
        return StoredDeadLetter(
            dead_letter_id=number,
            reason=Reason(reason),
            detail=detail,
            origin=origin,
            first_recorded=first,
            last_recorded=last,
            times=times,
            stamp=rows.stamp_of(*stamp),
            body=body,
            replayed=replayed,
            replayed_as=name,
        )
    except (ValueError, msgspec.MsgspecError) as error:
        raise StoreDamagedError(f"dead letter {number} is damaged: {error}") from error
