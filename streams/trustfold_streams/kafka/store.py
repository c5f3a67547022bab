"""The TrustStore over Kafka: publishes through the publisher, reads through the table reader.

Writers return when the broker has it; the score follows. A table that may be stale raises
StaleTableError rather than answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from trustfold_projections.laws.scoring import score_of
from trustfold_schemas import actions
from trustfold_schemas.errors import EventRefused, TrustCorruptionError, UnknownNameError
from trustfold_schemas.facts import Role
from trustfold_schemas.instants import instant_of
from trustfold_schemas.scores import State, TrustScore
from trustfold_schemas.subject import Subject, subject_of
from trustfold_streams.calls import TrustCalls, Write
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.closing import AsyncClosing
from trustfold_streams.kafka.publisher import Publisher
from trustfold_streams.kafka.reaching import require_topics, topics_there, translated
from trustfold_streams.kafka.settings import SCHEME, KafkaSettings, load
from trustfold_streams.kafka.table import TableReader
from trustfold_streams.trust_store import AnySubject

SOURCE = "trustfold/kafka"
"""The source of events that are published by a call."""


class AsyncKafkaStore(AsyncClosing, TrustCalls):
    """A TrustStore on a broker, held in one role. Use with `async with`; made by `connect`.

    What the stages refuse by itself raises EventRefused and is kept as a dead letter; what only
    correlation can refuse becomes one later. Raises BrokerError where the broker fails, and
    StaleTableError from what reads scores unless they are complete as of the last minute.
    """

    def __init__(
        self, settings: KafkaSettings, role: Role = "owner", clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self.clock = SystemClock() if clock is None else clock
        self.table = TableReader(settings, self.clock)
        self._publisher = Publisher(settings, role)
        self._rolled_back: dict[str, Subject] = {}

    async def _enter(self, opening: contextlib.AsyncExitStack) -> None:
        with translated(self.settings):
            have = await topics_there(self.settings)
            require_topics(self.settings, have, ("scores", "progress", "policy"))
            if self._publisher.role != "reader":
                await opening.enter_async_context(self._publisher)
            opening.push_async_callback(self.table.stop)
            await self.table.start()

    async def get(self, subject: AnySubject, now: datetime | None = None) -> TrustScore | None:
        """A subject's score at `now`; None while it has no samples.

        A corrupt record is no trust: an empty score, after a critical log line. Raises
        StaleTableError.
        """
        self.table.refuse_if_stale()
        wanted = subject_of(*subject)
        try:
            state = self.table.state(wanted)
        except TrustCorruptionError:
            return TrustScore.empty(wanted)
        if state is None or state.n_samples == 0:
            return None
        return score_of(state, self.clock.now() if now is None else instant_of(now))

    async def snapshot(self, now: datetime | None = None) -> dict[Subject, TrustScore]:
        """Every subject with samples; a corrupt one is there without trust.

        Raises StaleTableError.
        """
        self.table.refuse_if_stale()
        moment = self.clock.now() if now is None else instant_of(now)
        return {
            one.subject: score_of(one, moment)
            if isinstance(one, State)
            else TrustScore.empty(one.subject)
            for one in self.table.states()
            if not isinstance(one, State) or one.n_samples
        }

    async def ingest(self, documents: Iterable[bytes]) -> int:
        """Publish event documents, those that will be refused too; how many were sent."""
        sent = 0
        for document in documents:
            with contextlib.suppress(EventRefused):
                await self._publisher.publish(document)
            sent += 1
        return sent

    async def publish(self, event_id: str, time: int | None, write: Write) -> None:
        """Publish one event of this id, at a moment or now; durable when this returns."""
        moment = self.clock.now() if time is None else time
        await self._publisher.publish(write(actions.Author(SOURCE, event_id, moment)))

    async def rollback(
        self, subject: AnySubject, to: datetime, by: str = "unnamed", why: str = "rollback"
    ) -> str:
        """Make what was recorded of a subject after `to` not count; the rollback's id."""
        rollback_id = await super().rollback(subject, to, by, why)
        self._rolled_back[rollback_id] = subject_of(*subject)
        return rollback_id

    async def rollback_subject(self, rollback_id: str) -> Subject:
        """The subject of a rollback that is in force, or was made here. Raises UnknownNameError."""
        if rollback_id in self._rolled_back:
            return self._rolled_back[rollback_id]
        self.table.refuse_if_stale()
        for state in self.table.states():
            if isinstance(state, State) and any(
                rollback.rollback_id == rollback_id for rollback in state.rollbacks
            ):
                return state.subject
        raise UnknownNameError(f"no rollback in force is named {rollback_id!r}")

    async def require_trace(self, trace_id: str) -> None:
        """Any trace may be spoken of: its facts may still be on their way."""


def connect(
    bootstrap: str | None = None,
    *,
    role: Role = "owner",
    config: str | Path | None = None,
    settings: KafkaSettings | None = None,
    clock: Clock | None = None,
) -> AsyncKafkaStore:
    """A store on a pipeline, in one role; see `trustfold.connect`.

    `settings` stands for all of bootstrap, configuration and environment.
    """
    if settings is None:
        store = None if bootstrap is None else f"{SCHEME}{bootstrap}"
        settings = load(store, None if config is None else Path(config))
    return AsyncKafkaStore(settings, role, clock)
