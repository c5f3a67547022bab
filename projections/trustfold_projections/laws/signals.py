"""The seed's signals: what a closed trace says about each of its subjects, as shares of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from trustfold_projections.laws.correlation import TraceState, correlate_trace
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.documents import document
from trustfold_schemas.events import TraceClosedEvent, type_of
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.instants import EARLIEST
from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject


class TraceSignals(Struct, frozen=True, kw_only=True):
    """Evidence of one trace for one subject, each signal from 0 to 1; None is no evidence.

    The names are the seed's; `human_approval_delta` is the share of decided steps granted.
    """

    subject: Subject
    tool_success: float | None = None
    cost_efficiency: float | None = None
    constitution_clean: float | None = None
    human_approval_delta: float | None = None
    undo_flag: float | None = None

    def reported(self) -> dict[str, float | None]:
        """The signals as the data of `signals.reported`."""
        return {
            "tool_success": self.tool_success,
            "cost_efficiency": self.cost_efficiency,
            "constitution_clean": self.constitution_clean,
            "human_approval_delta": self.human_approval_delta,
            "undo_flag": self.undo_flag,
        }


def extract_signals(
    trace: Mapping[str, Any], medians: MedianTable | None = None, moment: int = EARLIEST
) -> list[TraceSignals]:
    """What a closed trace says, by distinct subject of its steps, in their order.

    `trace` is the data of `trace.closed` (SPEC 2). Feedback comes later and is no part of it;
    cost_efficiency needs the medians in force at the trace's `moment` (us since 1970).
    Raises EventRefused for a trace that no event could carry.

    >>> steps = [{"step_id": "1", "tool": "sh", "effect": "shell:read", "status": "ok"}]
    >>> [signals] = extract_signals({"trace_id": "t", "outcome": "completed", "steps": steps})
    >>> signals.tool_success, signals.human_approval_delta
    (1.0, None)
    """
    body = document(type_of(TraceClosedEvent), "extract", "trustfold", moment, trace)
    event = decode_event(body)
    assert isinstance(event, TraceClosedEvent)
    state = TraceState(trace_id=event.data.trace_id)
    fact = Fact(moment, moment, OWNER, event, body)
    outcome = correlate_trace(state, fact, medians or MedianTable())
    return [_signals(entry) for entry in outcome.entries if not entry.subject.is_global]


def _signals(entry: Entry) -> TraceSignals:
    tool, approval, cost, clean, undo = (
        amount / PPM if weight else None
        for amount, weight in zip(entry.amounts, entry.weights, strict=True)
    )
    return TraceSignals(
        subject=entry.subject,
        tool_success=tool,
        cost_efficiency=cost,
        constitution_clean=clean,
        human_approval_delta=approval,
        undo_flag=undo,
    )
