"""Documents to ingest, as a runtime, a person and an operator would write them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.oracles.histories import RECORDED_FROM, rfc3339
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import Document

Data = dict[str, Any]

SECOND = 1_000_000
DAY = 86_400 * SECOND
TIME = RECORDED_FROM - DAY
"""When all of this happened, unless a test says otherwise: a day before anything is recorded."""

NOTES = Subject("", "fs_write", "fs_write:~/notes/*")
SHELL = Subject("", "shell", "invoke")


def event(kind: str, event_id: str, data: Data, time: int = TIME, source: str = "rt") -> bytes:
    """One event's document."""
    return json.dumps(
        {
            "specversion": "1.0",
            "id": event_id,
            "source": source,
            "type": f"trustfold.{kind}.v1",
            "time": rfc3339(time),
            "data": data,
        }
    ).encode()


def step(step_id: str = "a", subject: Subject = NOTES, status: str = "ok") -> Data:
    """One step of a trace."""
    return {
        "step_id": step_id,
        "tool": subject.tool,
        "effect": subject.effect,
        "status": status,
    }


def closed(trace_id: str, *steps: Data, time: int = TIME, **more: Any) -> bytes:
    """The close of a trace that lists these steps, or one good step."""
    data = {"trace_id": trace_id, "outcome": "done", "steps": steps or (step(),), **more}
    return event("trace.closed", f"close/{trace_id}", data, time)


def recorded_step(trace_id: str, one: Data) -> bytes:
    """A step that is told of singly."""
    data = {"trace_id": trace_id, "step": one}
    return event("step.recorded", f"step/{trace_id}/{one['step_id']}", data)


def decided(trace_id: str, decision: str = "granted", time: int = TIME, **more: Any) -> bytes:
    """What a person answered to a question for approval."""
    data = {"trace_id": trace_id, "decision": decision, "decided_by": {"kind": "human", "id": "an"}}
    return event("approval.decided", f"{decision}/{trace_id}", data | more, time)


def undone(trace_id: str, time: int = TIME, **more: Any) -> bytes:
    """What a person took back."""
    data = {"trace_id": trace_id, "by": {"kind": "human", "id": "ann"}}
    return event("undo.executed", f"undo/{trace_id}", data | more, time)


def excluded(trace_id: str) -> bytes:
    """What an operator does not want counted."""
    data = {"trace_id": trace_id, "by": "oscar", "why": "a rehearsal"}
    return event("trace.excluded", f"exclude/{trace_id}", data)


def median(effect: str = NOTES.effect, usd: float = 0.02) -> bytes:
    """A median of cost, in force for every trace here."""
    data = {
        "effect": effect,
        "median_usd": usd,
        "samples": 20,
        "effective_at": rfc3339(TIME - DAY),
    }
    return event("cost.median", f"median/{effect}", data)


def synthesized(neuron: str, scope: str = "", event_id: str = "") -> bytes:
    """The birth of a neuron."""
    data = {
        "scope": scope,
        "neuron": neuron,
        "reward": 0.8,
        "breakdown": {"judge": 1},
        "approved_by": "ann",
    }
    return event("neuron.synthesized", event_id or f"birth/{neuron}", data)


def played(winner: str, loser: str) -> bytes:
    """A contest of two neurons."""
    data = {
        "context": "c1",
        "winner": winner,
        "loser": loser,
        "critic": "judge",
        "verdict": "shorter",
        "critic_cost_usd": 0.001,
    }
    return event("selfplay.completed", f"play/{winner}/{loser}", data)


def rolled_back(subject: Subject, to: int, event_id: str = "r1") -> bytes:
    """A rollback of a subject."""
    data = {"subject": subject, "to": rfc3339(to), "by": "oscar", "why": "a broken sensor"}
    return event("subject.rolled_back", event_id, data)


def lifted(subject: Subject, rollback_id: str = "r1", event_id: str = "l1") -> bytes:
    """The end of a rollback."""
    data = {"subject": subject, "rollback_id": rollback_id, "by": "oscar", "why": "it was right"}
    return event("rollback.lifted", event_id, data)


def numbered(bodies: Iterable[bytes], name: str = "test") -> list[Document]:
    """Bodies as the lines of a file of this name."""
    return [Document(body, f"{name}:{number}") for number, body in enumerate(bodies, start=1)]
