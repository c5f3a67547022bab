"""All scores and the policy of a store in memory, for a policy that must answer in microseconds.

It follows the file from a connection of its own. What it cannot follow makes it stale, and then it
promotes nothing; see `policy` for what records its answers.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from trustfold_projections.laws.policy import Policy, decide
from trustfold_projections.laws.policy.standing import pack_standing, unpack_standing
from trustfold_schemas.decisions import Action, Verdict
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.events import Reversibility
from trustfold_schemas.instants import SECOND, format_instant
from trustfold_schemas.scores import Corrupt
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.embedded import reader, rows
from trustfold_streams.embedded.database import connect, snapshot, translated
from trustfold_streams.embedded.memory import SCORE_COLUMNS, open_score
from trustfold_streams.embedded.policy import HeldPolicy

log = logging.getLogger("trustfold.embedded")

STALE_SECONDS: Final = 60
"""A table that was not caught up within this time promotes nothing."""
_STALE_AFTER = STALE_SECONDS * SECOND

_QUERY = (
    f"SELECT scope, tool, effect, {SCORE_COLUMNS} FROM subjects LEFT JOIN scores USING (subject_id)"
)


class PolicyTable:
    """A table of packed standings that answers peeks; one thread may refresh it, any may ask.

    Make it with `open`, which loads everything; `refresh` reads only what has changed.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, clock: Clock) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._packed: dict[bytes, bytes] = {}
        self._corrupt: dict[bytes, Corrupt] = {}
        self._held = HeldPolicy()
        self._policy = Policy()
        self._position = -1
        self._last_recorded = 0
        self.fresh_as_of = 0
        """The moment as of which everything in the file is in memory."""

    @classmethod
    def open(cls, path: str | Path, clock: Clock | None = None) -> Self:
        """Load a store's table; raises as `database.connect` does for reading."""
        place = Path(path)
        connection = connect(place, "read")
        made = cls(connection, place, SystemClock() if clock is None else clock)
        try:
            made.refresh()
        except BaseException:
            connection.close()
            raise
        return made

    def close(self) -> None:
        """Let go of the file; what is in memory grows stale."""
        with self._lock:
            self._connection.close()

    def __len__(self) -> int:
        """How many subjects it holds."""
        return len(self._packed) + len(self._corrupt)

    @property
    def age(self) -> int:
        """Microseconds since it was caught up."""
        return max(0, self._clock.now() - self.fresh_as_of)

    def refresh(self) -> int:
        """Read what has changed in the file; how many subjects have."""
        with self._lock, translated(self._path):
            moment = self._clock.now()
            with snapshot(self._connection):
                (position,) = self._connection.execute(
                    "SELECT coalesce(max(position), 0) FROM ledger"
                ).fetchone()
                policy = self._held.read(self._connection)
                last_recorded = reader.last_recorded(self._connection) or 0
                changed = self._take(self._rows_after(self._position))
            self._position = position
            self._policy = policy
            self._last_recorded = last_recorded
            self.fresh_as_of = moment
        return changed

    def _rows_after(self, position: int) -> Iterable[rows.Row]:
        if position < 0:
            return self._connection.execute(_QUERY)
        return self._connection.execute(
            f"{_QUERY} WHERE subject_id IN (SELECT subject_id FROM ledger WHERE position > ?)",
            (position,),
        )

    def _take(self, some: Iterable[rows.Row]) -> int:
        changed = 0
        for scope, tool, effect, content, beside, digest, checksum in some:
            changed += 1
            subject = Subject(scope, tool, effect)
            key = subject.key
            try:
                state, _ = open_score((content, beside, digest, checksum), subject)
            except TrustCorruptionError as error:
                log.critical("no trust: %s", error)
                self._corrupt[key] = Corrupt(subject, str(error))
                self._packed.pop(key, None)
            else:
                self._packed[key] = pack_standing(state, digest)
                self._corrupt.pop(key, None)
        return changed

    # ---- answering -----------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy in force when it was caught up."""
        return self._policy

    def peek(self, subject: Subject, reversibility: Reversibility | None) -> Verdict:
        """What `decide` would answer, from memory; nothing is promoted where it is stale."""
        now, stale = self._clock.now(), None
        if now - self.fresh_as_of > _STALE_AFTER:
            stale = (
                f"a table that was caught up within {STALE_SECONDS} seconds, this one was as of "
                f"{format_instant(self.fresh_as_of)}"
            )
        if now < self._last_recorded:
            now = self._last_recorded
        key = subject.key
        packed = self._packed.get(key)
        return decide(
            self._corrupt.get(key) if packed is None else unpack_standing(packed),
            self._policy,
            Action(subject, reversibility, "peek", "peek"),
            now,
            stale=stale,
        )
