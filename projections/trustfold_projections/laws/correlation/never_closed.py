"""What a trace leaves when its memory ends before it closed: dead letters (SPEC 3)."""

from __future__ import annotations

from trustfold_projections.laws.correlation.knowledge import TraceState
from trustfold_projections.laws.correlation.outcome import Refusal
from trustfold_schemas.dead_letters import Reason


def never_closed(state: TraceState) -> list[Refusal]:
    """The feedback of a trace that is forgotten unclosed; it moved no score but by its brakes."""
    if state.folded:
        return []
    positions = [feedback.position for feedback in state.waiting_for_scope]
    positions += [position for position, _ in state.waiting_for_fold]
    return [
        Refusal(
            position,
            Reason.TRACE_NEVER_CLOSED,
            f"trace `{state.trace_id}` did not close before its memory ended",
        )
        for position in sorted(positions)
    ]
