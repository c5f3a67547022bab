"""The port that users hold: the seed's TrustStore, async, the same for every store (SPEC 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from trustfold_projections.laws.policy import TrustThresholdRegistry
from trustfold_projections.laws.policy.hindsight import Differing
from trustfold_projections.laws.signals import TraceSignals
from trustfold_schemas.decisions import Action, Decision, Verdict
from trustfold_schemas.events import Reversibility
from trustfold_schemas.scores import TrustScore
from trustfold_schemas.subject import Subject
from trustfold_streams.policy_port import Impacts, Why

AnySubject = Subject | tuple[str, str] | tuple[str, str, str]
"""(tool, effect), which means scope "", or (scope, tool, effect)."""


class TrustPolicy(Protocol):
    """What the policy of a store answers (SPEC 5)."""

    async def thresholds(self) -> TrustThresholdRegistry:
        """The thresholds in force now."""
        ...

    async def decide(self, action: Action | Mapping[str, Any]) -> Decision:
        """Whether an action may go without asking; recorded before it is answered.

        An action is `{subject, reversibility, trace_id, step_id, args_fingerprint?}`. The same
        question within 24 hours gets the recorded decision again. Raises ActionError and
        NotPermittedError.
        """
        ...

    async def peek(self, subject: AnySubject, reversibility: Reversibility | None) -> Verdict:
        """What the answer would be, from memory and without recording it."""
        ...

    async def why(self, decision_id: str) -> Why:
        """A decision followed back to the facts. Raises UnknownNameError."""
        ...

    async def impact(self, name: str) -> Impacts:
        """The promotions that rested on a trace, or on what an event said."""
        ...

    async def decisions(self, subject: AnySubject) -> list[Decision]:
        """A subject's recorded decisions, those of a trace in the order of the log."""
        ...

    async def differing(self, subject: AnySubject, name: str) -> list[Differing]:
        """A subject's decisions that would differ had an event or a trace never been."""
        ...

    async def revoke(
        self, why: str, *, by: str = "unnamed", scope: str = "*", tool: str = "*", effect: str = "*"
    ) -> str:
        """Promote no subject any more that all three globs match; the revocation's id."""
        ...

    async def reinstate(self, revocation_id: str, why: str, *, by: str = "unnamed") -> None:
        """Take a revocation away. Raises UnknownNameError."""
        ...


class TrustStore(Protocol):
    """What every store can do. Writers return when what they wrote is durable.

    `now` defaults to the store's clock. What the log refuses raises EventRefused, and is kept
    as a dead letter.
    """

    async def get(self, subject: AnySubject, now: datetime | None = None) -> TrustScore | None:
        """A subject's score at `now`; None while it has no samples, which means no trust."""
        ...

    async def get_for_neuron(
        self, name: str, scope: str = "", now: datetime | None = None
    ) -> TrustScore | None:
        """The score of a neuron."""
        ...

    async def snapshot(self, now: datetime | None = None) -> dict[Subject, TrustScore]:
        """Every subject with samples; a corrupt one is there without trust."""
        ...

    async def update(
        self,
        subject: AnySubject,
        signals: TraceSignals | Mapping[str, Any],
        now: datetime | None = None,
    ) -> str:
        """Publish ready-made evidence for a subject; the id of the trace made for it."""
        ...

    async def bulk_update_from_trace(
        self, trace: Mapping[str, Any], now: datetime | None = None
    ) -> None:
        """Publish a closed trace: the data of `trace.closed`, and optionally `closed_at`.

        Its event id derives from the trace, so that the same trace again is a duplicate.
        """
        ...

    async def record_approval_outcome(
        self, trace_id: str, approval: Mapping[str, Any], now: datetime | None = None
    ) -> str:
        """Publish an answer: `decision`, `decided_by`, and whom it names; the event's id."""
        ...

    async def record_undo(
        self,
        trace_id: str,
        by: Mapping[str, str] | None = None,
        step_ids: Sequence[str] | None = None,
        now: datetime | None = None,
    ) -> str:
        """Publish an undo, of the whole trace unless steps are named; the event's id."""
        ...

    async def rollback(
        self, subject: AnySubject, to: datetime, by: str = "unnamed", why: str = "rollback"
    ) -> str:
        """Make what was recorded of a subject after `to` not count; the rollback's id."""
        ...

    async def lift(self, rollback_id: str, by: str = "unnamed", why: str = "lift") -> None:
        """Take a rollback away."""
        ...

    async def exclude(self, trace_id: str, by: str, why: str) -> None:
        """Take a trace's evidence out of every score."""
        ...

    async def include(self, trace_id: str, by: str, why: str) -> None:
        """Put a trace's evidence back."""
        ...
