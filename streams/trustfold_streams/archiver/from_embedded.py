"""An embedded store as a log to archive: one read transaction, one partition of each topic.

Facts stand at their recorded moments, entries at their positions. The store keeps policy and
medians among its facts; here they are topics of their own, as on Kafka.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from trustfold_projections.archive.rows import DECISION_NAMES, DecisionRow, EntryRow, LetterRow, Row
from trustfold_projections.archive.schema import Place, Topic
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import TraceEvent
from trustfold_schemas.facts import Fact
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows as stored
from trustfold_streams.embedded.database import connect, snapshot, translated
from trustfold_streams.embedded.errors import StoreDamagedError
from trustfold_streams.embedded.reader import last_recorded, settled_up_to

_POLICY: Final = (
    "'threshold.set.v1', 'threshold.removed.v1', 'effect.declared.v1', 'effect.removed.v1', "
    "'trust.revoked.v1', 'trust.reinstated.v1', 'policy.mode.v1'"
)
"""Written as in the index of these facts, which is used only then."""
_OF_TOPIC: Final[dict[Topic, str]] = {
    "facts": f"type NOT IN ({_POLICY}, 'cost.median.v1')",
    "policy": f"type IN ({_POLICY})",
    "cost-median": "type = 'cost.median.v1'",
}

_ENTRIES: Final = (
    "SELECT l.position, s.scope, s.tool, s.effect, f.body, "
    + ", ".join(f"l.{column}" for column in stored.ENTRY_COLUMNS.split(", "))
    + " FROM ledger l LEFT JOIN facts f ON f.recorded = l.recorded "
    "LEFT JOIN subjects s ON s.subject_id = l.subject_id "
    "WHERE l.position >= ? AND l.position < ? ORDER BY l.position"
)


Names = tuple[str, str, str | None]
"""What an entry has of its fact: event id, source and trace."""


def _names_in(body: str, position: int) -> Names:
    """From the event as the law reads it: SQLite's own functions end a text at its first NUL."""
    try:
        event = decode_event(body.encode())
    except (EventRefused, UnicodeEncodeError) as error:
        raise StoreDamagedError(
            f"the fact of entry {position} is damaged, it is no event any more: {error}; "
            "`trustfold verify` names every such row"
        ) from error
    trace_id = event.data.trace_id if isinstance(event, TraceEvent) else None
    return event.id, event.source, trace_id


@contextlib.contextmanager
def embedded_log(path: Path) -> Generator[EmbeddedLog]:
    """A store's log as it is now; a writer may go on beside it. Raises NoStoreError."""
    with (
        contextlib.closing(connect(path, "read")) as connection,
        translated(path),
        snapshot(connection),
    ):
        yield EmbeddedLog(connection)


class EmbeddedLog:
    """The log of one store, inside one read transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def settled(self) -> int:
        """The moment at or before which nothing will be recorded any more."""
        return settled_up_to(self._connection)

    @property
    def memory(self) -> int | None:
        """A store in a file forgets nothing."""
        return None

    def ends(self) -> Mapping[Place, int]:
        """Where each topic ends."""
        facts = (last_recorded(self._connection) or -1) + 1
        (entries,) = self._one("SELECT coalesce(max(position), -1) + 1 FROM ledger")
        (verdicts,) = self._one("SELECT coalesce(max(position), -1) + 1 FROM decisions")
        (letters,) = self._one("SELECT coalesce(max(dead_letter_id), -1) + 1 FROM dead_letters")
        return {
            **{Place(topic, 0): facts for topic in _OF_TOPIC},
            Place("decisions", 0): verdicts,
            Place("dead-letters", 0): letters,
            Place("ledger", 0): entries,
        }

    def rows(self, place: Place, start: int, end: int) -> Iterable[Row]:
        """The rows of a topic, in order. Raises StoreDamagedError."""
        if place.topic == "ledger":
            return self._entries(start, end)
        if place.topic == "decisions":
            return self._decisions(start, end)
        if place.topic == "dead-letters":
            return self._letters(start, end)
        return self._facts(place.topic, start, end)

    def holds(self, place: Place, row: Row) -> bool:
        """Whether the store holds this very row."""
        at = row.position if isinstance(row, Fact) else row.offset
        return list(self.rows(place, at, at + 1)) == [row]

    def _one(self, query: str, *values: int) -> tuple[int]:
        found: tuple[int] = self._connection.execute(query, values).fetchone()
        return found

    def _facts(self, topic: Topic, start: int, end: int) -> Iterator[Fact]:
        for row in self._connection.execute(
            f"SELECT {stored.FACT_COLUMNS} FROM facts "
            f"WHERE recorded >= ? AND recorded < ? AND {_OF_TOPIC[topic]} ORDER BY recorded",
            (start, end),
        ):
            yield stored.fact_of(row)

    def _entries(self, start: int, end: int) -> Iterator[EntryRow]:
        number, before = self._number_at(start)
        names: Names | None = None
        for row in self._connection.execute(_ENTRIES, (start, end)):
            position, scope, tool, effect, body, recorded = row[:6]
            if scope is None or body is None:
                raise StoreDamagedError(
                    f"the ledger is damaged: the subject or the fact of entry {position} is "
                    "missing; `trustfold verify` names every such row"
                )
            number = number + 1 if recorded == before else 0
            if names is None or recorded != before:
                names = _names_in(body, position)
            before = recorded
            entry = stored.entry_of(row[5:], Subject(scope, tool, effect), *names)
            yield EntryRow(position, entry, 0, recorded, number)

    def _number_at(self, start: int) -> tuple[int, int | None]:
        """The number, among its fact's, of the entry before `start`, and its recorded moment."""
        last = self._connection.execute(
            "SELECT position, recorded FROM ledger WHERE position < ? "
            "ORDER BY position DESC LIMIT 1",
            (start,),
        ).fetchone()
        if last is None:
            return -1, None
        position, recorded = last
        other = self._connection.execute(
            "SELECT position FROM ledger WHERE position < ? AND recorded <> ? "
            "ORDER BY position DESC LIMIT 1",
            (position, recorded),
        ).fetchone()
        first = self._one("SELECT min(position) FROM ledger")[0]
        return position - (first if other is None else other[0] + 1), recorded

    def _decisions(self, start: int, end: int) -> Iterator[DecisionRow]:
        for row in self._connection.execute(
            "SELECT position, recorded, decision_id, scope, tool, effect, "
            f"{', '.join(DECISION_NAMES)} FROM decisions WHERE position >= ? AND position < ? "
            "ORDER BY position",
            (start, end),
        ):
            position, recorded, decision_id, scope, tool, effect, *named = row
            yield DecisionRow(position, recorded, decision_id, Subject(scope, tool, effect), *named)

    def _letters(self, start: int, end: int) -> Iterator[LetterRow]:
        for (
            number,
            recorded,
            reason,
            detail,
            origin,
            role,
            identity,
            scopes,
            body,
        ) in self._connection.execute(
            "SELECT dead_letter_id, first_recorded, reason, detail, origin, role, identity, "
            "scopes, body FROM dead_letters WHERE dead_letter_id >= ? AND dead_letter_id < ? "
            "ORDER BY dead_letter_id",
            (start, end),
        ):
            stamp = stored.stamp_of(role, identity, scopes)
            yield LetterRow(number, recorded, reason, detail, origin, stamp, body)
