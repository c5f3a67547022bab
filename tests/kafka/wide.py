"""Traces whose names are as wide as they may be, and of which more is known than a record holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.broker.loads import START
from tests.embedded.documents import event

HUMAN = {"kind": "human", "id": "ann"}
WIDE = "\N{SNOWMAN}"
"""Three bytes in UTF-8."""


def wide_step(number: int, *, many: bool = True) -> dict[str, Any]:
    """A step whose names are as wide as they may be: three bytes a character."""

    def name(limit: int, text: str) -> str:
        return text + WIDE * (limit - len(text))

    return {
        "step_id": name(256, f"{number}"),
        "tool": name(256, "t"),
        "effect": name(512, f"e{number if many else 0}"),
        "status": "error" if number % 7 == 0 else "ok",
        "error": name(64, "x"),
        "args_fingerprint": name(256, "f"),
        "decision_id": name(256, "d"),
    }


def recorded_wide(trace_id: str, number: int, *, many: bool = True) -> bytes:
    """A wide step that is told of singly."""
    data = {"trace_id": trace_id, "step": wide_step(number, many=many)}
    return event("step.recorded", f"step/{number}", data, START)


def answer(number: int, ids: Sequence[str], trace_id: str = "wide") -> bytes:
    """What a person said of these steps."""
    data = {"trace_id": trace_id, "step_ids": ids, "decision": "granted", "decided_by": HUMAN}
    return event("approval.decided", f"answer/{number}", data, START)
