"""The events that people and programs publish by a call: one function a type, bytes out.

Ids and moments are arguments, since nothing here is random and no clock is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from trustfold_schemas.decisions import ModeName, Threshold
from trustfold_schemas.documents import decimal_of, document
from trustfold_schemas.events import (
    ApprovalDecidedEvent,
    Event,
    Reversibility,
    RollbackLiftedEvent,
    SignalsReportedEvent,
    SubjectRolledBackEvent,
    TraceClosedEvent,
    TraceExcludedEvent,
    TraceIncludedEvent,
    UndoExecutedEvent,
    type_of,
)
from trustfold_schemas.instants import format_instant
from trustfold_schemas.policy_events import (
    EffectDeclaredEvent,
    EffectRemovedEvent,
    PolicyModeEvent,
    ThresholdRemovedEvent,
    ThresholdSetEvent,
    TrustReinstatedEvent,
    TrustRevokedEvent,
)
from trustfold_schemas.subject import Subject


class Author:
    """Who publishes: the source of the events, and where ids and moments come from."""

    def __init__(self, source: str, event_id: str, time: int) -> None:
        self.source = source
        self.event_id = event_id
        self.time = time

    def write(self, event: type[Event], data: Mapping[str, Any]) -> bytes:
        """One event of this author."""
        return document(type_of(event), self.event_id, self.source, self.time, data)


def trace_closed(author: Author, data: Mapping[str, Any]) -> bytes:
    """A closed trace; `data` as SPEC 2 has it."""
    return author.write(TraceClosedEvent, data)


def signals_reported(
    author: Author, trace_id: str, subject: Subject, signals: Mapping[str, Any]
) -> bytes:
    """Ready-made evidence for one subject; signals from 0 to 1, absent ones None."""
    return author.write(SignalsReportedEvent, {"trace_id": trace_id, "subject": subject, **signals})


def approval_decided(author: Author, trace_id: str, approval: Mapping[str, Any]) -> bytes:
    """An answer to a question for approval; `approval` is the data without the trace."""
    return author.write(ApprovalDecidedEvent, {"trace_id": trace_id, **approval})


def undo_executed(
    author: Author,
    trace_id: str,
    by: Mapping[str, str],
    step_ids: Sequence[str] | None = None,
    subjects: Sequence[Subject] | None = None,
) -> bytes:
    """Somebody took actions of a trace back."""
    data = {"trace_id": trace_id, "by": by, "step_ids": step_ids, "subjects": subjects}
    return author.write(UndoExecutedEvent, data)


def trace_exclusion(
    author: Author, what: Literal["exclude", "include"], trace_id: str, by: str, why: str
) -> bytes:
    """A trace's contribution taken out, or put back."""
    event = TraceExcludedEvent if what == "exclude" else TraceIncludedEvent
    return author.write(event, {"trace_id": trace_id, "by": by, "why": why})


def subject_rolled_back(author: Author, subject: Subject, to: int, by: str, why: str) -> bytes:
    """What was recorded of a subject after `to` does not count."""
    data = {"subject": subject, "to": format_instant(to), "by": by, "why": why}
    return author.write(SubjectRolledBackEvent, data)


def rollback_lifted(author: Author, subject: Subject, rollback_id: str, by: str, why: str) -> bytes:
    """A rollback taken away."""
    data = {"subject": subject, "rollback_id": rollback_id, "by": by, "why": why}
    return author.write(RollbackLiftedEvent, data)


def threshold_set(
    author: Author, threshold: Threshold, by: str, why: str, expected_version: int | None = None
) -> bytes:
    """A threshold for a glob and a band, in place of the version expected."""
    if threshold.effect is None:
        raise ValueError("Expected a threshold for a glob, got the default of a band")
    data = {
        "effect": threshold.effect,
        "risk_band": threshold.risk_band,
        "min_score": decimal_of(threshold.min_score),
        "min_samples": threshold.min_samples,
        "min_grants": threshold.min_grants,
        "min_approval_rate": decimal_of(threshold.min_approval_rate),
        "cap_autonomy": threshold.cap_autonomy,
    }
    return author.write(ThresholdSetEvent, data | _said(by, why, expected_version))


def threshold_removed(
    author: Author,
    effect: str,
    risk_band: Reversibility,
    by: str,
    why: str,
    expected_version: int | None = None,
) -> bytes:
    """A threshold taken away; what ruled before it rules again."""
    data = {"effect": effect, "risk_band": risk_band}
    return author.write(ThresholdRemovedEvent, data | _said(by, why, expected_version))


def effect_declared(
    author: Author,
    effect: str,
    reversibility: Reversibility,
    by: str,
    why: str,
    expected_version: int | None = None,
) -> bytes:
    """How far the effects that match a glob can be taken back."""
    data = {"effect": effect, "reversibility": reversibility}
    return author.write(EffectDeclaredEvent, data | _said(by, why, expected_version))


def effect_removed(
    author: Author, effect: str, by: str, why: str, expected_version: int | None = None
) -> bytes:
    """A declaration taken away."""
    return author.write(EffectRemovedEvent, {"effect": effect} | _said(by, why, expected_version))


def trust_revoked(
    author: Author, by: str, why: str, scope: str = "*", tool: str = "*", effect: str = "*"
) -> bytes:
    """No promotion any more of the subjects that all three globs match."""
    data = {"scope": scope, "tool": tool, "effect": effect}
    return author.write(TrustRevokedEvent, data | _said(by, why))


def trust_reinstated(author: Author, revocation_id: str, by: str, why: str) -> bytes:
    """A revocation taken away."""
    return author.write(TrustReinstatedEvent, {"revocation_id": revocation_id} | _said(by, why))


def policy_mode(
    author: Author,
    mode: ModeName,
    by: str,
    why: str,
    spot_check_one_in: int | None = None,
    expected_version: int | None = None,
) -> bytes:
    """Shadow or enforce; one promotion in so many is asked all the same, None leaves that as is."""
    data = {"mode": mode, "spot_check_one_in": spot_check_one_in}
    return author.write(PolicyModeEvent, data | _said(by, why, expected_version))


def _said(by: str, why: str, expected_version: int | None = None) -> dict[str, Any]:
    return {"by": by, "why": why, "expected_version": expected_version}
