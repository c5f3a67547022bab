"""Traces and subjects that the contract speaks of."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.contract.stores import World
from trustfold_schemas.subject import Subject

NOTES = Subject("", "fs_write", "fs_write:~/notes/*")
SHELL = Subject("", "shell", "invoke")
DONE = Subject("", "runtime", "done")
ROBERTO = {"kind": "human", "id": "roberto"}

Data = dict[str, Any]


def step(step_id: str = "a", subject: Subject = NOTES, status: str = "ok") -> Data:
    """One step."""
    return {
        "step_id": step_id,
        "tool": subject.tool,
        "effect": subject.effect,
        "status": status,
    }


def trace(trace_id: str, *steps: Data, **more: Any) -> Data:
    """A trace that closed with these steps, or one good step."""
    return {"trace_id": trace_id, "outcome": "done", "steps": list(steps) or [step()], **more}


def answer(decision: str, **more: Any) -> Data:
    """What Roberto answered."""
    return {"decision": decision, "decided_by": ROBERTO, **more}


def an_hour_ago(world: World, minutes: float = 0) -> datetime:
    """When the traces here closed, or so many minutes after it."""
    return world.now().replace(microsecond=0) - timedelta(hours=1) + timedelta(minutes=minutes)
