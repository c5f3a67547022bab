"""The embedded store as its users hold it: open it, ingest, read, verify, close."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from trustfold_projections.laws.scoring import score_of
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.facts import OWNER, Stamp
from trustfold_schemas.scores import State, TrustScore
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.embedded import reader
from trustfold_streams.embedded.database import BUSY_SECONDS, Mode, connect, translated
from trustfold_streams.embedded.errors import StoreReadOnlyError
from trustfold_streams.embedded.reader import Corrupt, Status
from trustfold_streams.embedded.verify import Report, verify
from trustfold_streams.embedded.writer import Document, Receipt, Writer

BATCH = 1_000
"""Documents a transaction."""


class Summary(Struct, kw_only=True):
    """What became of the documents of an ingest, each counted once."""

    accepted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    dead_letters: int = 0

    def count(self, receipts: Iterable[Receipt]) -> None:
        """Add a batch."""
        for receipt in receipts:
            setattr(self, receipt.counted, getattr(self, receipt.counted) + 1)

    @property
    def total(self) -> int:
        """All documents counted."""
        return sum(msgspec.structs.astuple(self))


class EmbeddedStore:
    """One SQLite file: facts, ledger, scores and dead letters.

    Open with `EmbeddedStore.open`; use as a context manager. Many may read beside one writer;
    writers of several processes queue for a bounded time (StoreBusyError).
    """

    def __init__(
        self, connection: sqlite3.Connection, path: Path, mode: Mode, clock: Clock
    ) -> None:
        self.path = path
        self.clock = clock
        self._connection = connection
        self._mode = mode
        self._writer = Writer(connection, clock)

    @classmethod
    def open(
        cls,
        path: str | Path,
        mode: Mode = "create",
        *,
        clock: Clock | None = None,
        busy_seconds: float = BUSY_SECONDS,
    ) -> Self:
        """Open a store; see `database.connect` for modes and errors."""
        place = Path(path)
        connection = connect(place, mode, busy_seconds)
        return cls(connection, place, mode, SystemClock() if clock is None else clock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    # ---- writing -------------------------------------------------------------------------------

    def ingest(
        self,
        documents: Iterable[Document],
        stamp: Stamp = OWNER,
        *,
        batch: int = BATCH,
        committed: Callable[[list[Receipt]], None] = lambda _: None,
    ) -> Summary:
        """Ingest documents in transactions of `batch`; `committed` is told of each one.

        When this is interrupted, what `committed` was told of is kept.
        """
        if self._mode == "read":
            raise StoreReadOnlyError(f"{self.path} was opened for reading")
        summary = Summary()
        with translated(self.path):
            for some in _batches(documents, batch):
                receipts = self._writer.ingest(some, stamp)
                summary.count(receipts)
                committed(receipts)
        return summary

    # ---- reading -------------------------------------------------------------------------------

    def state(self, subject: Subject) -> State | None:
        """A subject's state from the table, or None. Raises TrustCorruptionError."""
        with translated(self.path):
            return reader.read_state(self._connection, subject)

    def states(self) -> list[State | Corrupt]:
        """The table, in the order of subjects."""
        with translated(self.path):
            return list(reader.read_states(self._connection))

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

    def _settle(self, moment: int) -> None:
        reader.settle(self._connection, moment, self.clock.now(), writable=self._mode != "read")


def _batches(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    some = iter(documents)
    while batch := list(islice(some, size)):
        yield batch
