"""The events that people and programs publish by a call: one function a type, bytes out.

Ids and moments are arguments, since nothing here is random and no clock is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from trustfold_schemas.documents import document
from trustfold_schemas.events import (
    ApprovalDecidedEvent,
    Event,
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
