"""Traces that are not finished, as every store lists them."""

from __future__ import annotations

from msgspec import Struct

from trustfold_schemas.dead_letters import Reason


class Pending(Struct, frozen=True, kw_only=True):
    """A trace that is not finished. Instants in microseconds since 1970, `age` in microseconds.

    `reason` is trace_never_closed for feedback whose trace did not close within 7 days.
    """

    trace_id: str
    scope: str | None
    steps: int
    step_count: int | None
    feedback: int
    first_recorded: int
    last_recorded: int
    age: int
    waits_for: str
    reason: Reason | None
