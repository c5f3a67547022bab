"""The port of the command line: what its commands need of any store, in a file or on a broker.

Calls wait until they are done. `trust_store` is the port of runtimes and policies, which is async
and smaller. A store on a broker answers only while it is known to be complete, and says so else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Literal, Protocol, Self

from trustfold_projections.laws.explanation import Explanation
from trustfold_projections.laws.leaderboard import Leaderboard
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.facts import Stamp
from trustfold_schemas.ledger import Entry
from trustfold_schemas.pending import Pending
from trustfold_schemas.receipts import Document, Receipt, Summary
from trustfold_schemas.scores import Corrupt, State
from trustfold_schemas.status import PipelineStatus, Status
from trustfold_schemas.stored_dead_letters import StoredDeadLetter
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock

BATCH = 1_000
"""Documents of an ingest that are reported together once they are durable."""


class Store(Protocol):
    """An open store. Use as a context manager; nothing that was reported is lost by closing."""

    @property
    def clock(self) -> Clock:
        """What tells the store the time."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def close(self) -> None:
        """Let go of the file or the broker."""
        ...

    # ---- reading -------------------------------------------------------------------------------

    def state(self, subject: Subject) -> State | None:
        """A subject's state from the table, or None. Raises TrustCorruptionError."""
        ...

    def states(self) -> list[State | Corrupt]:
        """The table, in the order of subjects."""
        ...

    def settled(self, moment: int) -> bool:
        """Whether nothing will be recorded at or before a moment any more."""
        ...

    def state_as_of(self, subject: Subject, moment: int) -> State | None:
        """A subject's state as of a moment. Raises NotSettledError."""
        ...

    def states_as_of(self, moment: int) -> list[State]:
        """The table as of a moment, in the order of subjects. Raises NotSettledError."""
        ...

    def leaderboard(self, top: int, now: int, as_of: int | None = None) -> Leaderboard:
        """The best at the moment `now`, of the table or as of a moment. Raises NotSettledError."""
        ...

    def entries(self, subject: Subject) -> list[Entry]:
        """A subject's ledger entries, in log order."""
        ...

    def entries_without(self, subject: Subject, name: str) -> list[Entry]:
        """A subject's ledger had an event or a trace never been. Raises UnknownNameError."""
        ...

    def explain(self, subject: Subject, now: int, latest: int = 10) -> Explanation | None:
        """A subject's score taken apart, with its latest entries; None if nothing touched it."""
        ...

    def state_if(
        self, subject: Subject, *, to: int | None = None, lift: str | None = None
    ) -> State:
        """A subject's state if it were rolled back to a moment, or a rollback were lifted."""
        ...

    def rollback_subject(self, rollback_id: str) -> Subject:
        """The subject that a rollback was of. Raises UnknownNameError."""
        ...

    def pending(self) -> list[Pending]:
        """Every trace that is not finished, the oldest first."""
        ...

    def dead_letters(
        self, reasons: Sequence[Reason] = (), *, replayed: bool = False, ids: Sequence[int] = ()
    ) -> list[StoredDeadLetter]:
        """The dead letters, oldest first; those replayed only on request or by id."""
        ...

    def status(self) -> Status | PipelineStatus:
        """What the store holds."""
        ...

    # ---- writing -------------------------------------------------------------------------------

    def ingest(
        self,
        documents: Iterable[Document],
        stamp: Stamp | None = None,
        *,
        batch: int = BATCH,
        committed: Callable[[list[Receipt]], None] = lambda _: None,
    ) -> Summary:
        """Take documents in; `committed` is told of each `batch` of them once it is durable."""
        ...

    def rollback(self, subject: Subject, to: int, by: str, why: str) -> str:
        """Make what was recorded of a subject after `to` not count; the id of the rollback."""
        ...

    def lift(self, rollback_id: str, by: str, why: str) -> Subject:
        """Take a rollback away; the subject it was of. Raises UnknownNameError."""
        ...

    def exclude(
        self, trace_id: str, by: str, why: str, what: Literal["exclude", "include"] = "exclude"
    ) -> None:
        """Take a trace's contribution out, or put it back. Raises UnknownNameError."""
        ...

    def replay(
        self, letter: StoredDeadLetter, repaired: bytes | None = None, stamp: Stamp | None = None
    ) -> Receipt:
        """Take a dead letter in again, in the role of its first publisher unless told otherwise.

        Its own bytes go under their own id, repaired ones under an id that names it. It is marked
        as replayed once they are durable and were not refused. Raises ValueError for a repaired
        document that is no JSON object.
        """
        ...
