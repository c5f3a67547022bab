"""Steps with their reward signals, for training back ends: one row a step of a closed trace.

A ledger holds no prompts and no answers, so a row refers to what the runtime keeps (trace, step,
session, decision, fingerprint of the arguments) and says what came of it. How signals are weighed
into one reward is the back end's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct

from trustfold_projections.analysis.backtest.actions import Said, said_of
from trustfold_projections.analysis.backtest.history import FactSource
from trustfold_projections.laws.correlation import TraceState, correlate, key_of, new_state
from trustfold_projections.laws.correlation.contribution import contribution
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.events import CostMedianEvent, Step, TraceClosedEvent
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import COST_EFFICIENCY
from trustfold_schemas.subject import Subject


def _column(name: str, kind: pa.DataType, about: str, *, null: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=null, metadata={"about": about})


_IDS: Final = pa.list_(pa.field("element", pa.string(), nullable=False))
_LAWS: Final = pa.list_(pa.field("element", pa.int8(), nullable=False))

SCHEMA: Final = pa.schema(
    [
        _column("trace_id", pa.string(), "the trajectory"),
        _column("step_id", pa.string(), "the step, unique within its trace"),
        _column("position", pa.int32(), "place within the trace, from 0, in the order known"),
        _column("steps", pa.int32(), "steps of the trace"),
        _column("scope", pa.string(), "user, agent or tenant; empty where there is one only"),
        _column("session", pa.string(), "conversation of the trace", null=True),
        _column("agent", pa.string(), "agent that acted", null=True),
        _column("source", pa.string(), "publisher of the close"),
        _column("outcome", pa.string(), "outcome of the whole trace, the publisher's word"),
        _column("closed_us", pa.int64(), "when it closed, microseconds since 1970"),
        _column("tool", pa.string(), "tool of the step"),
        _column("effect", pa.string(), "effect class of the step"),
        _column("reversibility", pa.string(), "the publisher's word on it", null=True),
        _column("args_fingerprint", pa.string(), "keyed fingerprint of the arguments", null=True),
        _column("via", pa.string(), "how it came to run", null=True),
        _column("decision_id", pa.string(), "the policy's verdict on it", null=True),
        _column("status", pa.string(), "ok, error or not_executed"),
        _column("error", pa.string(), "code of the error", null=True),
        _column("success", pa.bool_(), "status is ok; NULL where it was not executed", null=True),
        _column("granted", pa.bool_(), "by a human, denied by none; NULL: not asked", null=True),
        _column("undone", pa.bool_(), "a human undid it; NULL: it was not executed", null=True),
        _column("laws", _LAWS, "laws that it broke, or its trace by no step that is named"),
        _column("cost_usd_micro", pa.int64(), "cost of the whole trace, micro-USD", null=True),
        _column("cost_efficiency_ppm", pa.int32(), "against the median; NULL: none", null=True),
        _column("feedback", _IDS, "ids of the answers and undos that speak of the step"),
        _column("excluded", pa.bool_(), "its trace was excluded from evidence"),
    ]
)  # fmt: skip
"""The columns of an export; `about` in a field's metadata says what it holds."""


class Left(Struct):
    """What an export left out, and why: traces, and feedback that found no step of its trace."""

    traces: int = 0
    steps: int = 0
    excluded: int = 0
    open: int = 0
    unmatched: int = 0


class Wanted(Struct, frozen=True):
    """Which traces are exported: of these scopes (none named: of all), closed in [since, until)."""

    scopes: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    with_excluded: bool = False

    def takes(self, state: TraceState) -> bool:
        """Whether a closed trace is among them, its exclusion aside."""
        close = state.close
        return (
            close is not None
            and (not self.scopes or state.scope in self.scopes)
            and (self.since is None or close.time >= self.since)
            and (self.until is None or close.time < self.until)
        )


def exported(source: FactSource, wanted: Wanted, left: Left) -> Iterator[dict[str, Any]]:
    """The rows of an export, the steps of a trace together; `left` is counted on the way."""
    medians = MedianTable()
    for fact in source.medians():
        if isinstance(fact.event, CostMedianEvent):
            medians.add(fact.event.data, fact.recorded)
    for facts in source.by_key():
        state = new_state(key_of(facts[0].event))
        if not isinstance(state, TraceState):
            continue
        known = [fact for fact in facts if correlate(state, fact, medians).remembered]
        if not state.folded:
            left.open += 1
        elif wanted.takes(state):
            if state.excluded and not wanted.with_excluded:
                left.excluded += 1
                continue
            left.traces += 1
            for row in _rows(state, known, left):
                left.steps += 1
                yield row


def _rows(state: TraceState, facts: Sequence[Fact], left: Left) -> Iterator[dict[str, Any]]:
    close = state.close
    assert close is not None
    assert state.scope is not None
    if close.signals is not None:
        return  # ready-made evidence has no steps
    data = next(
        fact.event.data
        for fact in facts
        if isinstance(fact.event, TraceClosedEvent) and fact.event.id == close.event_id
    )
    said = list(said_of(state.scope, facts))
    matched: set[str] = set()
    costs = {subject: _cost_efficiency(state, subject) for subject in state.subjects}
    steps = [known.step for known in state.steps.values() if known.counts]
    for position, step in enumerate(steps):
        subject = state.subject_of(step)
        spoken = [one for one in said if one.of(step, subject, alone=len(state.subjects) == 1)]
        matched.update(one.event_id for one in spoken)
        yield {
            "trace_id": state.trace_id,
            "step_id": step.step_id,
            "position": position,
            "steps": len(steps),
            "scope": state.scope,
            "session": data.session,
            "agent": data.agent,
            "source": close.source,
            "outcome": data.outcome,
            "closed_us": close.time,
            **_of_step(step),
            **_of_people(step, spoken),
            "laws": sorted(
                {one.law for one in close.violations if _broke(one.step_id, step, state)}
            ),
            "cost_usd_micro": close.cost_usd,
            "cost_efficiency_ppm": costs[subject],
            "excluded": state.excluded,
        }
    left.unmatched += sum(one.event_id not in matched for one in said if one.says != "excluded")


def _of_step(step: Step) -> dict[str, Any]:
    return {
        "tool": step.tool,
        "effect": step.effect,
        "reversibility": step.reversibility,
        "args_fingerprint": step.args_fingerprint,
        "via": step.via,
        "decision_id": step.decision_id,
        "status": step.status,
        "error": step.error,
        "success": step.status == "ok" if step.executed else None,
    }


def _of_people(step: Step, spoken: Iterable[Said]) -> dict[str, Any]:
    by_says: dict[str, list[str]] = {}
    for one in spoken:
        by_says.setdefault(one.says, []).append(one.event_id)
    asked = "denied" in by_says or "granted" in by_says
    return {
        "granted": "denied" not in by_says if asked else None,
        "undone": "undone" in by_says if step.executed else None,
        "feedback": [
            event_id
            for says in ("granted", "denied", "undone")
            for event_id in by_says.get(says, ())
        ],
    }


def _cost_efficiency(state: TraceState, subject: Subject) -> int | None:
    made = contribution(state, subject)
    return made.amounts[COST_EFFICIENCY] if made.weights[COST_EFFICIENCY] else None


def _broke(named: str | None, step: Step, state: TraceState) -> bool:
    """Whether a violation that names this step id, or none, is this step's."""
    if named is None or named == step.step_id:
        return True
    known = state.steps.get(named)
    return known is None or not known.counts
