"""Timers as events: the close that the service publishes for a trace that nobody finished (SPEC 3).

A timer never acts inside the law; it publishes a `trace.closed` like any other, which then meets
the trace in log order.
"""

from __future__ import annotations

from typing import Final

from trustfold_projections.laws.correlation.knowledge import TraceState
from trustfold_schemas.documents import document
from trustfold_schemas.events import TraceClosedEvent, type_of
from trustfold_schemas.instants import DAY, HOUR

SERVICE_SOURCE: Final = "trustfold"
"""The source of what the service itself publishes."""

ABANDONED: Final = "abandoned"
"""The outcome of a trace that nobody closed."""

PATIENCE: Final = 24 * HOUR
"""How long a trace with steps may stay open, and a closed one wait for its steps."""

CLOSE_EXPECTED: Final = 7 * DAY
"""Feedback whose trace has not closed after this time is pending as trace_never_closed."""


def abandoned_id(trace_id: str) -> str:
    """The event id of the service's close."""
    return f"abandoned/{trace_id}"


def abandoned_close(state: TraceState) -> bytes | None:
    """The service's close of a trace as a document; None where there is nothing to finish.

    For a trace that waits for steps it says "fold what is known"; its time is then of no effect.
    """
    if state.folded or state.scope is None:
        return None
    time = state.last_step_time if state.close is None else state.close.time
    if time is None:
        return None
    return document(
        type_of(TraceClosedEvent),
        abandoned_id(state.trace_id),
        SERVICE_SOURCE,
        time,
        {
            "trace_id": state.trace_id,
            "scope": state.scope,
            "outcome": ABANDONED,
            "steps": [],
            "step_count": len(state.steps),
            "violations": [],
        },
    )
