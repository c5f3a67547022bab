"""The embedded store as its users hold it: open it, ingest, read, take back, verify, close."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, Self

from trustfold_projections.laws.explanation import Explanation, explain, state_if
from trustfold_projections.laws.leaderboard import Leaderboard, leaderboard_of
from trustfold_projections.laws.scoring import score_of
from trustfold_schemas import actions
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import (
    EventRefused,
    NotPermittedError,
    TrustCorruptionError,
    UnknownNameError,
)
from trustfold_schemas.facts import OWNER, Stamp
from trustfold_schemas.ledger import Entry
from trustfold_schemas.pending import Pending
from trustfold_schemas.receipts import Document, Receipt, Summary
from trustfold_schemas.scores import Corrupt, State, TrustScore
from trustfold_schemas.status import Status
from trustfold_schemas.stored_dead_letters import StoredDeadLetter, replay_body
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.closing import Closing
from trustfold_streams.embedded import audit, dead_letters, reader
from trustfold_streams.embedded.database import (
    BUSY_SECONDS,
    Mode,
    connect,
    snapshot,
    transaction,
    translated,
)
from trustfold_streams.embedded.errors import StoreReadOnlyError
from trustfold_streams.embedded.policy import EmbeddedPolicy
from trustfold_streams.embedded.verify import Report, verify
from trustfold_streams.embedded.writer import Writer
from trustfold_streams.store_port import BATCH

SOURCE = "trustfold/embedded"
"""The source of events that are published by a call on the store."""


class EmbeddedStore(Closing):
    """One SQLite file: facts, ledger, scores and dead letters.

    Open with `EmbeddedStore.open`; use as a context manager. Many may read beside one writer;
    writers of several processes queue for a bounded time (StoreBusyError). What is published
    speaks in the role of the stamp that the store was opened with.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        mode: Mode,
        clock: Clock,
        stamp: Stamp,
    ) -> None:
        self.path = path
        self.clock = clock
        self.stamp = stamp
        self.corrupt_reads = 0
        """How often a reader was answered "no trust" because of a corrupt record."""
        self._connection = connection
        self._mode = mode
        self._writer = Writer(connection, clock)
        self.policy = EmbeddedPolicy(
            connection,
            path,
            clock,
            stamp,
            state=self.state,
            say=self.say,
            must_write=self._must_write,
        )
        """What is in force, and the decisions that rested on it."""

    @classmethod
    def open(
        cls,
        path: str | Path,
        mode: Mode = "create",
        *,
        stamp: Stamp = OWNER,
        clock: Clock | None = None,
        busy_seconds: float = BUSY_SECONDS,
    ) -> Self:
        """Open a store; see `database.connect` for modes and errors."""
        place = Path(path)
        connection = connect(place, mode, busy_seconds)
        return cls(connection, place, mode, SystemClock() if clock is None else clock, stamp)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    # ---- writing -------------------------------------------------------------------------------

    def ingest(
        self,
        documents: Iterable[Document],
        stamp: Stamp | None = None,
        *,
        batch: int = BATCH,
        committed: Callable[[list[Receipt]], None] = lambda _: None,
    ) -> Summary:
        """Ingest documents in transactions of `batch`; `committed` is told of each one.

        Traces that nobody finished in time are closed first. When this is interrupted, what
        `committed` was told of is kept.
        """
        self._must_write()
        summary = Summary()
        with translated(self.path):
            self._writer.sweep()
            for some in _batches(documents, batch):
                receipts = self._writer.ingest(some, stamp or self.stamp)
                summary.count(receipts)
                committed(receipts)
        return summary

    def publish(self, body: bytes, stamp: Stamp | None = None) -> Receipt:
        """Ingest one document of the caller's own; durable when this returns.

        Raises EventRefused where it became a dead letter or a conflict; the letter is kept.
        """
        receipts: list[Receipt] = []
        self.ingest([Document(body, "a call")], stamp, committed=receipts.extend)
        (receipt,) = receipts
        if receipt.reason is not None:
            raise EventRefused(receipt.reason, receipt.detail or "")
        return receipt

    def author(self) -> actions.Author:
        """An author for one event of a call, now."""
        return actions.Author(SOURCE, str(uuid.uuid4()), self.clock.now())

    def say(self, write: Callable[[actions.Author], bytes]) -> str:
        """Publish one event under a new id; the id. Raises EventRefused."""
        author = self.author()
        self.publish(write(author))
        return author.event_id

    def sweep(self) -> int:
        """Close the traces that nobody finished within 24 hours; how many were closed."""
        self._must_write()
        with translated(self.path):
            return self._writer.sweep()

    def rollback(self, subject: Subject, to: int, by: str, why: str) -> str:
        """Make what was recorded of a subject after `to` not count; the id of the rollback."""
        author = self.author()
        self.publish(actions.subject_rolled_back(author, subject, to, by, why))
        return author.event_id

    def lift(self, rollback_id: str, by: str, why: str) -> Subject:
        """Take a rollback away; the subject it was of. Raises UnknownNameError."""
        subject = self.rollback_subject(rollback_id)
        self.publish(actions.rollback_lifted(self.author(), subject, rollback_id, by, why))
        return subject

    def exclude(
        self, trace_id: str, by: str, why: str, what: Literal["exclude", "include"] = "exclude"
    ) -> None:
        """Take a trace's contribution out, or put it back. Raises UnknownNameError."""
        self.require_trace(trace_id)
        self.publish(actions.trace_exclusion(self.author(), what, trace_id, by, why))

    def repair(self) -> tuple[list[Subject], int]:
        """Refold wrong scores from the ledger, and trace summaries from the facts.

        Facts and ledger are never touched. The subjects and the number of summaries rewritten.
        """
        self._must_write()
        with translated(self.path):
            self._writer.memory.forget()
            with transaction(self._connection):
                return audit.repair(self._connection)

    # ---- reading -------------------------------------------------------------------------------

    def state(self, subject: Subject) -> State | None:
        """A subject's state from the table, or None. Raises TrustCorruptionError."""
        with translated(self.path):
            try:
                return reader.read_state(self._connection, subject)
            except TrustCorruptionError:
                self.corrupt_reads += 1
                raise

    def states(self) -> list[State | Corrupt]:
        """The table, in the order of subjects."""
        with translated(self.path):
            states = list(reader.read_states(self._connection))
        self.corrupt_reads += sum(isinstance(state, Corrupt) for state in states)
        return states

    def state_as_of(self, subject: Subject, moment: int) -> State | None:
        """A subject's state as of a moment. Raises NotSettledError."""
        with translated(self.path):
            self._settle(moment)
            return reader.state_as_of(self._connection, subject, moment)

    def states_as_of(self, moment: int) -> list[State]:
        """The table as of a moment, in the order of subjects. Raises NotSettledError."""
        with translated(self.path):
            self._settle(moment)
            states = reader.states_as_of(self._connection, moment)
        return [states[subject] for subject in sorted(states)]

    def leaderboard(self, top: int, now: int, as_of: int | None = None) -> Leaderboard:
        """The best at the moment `now`, of the table or as of a moment. Raises NotSettledError."""
        return leaderboard_of(
            self.states() if as_of is None else self.states_as_of(as_of), top, now
        )

    def get(self, subject: Subject, now: int | None = None) -> TrustScore | None:
        """A subject's score at `now`; None while it has no samples.

        A corrupt state is no trust: TrustScore.empty, after a critical log line.
        """
        try:
            state = self.state(subject)
        except TrustCorruptionError:
            return TrustScore.empty(subject)
        if state is None or state.n_samples == 0:
            return None
        return score_of(state, self.clock.now() if now is None else now)

    def entries(self, subject: Subject) -> list[Entry]:
        """A subject's ledger entries, in log order."""
        with translated(self.path), snapshot(self._connection):
            return audit.read_entries(self._connection, subject)

    def entries_without(self, subject: Subject, name: str) -> list[Entry]:
        """A subject's ledger had an event or a trace never been. Raises UnknownNameError."""
        with translated(self.path), snapshot(self._connection):
            return audit.entries_without(self._connection, subject, name)

    def explain(self, subject: Subject, now: int, latest: int = 10) -> Explanation | None:
        """A subject's score taken apart, with its latest entries; None if nothing touched it."""
        entries = self.entries(subject)
        return explain(subject, entries, now, latest) if entries else None

    def state_if(
        self, subject: Subject, *, to: int | None = None, lift: str | None = None
    ) -> State:
        """A subject's state if it were rolled back to a moment, or a rollback were lifted."""
        return state_if(subject, self.entries(subject), self.clock.now(), to=to, lift=lift)

    def rollback_subject(self, rollback_id: str) -> Subject:
        """The subject that a rollback was of. Raises UnknownNameError."""
        with translated(self.path):
            return audit.rollback_subject(self._connection, rollback_id)

    def require_trace(self, trace_id: str) -> None:
        """Raise UnknownNameError where no fact is of this trace."""
        with translated(self.path):
            if not audit.knows_trace(self._connection, trace_id):
                raise UnknownNameError(f"no trace of the log is named {trace_id!r}")

    def pending(self) -> list[Pending]:
        """Every trace that is not finished, the oldest first."""
        with translated(self.path):
            return audit.read_pending(self._connection, self.clock.now())

    def status(self) -> Status:
        """What the store holds."""
        with translated(self.path):
            return reader.read_status(self._connection, str(self.path), self.clock.now())

    def verify(
        self, anchor: str | None = None, advance: Callable[[int], None] = lambda _: None
    ) -> Report:
        """Prove the file; see `verify.verify`."""
        with translated(self.path):
            return verify(self._connection, anchor, advance)

    # ---- dead letters --------------------------------------------------------------------------

    def dead_letters(
        self, reasons: Sequence[Reason] = (), *, replayed: bool = False, ids: Sequence[int] = ()
    ) -> list[StoredDeadLetter]:
        """The dead letters, oldest first; those replayed only on request or by id."""
        with translated(self.path):
            return dead_letters.read(self._connection, reasons, replayed=replayed, ids=ids)

    def replay(
        self, letter: StoredDeadLetter, repaired: bytes | None = None, stamp: Stamp | None = None
    ) -> Receipt:
        """Ingest a dead letter again, in the role of its first publisher unless told otherwise.

        Its own bytes go under their own id, repaired ones under an id that names it. It is
        marked as replayed once the log holds what it says.
        """
        body = replay_body(letter, repaired)
        receipts: list[Receipt] = []
        origin = f"dead letter {letter.dead_letter_id}"
        self.ingest([Document(body, origin)], stamp or letter.stamp, committed=receipts.extend)
        (receipt,) = receipts
        if receipt.reason is None:
            with translated(self.path), transaction(self._connection):
                dead_letters.mark_replayed(
                    self._connection,
                    letter.dead_letter_id,
                    self.clock.now(),
                    decode_event(body).id,
                )
        return receipt

    def settled(self, moment: int) -> bool:
        """Whether nothing will be recorded at or before a moment any more."""
        with translated(self.path):
            return moment <= reader.settled_up_to(self._connection)

    def _settle(self, moment: int) -> None:
        reader.settle(self._connection, moment, self.clock.now(), writable=self._mode != "read")
        # The writer sees other connections' fences by their commits, this one's only by being told.
        self._writer.memory.forget()

    def _must_write(self) -> None:
        if self.stamp.role == "reader":
            raise NotPermittedError("the role reader writes nothing")
        if self._mode == "read":
            raise StoreReadOnlyError(f"{self.path} was opened for reading")


def _batches(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    some = iter(documents)
    while batch := list(islice(some, size)):
        yield batch
