"""The writing half of the TrustStore port: each call made into one event, for every store alike."""

from __future__ import annotations

import getpass
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from trustfold_projections.laws.signals import TraceSignals
from trustfold_schemas import actions
from trustfold_schemas.instants import instant_of
from trustfold_schemas.scores import TrustScore
from trustfold_schemas.subject import Subject, neuron_subject, subject_of
from trustfold_streams.trust_store import AnySubject

Write = Callable[[actions.Author], bytes]


class TrustCalls(ABC):
    """What every async store says alike; a store adds how an event is published and read."""

    @abstractmethod
    async def get(self, subject: AnySubject, now: datetime | None = None) -> TrustScore | None:
        """A subject's score at `now`; None while it has no samples."""

    @abstractmethod
    async def publish(self, event_id: str, time: int | None, write: Write) -> None:
        """Write one event of this id, at a moment or now; durable when this returns."""

    @abstractmethod
    async def rollback_subject(self, rollback_id: str) -> Subject:
        """The subject that a rollback was of. Raises UnknownNameError."""

    @abstractmethod
    async def require_trace(self, trace_id: str) -> None:
        """Raise UnknownNameError where the store can tell that no fact is of this trace."""

    async def get_for_neuron(
        self, name: str, scope: str = "", now: datetime | None = None
    ) -> TrustScore | None:
        """The score of a neuron."""
        return await self.get(neuron_subject(scope, name), now)

    async def update(
        self,
        subject: AnySubject,
        signals: TraceSignals | Mapping[str, Any],
        now: datetime | None = None,
    ) -> str:
        """Publish ready-made evidence for a subject; the id of the trace made for it."""
        wanted, trace_id = subject_of(*subject), str(uuid.uuid4())
        said = signals.reported() if isinstance(signals, TraceSignals) else signals
        await self._say(
            lambda author: actions.signals_reported(author, trace_id, wanted, said), now
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
        await self._say(
            lambda author: actions.trace_closed(author, data),
            closed,
            f"{data.get('trace_id')}/closed",
        )

    async def record_approval_outcome(
        self, trace_id: str, approval: Mapping[str, Any], now: datetime | None = None
    ) -> str:
        """Publish an answer: `decision`, `decided_by`, and whom it names; the event's id."""
        return await self._say(
            lambda author: actions.approval_decided(author, trace_id, approval), now
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
        return await self._say(
            lambda author: actions.undo_executed(author, trace_id, who, step_ids), now
        )

    async def rollback(
        self, subject: AnySubject, to: datetime, by: str = "unnamed", why: str = "rollback"
    ) -> str:
        """Make what was recorded of a subject after `to` not count; the rollback's id."""
        wanted, moment = subject_of(*subject), instant_of(to)
        return await self._say(
            lambda author: actions.subject_rolled_back(author, wanted, moment, by, why)
        )

    async def lift(self, rollback_id: str, by: str = "unnamed", why: str = "lift") -> None:
        """Take a rollback away. Raises UnknownNameError."""
        subject = await self.rollback_subject(rollback_id)
        await self._say(
            lambda author: actions.rollback_lifted(author, subject, rollback_id, by, why)
        )

    async def exclude(self, trace_id: str, by: str, why: str) -> None:
        """Take a trace's evidence out of every score. Raises UnknownNameError."""
        await self._exclusion("exclude", trace_id, by, why)

    async def include(self, trace_id: str, by: str, why: str) -> None:
        """Put a trace's evidence back. Raises UnknownNameError."""
        await self._exclusion("include", trace_id, by, why)

    async def _exclusion(
        self, what: Literal["exclude", "include"], trace_id: str, by: str, why: str
    ) -> None:
        await self.require_trace(trace_id)
        await self._say(lambda author: actions.trace_exclusion(author, what, trace_id, by, why))

    async def _say(
        self, write: Write, now: datetime | None = None, event_id: str | None = None
    ) -> str:
        name = event_id or str(uuid.uuid4())
        await self.publish(name, None if now is None else instant_of(now), write)
        return name
