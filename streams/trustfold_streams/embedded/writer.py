"""Ingest: a batch of documents becomes facts, entries, scores and dead letters, or nothing does.

Everything of a batch is one transaction; what is reported accepted is durable.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Generator, Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from trustfold_projections.laws.admission import admit
from trustfold_projections.laws.correlation import (
    Key,
    Outcome,
    Refusal,
    TraceState,
    Verdict,
    correlate,
    key_of,
    lone_close,
)
from trustfold_projections.laws.correlation.abandoned import (
    PATIENCE,
    SERVICE_SOURCE,
    abandoned_close,
)
from trustfold_projections.laws.correlation.singles import PolicyState
from trustfold_projections.laws.fold import fold, refold
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import Event, TraceClosedEvent
from trustfold_schemas.facts import Fact, Stamp
from trustfold_schemas.instants import SECOND, format_instant
from trustfold_schemas.ledger import Entry
from trustfold_schemas.receipts import Counted, Document, Receipt
from trustfold_schemas.scores import record_of
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock
from trustfold_streams.embedded import dead_letters, rows, thresholds
from trustfold_streams.embedded.database import transaction
from trustfold_streams.embedded.memory import HeldKey, HeldSubject, Memory, entries_of, note

log = logging.getLogger("trustfold.embedded")

CLOCK_BEHIND_MAX = 5 * SECOND
"""A clock further behind the log than this is reported."""

SERVICE = Stamp("runtime", SERVICE_SOURCE)
"""Timers speak in the role of a runtime, under the service's own name."""


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
        with self._transaction():
            self.memory.expect(one.key for one in admitted if one.key is not None)
            batch = _Batch(self, stamp)
            receipts = [batch.take(one) for one in admitted]
            batch.flush()
        self.memory.trim()
        return receipts

    def sweep(self) -> int:
        """Publish the closes of traces that nobody finished in time (SPEC 3); how many."""
        due = self.clock.now() - PATIENCE
        swept = 0
        while keys := self._overdue(due):
            with self._transaction():
                documents = [
                    Document(body, "the service's timer")
                    for key in keys
                    if isinstance(state := self.memory.known(key), TraceState)
                    and (body := abandoned_close(state)) is not None
                ]
                batch = _Batch(self, SERVICE)
                receipts = [batch.take(_admitted(document, SERVICE)) for document in documents]
                batch.flush()
            self.memory.trim()
            accepted = sum(receipt.counted == "accepted" for receipt in receipts)
            swept += accepted
            if not accepted:
                break
        return swept

    def _overdue(self, due: int) -> list[Key]:
        return [
            Key("trace", trace_id)
            for (trace_id,) in self.connection.execute(
                "SELECT trace_id FROM traces WHERE folded IS NULL AND (closed <= ?1 "
                "OR closed IS NULL AND steps > 0 AND last_recorded <= ?1) "
                "ORDER BY last_recorded LIMIT 1000",
                (due,),
            )
        ]

    @contextlib.contextmanager
    def _transaction(self) -> Generator[None]:
        """A write transaction with a memory that knows the file as it is."""
        try:
            with transaction(self.connection):
                self.memory.refresh()
                yield
        except BaseException:
            self.memory.forget()
            raise


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
            refusal = Refusal(moment, admitted.refused.reason, admitted.refused.detail)
            self.dead.append(
                dead_letters.dead_letter_row(
                    refusal, document.origin, moment, self.stamp, document.body
                )
            )
            return Receipt("dead_letters", None, refusal.reason, refusal.detail)
        held = self.memory.key(key)
        fact = Fact(moment, moment, self.stamp, event, document.body)
        if not held.facts and held.state is None:
            entries = lone_close(fact, self.memory.medians)
            if entries is not None:
                held.lone, held.folded = fact, moment
                self._record(fact, key, held)
                self._fold(entries)
                return Receipt("accepted", moment)
        outcome = correlate(held.known(self.memory.medians), fact, self.memory.medians)
        if outcome.remembered:
            self._record(fact, key, held)
        self._fold(outcome.entries)
        return self._receipt(fact, outcome, document.origin)

    def _receipt(self, fact: Fact, outcome: Outcome, origin: str) -> Receipt:
        recorded = fact.recorded if outcome.remembered else None
        own = None
        for refusal in outcome.refusals:
            if refusal.position == fact.position:
                own = own or refusal
                stamp, body, where = self.stamp, fact.document, origin
            else:
                stamp, body = self._earlier(refusal.position)
                where = f"fact {format_instant(refusal.position)}"
            self.dead.append(
                dead_letters.dead_letter_row(refusal, where, fact.recorded, stamp, body)
            )
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
        if isinstance(held.state, PolicyState):
            thresholds.apply(self.connection, fact, held.state.version)
        note(held, fact.recorded)
        self.keys[key] = held

    def _fold(self, made: Sequence[Entry]) -> None:
        """Add entries to the ledger's rows and to their subjects' states."""
        subjects, memory = self.subjects, self.memory
        for entry in made:
            held = subjects.get(entry.subject)
            if held is None:
                held = subjects[entry.subject] = memory.subject(entry.subject)
            position = memory.position = memory.position + 1
            values = rows.plain_values(entry) or rows.entry_values(entry)
            self.entries.append((position, held.subject_id, held.head, *values))
            held.head = position
            if not fold(held.state, entry):
                self._write_entries()
                held.state = refold(
                    entry.subject, entries_of(self.connection, entry.subject, position)
                )

    def _earlier(self, recorded: int) -> tuple[Stamp, bytes]:
        """The stamp and the bytes of an earlier fact."""
        row = self.facts.get(recorded)
        if row is None:
            row = self.connection.execute(
                "SELECT * FROM facts WHERE recorded = ?", (recorded,)
            ).fetchone()
        return rows.stamp_of(*row[3:6]), row[6].encode()

    # ---- writing -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write everything gathered."""
        many = self.connection.executemany
        many(rows.INSERT_FACT, self.facts.values())
        self._write_entries()
        write_scores(self.connection, [score_row(held) for held in self.subjects.values()])
        write_traces(
            self.connection,
            [trace_row(held) for key, held in self.keys.items() if key.kind == "trace"],
        )
        dead_letters.write(self.connection, self.dead)

    def _write_entries(self) -> None:
        new = [(s, held) for s, held in self.subjects.items() if not held.stored]
        self.connection.executemany(
            "INSERT INTO subjects VALUES (?, ?, ?, ?)",
            [(held.subject_id, *subject) for subject, held in new],
        )
        for _, held in new:
            held.stored = True
        for length, some in groupby(self.entries, key=len):
            plain = length == rows.PLAIN_LENGTH
            self.connection.executemany(rows.INSERT_PLAIN if plain else rows.INSERT_ENTRY, some)
        self.entries.clear()


def write_scores(connection: sqlite3.Connection, some: Iterable[rows.Row]) -> None:
    """Write rows of the table, over those that are there."""
    connection.executemany(
        "INSERT INTO scores VALUES (?, ?, ?, ?, ?) ON CONFLICT (subject_id) DO UPDATE SET "
        "content = excluded.content, beside = excluded.beside, digest = excluded.digest, "
        "checksum = excluded.checksum",
        some,
    )


def write_traces(connection: sqlite3.Connection, some: Iterable[rows.Row]) -> None:
    """Write summaries of traces, over those that are there."""
    connection.executemany(f"INSERT OR REPLACE INTO traces VALUES ({', '.join('?' * 12)})", some)


def score_row(held: HeldSubject) -> rows.Row:
    """A subject's state, sealed, as a row of the table."""
    assert held.head is not None
    record = record_of(held.state, held.head)
    return (
        held.subject_id,
        record.content.decode(),
        record.beside.decode(),
        record.digest,
        record.checksum,
    )


def trace_row(held: HeldKey) -> rows.Row:
    """The summary of a trace for the table `traces`."""
    state, lone = held.state, held.lone
    if lone is not None:
        assert isinstance(lone.event, TraceClosedEvent)
        data = lone.event.data
        said = (data.trace_id, data.scope, data.outcome, len(data.steps), None, 0)
        return (held.first_recorded, held.last_recorded, *said, 1, lone.recorded, held.folded, 0)
    assert isinstance(state, TraceState)
    close = state.close
    return (
        held.first_recorded,
        held.last_recorded,
        state.trace_id,
        state.scope,
        None if close is None else close.outcome,
        len(state.steps),
        None if close is None else close.step_count,
        state.feedback_count,
        held.facts,
        None if close is None else close.recorded,
        held.folded,
        int(state.excluded),
    )
