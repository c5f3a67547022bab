"""Ingest: a batch of documents becomes facts, entries, scores and dead letters, or nothing does.

Everything of a batch is one transaction; what is reported accepted is durable.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from trustfold_projections.laws.admission import admit
from trustfold_projections.laws.correlation import (
    Key,
    Outcome,
    TraceState,
    Verdict,
    correlate,
    key_of,
)
from trustfold_projections.laws.fold import fold, refold
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import Event
from trustfold_schemas.facts import Fact, Stamp
from trustfold_schemas.instants import SECOND, format_instant
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import record_of
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock
from trustfold_streams.embedded import rows
from trustfold_streams.embedded.database import transaction
from trustfold_streams.embedded.memory import HeldKey, HeldSubject, Memory, entries_of, note

log = logging.getLogger("trustfold.embedded")

CLOCK_BEHIND_MAX = 5 * SECOND
"""A clock further behind the log than this is reported."""

Counted = Literal["accepted", "duplicates", "conflicts", "dead_letters"]


class Document(Struct, frozen=True, gc=False):
    """Bytes to ingest, and where they came from (a file and line, a topic and offset)."""

    body: bytes
    origin: str


class Receipt(Struct, frozen=True, gc=False):
    """What became of one document. `recorded` is its moment in the log, if it is in the log."""

    counted: Counted
    recorded: int | None = None
    reason: Reason | None = None
    detail: str | None = None


class _Admitted(Struct, frozen=True, gc=False):
    document: Document
    event: Event | None = None
    key: Key | None = None
    refused: EventRefused | None = None


class Writer:
    """Writes batches through one connection, remembering states between them."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self.connection = connection
        self.clock = clock
        self.memory = Memory(connection)

    def ingest(self, documents: Iterable[Document], stamp: Stamp) -> list[Receipt]:
        """Write one batch in one transaction; either all of it is kept, or nothing."""
        admitted = [_admitted(document, stamp) for document in documents]
        try:
            with transaction(self.connection):
                self.memory.refresh()
                self.memory.expect(one.key for one in admitted if one.key is not None)
                batch = _Batch(self, stamp)
                receipts = [batch.take(one) for one in admitted]
                batch.flush()
        except BaseException:
            self.memory.forget()
            raise
        self.memory.trim()
        return receipts


def _admitted(document: Document, stamp: Stamp) -> _Admitted:
    try:
        event = admit(document.body, stamp)
    except EventRefused as refused:
        return _Admitted(document, refused=refused)
    return _Admitted(document, event, key_of(event))


class _Batch:
    """The rows of one transaction, gathered and then written table by table."""

    def __init__(self, writer: Writer, stamp: Stamp) -> None:
        self.connection = writer.connection
        self.memory = writer.memory
        self.stamp = stamp
        self.now = writer.clock.now()
        behind = self.memory.last_recorded - self.now
        if behind > CLOCK_BEHIND_MAX:
            log.warning(
                "the clock says %s, the log's last fact %s: recorded goes on from there",
                format_instant(self.now),
                format_instant(self.memory.last_recorded),
            )
        self.facts: dict[int, rows.Row] = {}
        self.entries: list[rows.Row] = []
        self.subjects: dict[Subject, HeldSubject] = {}
        self.keys: dict[Key, HeldKey] = {}
        self.dead: list[rows.Row] = []

    def take(self, admitted: _Admitted) -> Receipt:
        """Take one document through correlation and fold."""
        moment = max(self.now, self.memory.last_recorded + 1)
        document, event, key = admitted.document, admitted.event, admitted.key
        if event is None or key is None:
            assert admitted.refused is not None
            reason, detail = admitted.refused.reason, admitted.refused.detail
            self._bury(reason, detail, document.origin, moment, document.body)
            return Receipt("dead_letters", None, reason, detail)
        held = self.memory.key(key)
        fact = Fact(moment, moment, self.stamp, event, document.body)
        outcome = correlate(held.state, fact, self.memory.medians)
        if outcome.remembered:
            self._record(fact, key, held)
        for entry in outcome.entries:
            self._fold(entry)
        return self._receipt(fact, outcome, document.origin)

    def _receipt(self, fact: Fact, outcome: Outcome, origin: str) -> Receipt:
        recorded = fact.recorded if outcome.remembered else None
        own = None
        for refusal in outcome.refusals:
            if refusal.position == fact.position:
                own = own or refusal
                body, where = fact.document, origin
            else:
                body = self._body(refusal.position)
                where = f"fact {format_instant(refusal.position)}"
            self._bury(refusal.reason, refusal.detail, where, fact.recorded, body)
        if outcome.verdict is Verdict.DUPLICATE:
            return Receipt("duplicates")
        if own is None:
            return Receipt("accepted", recorded)
        counted: Counted = "conflicts" if outcome.conflict else "dead_letters"
        return Receipt(counted, recorded, own.reason, own.detail)

    def _record(self, fact: Fact, key: Key, held: HeldKey) -> None:
        row = rows.fact_row(fact, held.hashed, self.memory.chain)
        self.memory.chain = row[-1]
        self.memory.last_recorded = fact.recorded
        self.facts[fact.recorded] = row
        note(held, fact.recorded)
        self.keys[key] = held

    def _fold(self, entry: Entry) -> None:
        held = self.subjects.get(entry.subject)
        if held is None:
            held = self.subjects[entry.subject] = self.memory.subject(entry.subject)
        self.memory.position += 1
        position = self.memory.position
        self.entries.append((position, held.subject_id, held.head, *rows.entry_values(entry)))
        held.head = position
        if not fold(held.state, entry):
            self._write_entries()
            held.state = refold(entry.subject, entries_of(self.connection, entry.subject, position))

    def _bury(self, reason: Reason, detail: str, origin: str, moment: int, body: bytes) -> None:
        digest = hashlib.sha256(body).digest()
        self.dead.append((reason.value, detail, origin, moment, moment, 1, body, digest))

    def _body(self, recorded: int) -> bytes:
        pending = self.facts.get(recorded)
        if pending is not None:
            return str(pending[6]).encode()
        (body,) = self.connection.execute(
            "SELECT body FROM facts WHERE recorded = ?", (recorded,)
        ).fetchone()
        return str(body).encode()

    # ---- writing -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything gathered."""
        many = self.connection.executemany
        many(rows.INSERT_FACT, self.facts.values())
        self._write_entries()
        many(
            "INSERT INTO scores VALUES (?, ?, ?, ?, ?) ON CONFLICT (subject_id) DO UPDATE SET "
            "content = excluded.content, beside = excluded.beside, digest = excluded.digest, "
            "checksum = excluded.checksum",
            [_score_row(held) for held in self.subjects.values()],
        )
        many(
            "INSERT OR REPLACE INTO traces VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            _trace_rows(self.keys.values()),
        )
        many(
            "INSERT INTO dead_letters (reason, detail, origin, first_recorded, last_recorded, "
            "times, body, body_sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (body_sha256, reason) DO UPDATE SET times = times + 1, "
            "last_recorded = excluded.last_recorded, origin = excluded.origin, "
            "detail = excluded.detail",
            self.dead,
        )

    def _write_entries(self) -> None:
        new = [(s, held) for s, held in self.subjects.items() if not held.stored]
        self.connection.executemany(
            "INSERT INTO subjects VALUES (?, ?, ?, ?)",
            [(held.subject_id, *subject) for subject, held in new],
        )
        for _, held in new:
            held.stored = True
        self.connection.executemany(rows.INSERT_ENTRY, self.entries)
        self.entries.clear()


def _score_row(held: HeldSubject) -> rows.Row:
    assert held.head is not None
    record = record_of(held.state, held.head)
    return (
        held.subject_id,
        record.content.decode(),
        record.beside.decode(),
        record.digest,
        record.checksum,
    )


def _trace_rows(touched: Iterable[HeldKey]) -> Sequence[rows.Row]:
    return [trace_row(held, held.state) for held in touched if isinstance(held.state, TraceState)]


def trace_row(held: HeldKey, state: TraceState) -> rows.Row:
    """The summary of a trace for the table `traces`."""
    close = state.close
    return (
        held.first_recorded,
        held.last_recorded,
        state.trace_id,
        state.scope,
        None if close is None else close.outcome,
        len(state.steps),
        state.feedback_count,
        held.facts,
        None if close is None else close.recorded,
        held.folded,
        int(state.excluded),
    )
