"""Every subject's state, folded from the ledger as it stands in one pass: for proofs and repairs.

Goes by the entries' own subject and position, so a broken `prev` leaves nothing out.
"""

from __future__ import annotations

import contextlib
import sqlite3

from msgspec import Struct

from trustfold_projections.laws.fold import fold, rollbacks_in_force
from trustfold_schemas.findings import UNREADABLE
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.errors import StoreDamagedError
from trustfold_streams.embedded.findings import Report


class Folded(Struct):
    """What a subject's entries come to; `head` is its last one's position.

    Not `whole` where an entry could not be read: the state is then without it.
    """

    state: State
    head: int
    whole: bool = True


def fold_ledger(
    connection: sqlite3.Connection, subjects: dict[int, Subject], report: Report
) -> dict[int, Folded]:
    """Fold the ledger, by number of subject; what cannot be read or is of no subject is named."""
    columns = f"SELECT subject_id, position, {rows.ENTRY_COLUMNS} FROM ledger"
    rolled_back: dict[int, list[Entry]] = {}
    for number, _, *row in connection.execute(
        f"{columns} WHERE rollback_id IS NOT NULL ORDER BY position"
    ):
        # What cannot be read is named below, where every entry comes by.
        with contextlib.suppress(StoreDamagedError):
            if number in subjects:
                entry = rows.entry_of(tuple(row), subjects[number])
                rolled_back.setdefault(number, []).append(entry)
    made: dict[int, Folded] = {}
    for number, position, *row in connection.execute(f"{columns} ORDER BY position"):
        subject = subjects.get(number)
        if subject is None:
            report.found("ledger", f"entry {position}", f"belongs to no subject: {number}")
            continue
        folded = made.get(number)
        if folded is None:
            rollbacks = rollbacks_in_force(rolled_back.get(number, ()))
            folded = made[number] = Folded(State(subject=subject, rollbacks=rollbacks), position)
        folded.head = position
        try:
            if not fold(folded.state, rows.entry_of(tuple(row), subject)):
                folded.state.version += 1
        except UNREADABLE as error:
            folded.whole = False
            report.unreadable("ledger", f"entry {position}", error)
    return made
