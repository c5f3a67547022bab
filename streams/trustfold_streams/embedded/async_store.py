"""The embedded store as an async TrustStore: one thread of its own does the waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from trustfold_projections.laws.explanation import Explanation
from trustfold_projections.laws.scoring import score_of
from trustfold_schemas import actions
from trustfold_schemas.facts import OWNER, Role, Stamp
from trustfold_schemas.instants import instant_of
from trustfold_schemas.receipts import Document, Summary
from trustfold_schemas.scores import State, TrustScore
from trustfold_schemas.subject import Subject, subject_of
from trustfold_streams.calls import TrustCalls, Write
from trustfold_streams.clock import Clock
from trustfold_streams.embedded.database import Mode
from trustfold_streams.embedded.policy_calls import PolicyCalls
from trustfold_streams.embedded.store import SOURCE, EmbeddedStore
from trustfold_streams.embedded.verify import Report
from trustfold_streams.trust_store import AnySubject

R = TypeVar("R")


class AsyncEmbeddedStore(PolicyCalls, TrustCalls):
    """A TrustStore and its TrustPolicy in one SQLite file; made by `trustfold.open`.

    Use with `async with`.

    A call that is cancelled while it writes is still carried out as a whole, or not at all.
    """

    def __init__(self, path: str | Path, stamp: Stamp = OWNER, clock: Clock | None = None) -> None:
        super().__init__()
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
        await self._let_go_of_the_table()
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

    async def publish(self, event_id: str, time: int | None, write: Write) -> None:
        """Write one event of this id, at a moment or now; durable when this returns."""

        def publish(store: EmbeddedStore) -> None:
            moment = store.clock.now() if time is None else time
            store.publish(write(actions.Author(SOURCE, event_id, moment)))

        await self._do(publish)

    async def rollback_subject(self, rollback_id: str) -> Subject:
        """The subject that a rollback was of. Raises UnknownNameError."""
        return await self._do(lambda store: store.rollback_subject(rollback_id))

    async def require_trace(self, trace_id: str) -> None:
        """Raise UnknownNameError where no fact is of this trace."""
        await self._do(lambda store: store.require_trace(trace_id))


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
