"""An archive as a store to read: the same answers as the log it is of, as of any settled moment.

What is read is read from the files and summed by DuckDB; nothing can be written. Its table is the
log as of the moment up to which it has settled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

import duckdb

from trustfold_projections.analysis import as_of, views
from trustfold_projections.analysis.leaderboard import leaderboard_as_of
from trustfold_projections.analysis.records import facts_of_event, facts_of_trace, medians_of
from trustfold_projections.analysis.verify import Report, verify
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.opening import Archive
from trustfold_projections.laws.explanation import (
    Explanation,
    explain,
    state_if,
    without_event,
    without_trace,
)
from trustfold_projections.laws.leaderboard import Leaderboard
from trustfold_schemas.errors import CallerError, UnknownNameError
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry
from trustfold_schemas.pending import Pending
from trustfold_schemas.receipts import Receipt, Summary
from trustfold_schemas.scores import Corrupt, State
from trustfold_schemas.status import PipelineStatus, Status
from trustfold_schemas.stored_dead_letters import StoredDeadLetter
from trustfold_schemas.subject import Subject, subject_from_key
from trustfold_streams.archiver.locks import reading
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.closing import Closing


class ArchiveIsReadError(CallerError):
    """An archive is read; what changes a log, or asks of its present, goes to the log itself."""


class ArchiveStore(Closing):
    """One archive, open for reading. Use as a context manager; while it is open no file goes."""

    def __init__(
        self, archive: Archive, connection: duckdb.DuckDBPyConnection, clock: Clock
    ) -> None:
        self.archive = archive
        self.clock = clock
        self._connection = connection
        self._held = contextlib.ExitStack()

    @classmethod
    def open(cls, folder: Path, clock: Clock | None = None) -> Self:
        """Open an archive. Raises NoArchiveError, ArchiveDamagedError."""
        with contextlib.ExitStack() as opening:
            if folder.is_dir():
                opening.enter_context(reading(folder))
            archive = Archive.open(folder)
            connection = opening.enter_context(contextlib.closing(in_memory()))
            store = cls(archive, connection, SystemClock() if clock is None else clock)
            store._held = opening.pop_all()
        return store

    def close(self) -> None:
        """Let go of the files."""
        self._held.close()

    # ---- reading -------------------------------------------------------------------------------

    def settled(self, moment: int) -> bool:
        """Whether the archive can say what was known at a moment."""
        return moment <= self.archive.settled

    def state(self, subject: Subject) -> State | None:
        """A subject's state as of the moment the archive has settled up to, or None."""
        return self.state_as_of(subject, self.archive.settled)

    def states(self) -> list[State | Corrupt]:
        """Every subject's state as of the moment the archive has settled up to."""
        return [*self.states_as_of(self.archive.settled)]

    def state_as_of(self, subject: Subject, moment: int) -> State | None:
        """A subject's state as of a moment. Raises NotSettledError."""
        found = as_of.states_as_of(self._connection, self.archive, moment, subject)
        return found[0] if found else None

    def states_as_of(self, moment: int) -> list[State]:
        """The table as of a moment, in the order of subjects. Raises NotSettledError."""
        return as_of.states_as_of(self._connection, self.archive, moment)

    def leaderboard(self, top: int, now: int, as_of: int | None = None) -> Leaderboard:
        """The best at the moment `now`, as of a moment or of all. Raises NotSettledError."""
        moment = self.archive.settled if as_of is None else as_of
        return leaderboard_as_of(self._connection, self.archive, top, moment, now)

    def entries(self, subject: Subject) -> list[Entry]:
        """A subject's ledger entries, in log order."""
        return as_of.read_entries(self._connection, self.archive, self.archive.settled, subject)

    def entries_without(self, subject: Subject, name: str) -> list[Entry]:
        """A subject's ledger had an event or a trace never been. Raises UnknownNameError."""
        entries = self.entries(subject)
        if facts_of_trace(self._connection, self.archive, name):
            return without_trace(entries, name)
        named = facts_of_event(self._connection, self.archive, name)
        if not named:
            raise UnknownNameError(f"no event and no trace of the archive is named {name!r}")
        traces = sorted({trace_id for trace_id in named if trace_id is not None})
        of_traces: dict[str, Sequence[Fact]] = {
            trace_id: facts_of_trace(self._connection, self.archive, trace_id)
            for trace_id in traces
        }
        return without_event(
            subject, entries, name, of_traces, medians_of(self._connection, self.archive)
        )

    def explain(self, subject: Subject, now: int, latest: int = 10) -> Explanation | None:
        """A subject's score taken apart, with its latest entries; None if nothing touched it."""
        entries = self.entries(subject)
        return explain(subject, entries, now, latest) if entries else None

    def state_if(
        self, subject: Subject, *, to: int | None = None, lift: str | None = None
    ) -> State:
        """A subject's state if it were rolled back to a moment, or a rollback were lifted."""
        return state_if(subject, self.entries(subject), self.archive.settled, to=to, lift=lift)

    def rollback_subject(self, rollback_id: str) -> Subject:
        """The subject that a rollback in force is of. Raises UnknownNameError."""
        found = as_of.rollbacks_as_of(self._connection, self.archive, self.archive.settled)
        for key, rollbacks in found.items():
            if any(one.rollback_id == rollback_id for one in rollbacks):
                return subject_from_key(key)
        raise UnknownNameError(f"no rollback in force is named {rollback_id!r}")

    def attach_views(self) -> duckdb.DuckDBPyConnection:
        """A connection with every view of `analysis.views`, over files that cannot go meanwhile."""
        views.attach(self._connection, self.archive.folder)
        return self._connection

    # ---- what only the log itself can do -------------------------------------------------------

    def pending(self) -> list[Pending]:
        """Not of an archive: what is pending is a matter of the present."""
        self._refuse("what is pending")

    def status(self) -> Status | PipelineStatus:
        """Not of an archive: `verify` says what it holds."""
        self._refuse("the status of the store")

    def dead_letters(self, *_: Any, **__: Any) -> list[StoredDeadLetter]:
        """Not of an archive, which holds each as it first came: see its view `dead_letters`."""
        self._refuse("how often a dead letter came and whether it was replayed")

    def ingest(self, *_: Any, **__: Any) -> Summary:
        """Not of an archive."""
        self._refuse("ingesting")

    def rollback(self, *_: Any, **__: Any) -> str:
        """Not of an archive."""
        self._refuse("rolling back")

    def lift(self, *_: Any, **__: Any) -> Subject:
        """Not of an archive."""
        self._refuse("lifting a rollback")

    def exclude(self, *_: Any, **__: Any) -> None:
        """Not of an archive."""
        self._refuse("excluding a trace")

    def replay(self, *_: Any, **__: Any) -> Receipt:
        """Not of an archive."""
        self._refuse("replaying a dead letter")

    def _refuse(self, what: str) -> NoReturn:
        raise ArchiveIsReadError(
            f"{self.archive.folder} is an archive: {what} is for the store it was made from; give "
            "that as --store"
        )


def verify_archive(
    folder: Path, anchor: str | None = None, advance: Callable[[int], None] = lambda _: None
) -> Report:
    """Prove an archive, however damaged; see `analysis.verify`. Raises NoArchiveError."""
    with contextlib.ExitStack() as held:
        if folder.is_dir():
            held.enter_context(reading(folder))
        connection = held.enter_context(contextlib.closing(in_memory()))
        return verify(connection, folder, anchor, advance)
