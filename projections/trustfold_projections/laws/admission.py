"""Ingest's checks: what one document may say, judged by itself and by its publisher (SPEC 2).

No state is kept; what compares with the log is the business of correlation.
"""

from __future__ import annotations

from typing import Final

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import (
    ApprovalDecidedEvent,
    CostMedianEvent,
    Event,
    NeuronSynthesizedEvent,
    RollbackLiftedEvent,
    SelfPlayCompletedEvent,
    SignalsReportedEvent,
    StepRecordedEvent,
    SubjectRolledBackEvent,
    TraceClosedEvent,
    UndoExecutedEvent,
    type_of,
)
from trustfold_schemas.facts import Role, Stamp
from trustfold_schemas.policy_events import PolicyEvent, TrustRevokedEvent

PUBLISHERS: Final[dict[str, frozenset[Role]]] = {
    "trace-closed": frozenset({"runtime"}),
    "step": frozenset({"runtime"}),
    "self-play": frozenset({"runtime"}),
    "approval": frozenset({"human", "runtime"}),
    "undo": frozenset({"human", "runtime"}),
    "signals": frozenset({"operator"}),
    "exclusion": frozenset({"operator"}),
    "rollback": frozenset({"operator"}),
    "policy": frozenset({"operator"}),
    "cost-median": frozenset({"operator"}),
    "synthesis": frozenset({"operator"}),
}
"""The roles that may publish the types of each input topic; `owner` may publish all."""


def admit(document: bytes, stamp: Stamp) -> Event:
    """Read a document and check that its publisher may say it. Raises EventRefused."""
    event = decode_event(document)
    _check_role(event, stamp)
    _check_scope(event, stamp)
    return event


def _check_role(event: Event, stamp: Stamp) -> None:
    if stamp.role == "owner":
        return
    if isinstance(event, ApprovalDecidedEvent | UndoExecutedEvent):
        if isinstance(event, ApprovalDecidedEvent):
            field, by = "decided_by", event.data.decided_by
        else:
            field, by = "by", event.data.by
        if by.kind == "human" and stamp.role != "human":
            raise EventRefused(
                Reason.NOT_HUMAN,
                f"Expected `human` from a publisher in the role human, "
                f"got it from the role {stamp.role} - at `$.data.{field}.kind`",
            )
    allowed = PUBLISHERS[event.topic]
    if stamp.role not in allowed:
        raise EventRefused(
            Reason.NOT_PERMITTED,
            f"Expected `{type_of(event)}` from the role {' or '.join(sorted(allowed))}, "
            f"got it from the role {stamp.role}",
        )


def _check_scope(event: Event, stamp: Stamp) -> None:
    if stamp.scopes is None:
        return
    spoken = _scope_spoken_of(event)
    if spoken is not None and not stamp.may_speak_of(spoken):
        raise EventRefused(
            Reason.SCOPE_MISMATCH,
            f"Expected a scope among {', '.join(f'`{s}`' for s in stamp.scopes)}, got `{spoken}`",
        )


def _scope_spoken_of(event: Event) -> str | None:
    """The scope an event decides about; None for feedback, whose trace's scope the log knows."""
    if isinstance(event, TraceClosedEvent | StepRecordedEvent | SelfPlayCompletedEvent):
        return event.data.scope
    if isinstance(event, NeuronSynthesizedEvent | CostMedianEvent | TrustRevokedEvent):
        return event.data.scope
    if isinstance(event, SignalsReportedEvent | SubjectRolledBackEvent | RollbackLiftedEvent):
        return event.data.subject.scope
    # Thresholds, declarations and the mode hold in every scope, so only who may speak of all
    # scopes may set them.
    return "*" if isinstance(event, PolicyEvent) else None
