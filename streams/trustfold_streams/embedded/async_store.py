"""The embedded store as an async TrustStore: one thread of its own does the waiting."""

from __future__ import annotations

import asyncio
import getpass
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from trustfold_projections.laws.explanation import Explanation
from trustfold_projections.laws.scoring import score_of
from trustfold_projections.laws.signals import TraceSignals
from trustfold_schemas import actions
from trustfold_schemas.facts import OWNER, Role, Stamp
from trustfold_schemas.instants import instant_of
from trustfold_schemas.scores import State, TrustScore
from trustfold_schemas.subject import Subject, neuron_subject, subject_of
from trustfold_streams.clock import Clock
from trustfold_streams.embedded.database import Mode
from trustfold_streams.embedded.receipts import Document, Summary
from trustfold_streams.embedded.store import SOURCE, EmbeddedStore
from trustfold_streams.embedded.verify import Report
from trustfold_streams.trust_store import AnySubject

R = TypeVar("R")


class AsyncEmbeddedStore:
    """A TrustStore in one SQLite file. Use with `async with`; made by `trustfold.open`.

    A call that is cancelled while it writes is still carried out as a whole, or not at all.
    """

    def __init__(self, path: str | Path, stamp: Stamp = OWNER, clock: Clock | None = None) -> None:
        self._path = path
        self._stamp = stamp
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trustfold")
        self._opened: EmbeddedStore | None = None

    async def __aenter__(self) -> Self:
        mode: Mode = "read" if self._stamp.role == "reader" else "create"
        self._opened = await asyncio.get_running_loop().run_in_executor(
            self._thread,
            lambda: EmbeddedStore.open(self._path, mode, stamp=self._stamp, clock=self._clock),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._do(EmbeddedStore.close)
        self._thread.shutdown(wait=False)
        self._opened = None

    async def _do(self, work: Callable[[EmbeddedStore], R]) -> R:
        store = self._opened
        if store is None:
            raise RuntimeError("the store is not open; use `async with trustfold.open(...)`")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, store)

    # ---- reading -------------------------------------------------------------------------------

    async def get(self, subject: AnySubject, now: datetime | None = None) -> TrustScore | None:
        """A subject's score at `now`; None while it has no samples.

        A corrupt record is no trust: an empty score, after a critical log line.
        """
        wanted = subject_of(*subject)
        return await self._do(lambda store: store.get(wanted, _moment(now)))

    async def get_for_neuron(
        self, name: str, scope: str = "", now: datetime | None = None
    ) -> TrustScore | None:
        """The score of a neuron."""
        return await self.get(neuron_subject(scope, name), now)

    async def snapshot(self, now: datetime | None = None) -> dict[Subject, TrustScore]:
        """Every subject with samples; a corrupt one is there without trust."""

        def read(store: EmbeddedStore) -> dict[Subject, TrustScore]:
            moment = store.clock.now() if now is None else instant_of(now)
            return {
                one.subject: score_of(one, moment)
                if isinstance(one, State)
                else TrustScore.empty(one.subject)
                for one in store.states()
                if not isinstance(one, State) or one.n_samples
            }

        return await self._do(read)

    async def explain(
        self, subject: AnySubject, now: datetime | None = None, latest: int = 10
    ) -> Explanation | None:
        """A subject's score taken apart; None if nothing touched it."""
        wanted = subject_of(*subject)

        def read(store: EmbeddedStore) -> Explanation | None:
            moment = store.clock.now() if now is None else instant_of(now)
            return store.explain(wanted, moment, latest)

        return await self._do(read)

    async def verify(self, anchor: str | None = None) -> Report:
        """Prove the store; see `trustfold verify`."""
        return await self._do(lambda store: store.verify(anchor))

    # ---- writing -------------------------------------------------------------------------------

    async def ingest(self, documents: Iterable[bytes]) -> Summary:
        """Ingest event documents; durable when this returns."""
        made = [Document(body, "a call") for body in documents]
        return await self._do(lambda store: store.ingest(made))

    async def update(
        self,
        subject: AnySubject,
        signals: TraceSignals | Mapping[str, Any],
        now: datetime | None = None,
    ) -> str:
        """Publish ready-made evidence for a subject; the id of the trace made for it."""
        wanted, trace_id = subject_of(*subject), str(uuid.uuid4())
        said = signals.reported() if isinstance(signals, TraceSignals) else signals
        await self._publish(
            now, lambda author: actions.signals_reported(author, trace_id, wanted, said)
        )
        return trace_id

    async def bulk_update_from_trace(
        self, trace: Mapping[str, Any], now: datetime | None = None
    ) -> None:
        """Publish a closed trace; its event id derives from it, so again is a duplicate.

        When it closed is its own `closed_at` (a datetime), or `now`; the second time must say
        the same, or it is a conflict.
        """
        data = dict(trace)
        closed = data.pop("closed_at", now)
        event_id = f"{data.get('trace_id')}/closed"
        await self._publish(closed, lambda author: actions.trace_closed(author, data), event_id)

    async def record_approval_outcome(
        self, trace_id: str, approval: Mapping[str, Any], now: datetime | None = None
    ) -> str:
        """Publish an answer: `decision`, `decided_by`, and whom it names; the event's id."""
        return await self._publish(
            now, lambda author: actions.approval_decided(author, trace_id, approval)
        )

    async def record_undo(
        self,
        trace_id: str,
        by: Mapping[str, str] | None = None,
        step_ids: Sequence[str] | None = None,
        now: datetime | None = None,
    ) -> str:
        """Publish an undo, of the whole trace unless steps are named; the event's id.

        Without `by` it is a human's, of this login: the seed's `/undo` is typed by a person.
        """
        who = {"kind": "human", "id": getpass.getuser()} if by is None else by
        return await self._publish(
            now, lambda author: actions.undo_executed(author, trace_id, who, step_ids)
        )

    async def rollback(
        self, subject: AnySubject, to: datetime, by: str = "unnamed", why: str = "rollback"
    ) -> str:
        """Make what was recorded of a subject after `to` not count; the rollback's id."""
        wanted, moment = subject_of(*subject), instant_of(to)
        return await self._do(lambda store: store.rollback(wanted, moment, by, why))

    async def lift(self, rollback_id: str, by: str = "unnamed", why: str = "lift") -> None:
        """Take a rollback away. Raises UnknownNameError."""
        await self._do(lambda store: store.lift(rollback_id, by, why))

    async def exclude(self, trace_id: str, by: str, why: str) -> None:
        """Take a trace's evidence out of every score. Raises UnknownNameError."""
        await self._do(lambda store: store.exclude(trace_id, by, why, "exclude"))

    async def include(self, trace_id: str, by: str, why: str) -> None:
        """Put a trace's evidence back. Raises UnknownNameError."""
        await self._do(lambda store: store.exclude(trace_id, by, why, "include"))

    async def _publish(
        self,
        now: datetime | None,
        write: Callable[[actions.Author], bytes],
        event_id: str | None = None,
    ) -> str:
        name = event_id or str(uuid.uuid4())

        def publish(store: EmbeddedStore) -> str:
            moment = store.clock.now() if now is None else instant_of(now)
            store.publish(write(actions.Author(SOURCE, name, moment)))
            return name

        return await self._do(publish)


def open_store(
    path: str | Path = "trust.db",
    *,
    role: Role = "owner",
    identity: str | None = None,
    scopes: Sequence[str] | None = None,
    clock: Clock | None = None,
) -> AsyncEmbeddedStore:
    """Open a store in a file, in one role; see `trustfold.open`."""
    stamp = Stamp(role, identity, None if scopes is None else tuple(scopes))
    return AsyncEmbeddedStore(path, stamp, clock)


def _moment(now: datetime | None) -> int | None:
    return None if now is None else instant_of(now)
