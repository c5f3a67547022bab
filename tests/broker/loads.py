"""Seeded loads in which no two facts exclude each other: any order gives the same digests.

Traces listed, counted and recorded step by step, ready-made signals, feedback early and late,
exclusions, self-play and syntheses. All times lie in the past: workers are opened for history.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.embedded.documents import event
from tests.oracles.histories import rfc3339
from trustfold_schemas.instants import DAY, MINUTE, SECOND

Data = dict[str, Any]

START = 1_767_225_600 * SECOND
"""2026-01-01."""
TOOLS = tuple((f"tool{i}", f"fs_write:~/project{i}/*") for i in range(12))
SCOPES = ("", "", "team")
MEDIAN_EFFECTS = tuple(effect for _, effect in TOOLS[:6])
ANN = {"kind": "human", "id": "ann"}


def medians() -> list[bytes]:
    """Medians of cost in force for every trace here; publish them before any close."""
    return [
        event(
            "cost.median",
            f"median/{scope}/{effect}",
            {
                "scope": scope,
                "effect": effect,
                "median_usd": 0.02,
                "samples": 20,
                "effective_at": rfc3339(START - DAY),
            },
            START - DAY,
        )
        for scope in set(SCOPES)
        for effect in MEDIAN_EFFECTS
    ]


def mixed(traces: int, seed: int, name: str = "load") -> Iterator[bytes]:
    """The events of so many traces, about three each, in the order in which they happened."""
    chance = random.Random(f"{seed} {name}")
    for number in range(traces):
        trace_id, moment = f"{name}-{number}", START + number * MINUTE
        yield from _trace(chance, trace_id, moment)
        if number % 40 == 7:
            yield _play(chance, f"{name}-{number}", moment)
        if number % 50 == 9:
            yield _synthesis(f"{name}-{number}", moment)


def _step(chance: random.Random, step_id: str) -> Data:
    tool, effect = chance.choice(TOOLS)
    return {
        "step_id": step_id,
        "tool": tool,
        "effect": effect,
        "status": chance.choices(("ok", "error", "not_executed"), (85, 10, 5))[0],
        "reversibility": "reversible",
    }


def _trace(chance: random.Random, trace_id: str, moment: int) -> Iterator[bytes]:
    scope = chance.choice(SCOPES)
    steps = [_step(chance, str(k)) for k in range(chance.randint(1, 6))]
    shape = chance.choices(("listed", "counted", "open", "signals"), (60, 30, 4, 6))[0]
    if shape == "signals":
        yield _signals(chance, trace_id, scope, moment)
    else:
        told = 0 if shape == "listed" else len(steps) if shape == "open" else len(steps) // 2 + 1
        for step in steps[:told]:
            data = {"trace_id": trace_id, "scope": scope, "step": step}
            yield event("step.recorded", f"step/{trace_id}/{step['step_id']}", data, moment)
        if shape != "open":
            yield _close(chance, trace_id, scope, moment, steps[told:], len(steps) if told else 0)
    for number in range(chance.choices((0, 1, 2, 3), (55, 30, 10, 5))[0]):
        ids = [] if shape == "signals" else [step["step_id"] for step in steps]
        yield _feedback(chance, trace_id, number, moment, ids)


def _close(
    chance: random.Random, trace_id: str, scope: str, moment: int, listed: list[Data], count: int
) -> bytes:
    data: Data = {"trace_id": trace_id, "scope": scope, "outcome": "completed", "steps": listed}
    data["violations"] = [{"law": chance.randint(0, 3)}] if chance.random() < 0.05 else []
    if count:
        data["step_count"] = count
    if chance.random() < 0.7:
        data["cost_usd"] = round(chance.random() * 0.05, 4)
    return event("trace.closed", f"close/{trace_id}", data, moment)


def _signals(chance: random.Random, trace_id: str, scope: str, moment: int) -> bytes:
    subject = [scope, *chance.choice(TOOLS)]
    data = {"trace_id": trace_id, "subject": subject, "tool_success": chance.choice((0, 0.5, 1))}
    return event("signals.reported", f"signals/{trace_id}", data, moment)


def _feedback(
    chance: random.Random, trace_id: str, number: int, moment: int, ids: list[str]
) -> bytes:
    kind = chance.choices(("approval", "undo", "excluded", "included"), (70, 18, 8, 4))[0]
    at = moment + chance.choice((-1, 1, 9, 11, 600)) * MINUTE + number * SECOND
    name = f"{kind}/{trace_id}/{number}"
    if kind in ("excluded", "included"):
        data: Data = {"trace_id": trace_id, "by": "oscar", "why": "looked into"}
        return event(f"trace.{kind}", name, data, at)
    data = {"trace_id": trace_id}
    if ids and chance.random() < 0.7:
        data["step_ids"] = chance.sample(ids, chance.randint(1, len(ids)))
    if kind == "undo":
        return event("undo.executed", name, data | {"by": ANN}, at)
    decision = chance.choices(("granted", "denied", "expired"), (75, 20, 5))[0]
    return event("approval.decided", name, data | {"decision": decision, "decided_by": ANN}, at)


def _play(chance: random.Random, name: str, moment: int) -> bytes:
    winner, loser = chance.sample(("alpha", "beta", "gamma"), 2)
    data = {
        "context": f"c{chance.randint(0, 3)}",
        "winner": winner,
        "loser": loser,
        "critic": "judge",
        "verdict": "shorter and right",
        "critic_cost_usd": 0.002,
    }
    return event("selfplay.completed", f"play/{name}", data, moment)


def _synthesis(name: str, moment: int) -> bytes:
    data = {
        "neuron": f"neuron-{name}",
        "reward": 0.8,
        "breakdown": {"judge_score": 0.8},
        "approved_by": "ann",
    }
    return event("neuron.synthesized", f"birth/{name}", data, moment)
