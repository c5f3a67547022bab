"""Which law a fact falls under: its key, the state to keep for that key, and the law to call."""

from __future__ import annotations

from typing import NamedTuple

from trustfold_projections.laws.correlation.knowledge import TraceState
from trustfold_projections.laws.correlation.outcome import Outcome
from trustfold_projections.laws.correlation.singles import (
    PolicyState,
    RollbackState,
    SeenState,
    correlate_median,
    correlate_policy,
    correlate_rollback,
    correlate_self_play,
    correlate_synthesis,
)
from trustfold_projections.laws.correlation.trace import correlate_trace
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.events import (
    CostMedianEvent,
    Event,
    NeuronSynthesizedEvent,
    RollbackLiftedEvent,
    SelfPlayCompletedEvent,
    SubjectRolledBackEvent,
    TraceEvent,
)
from trustfold_schemas.facts import Fact
from trustfold_schemas.policy_events import (
    EffectDeclaredEvent,
    EffectRemovedEvent,
    PolicyEvent,
    PolicyModeEvent,
    ThresholdRemovedEvent,
    ThresholdSetEvent,
)


class Key(NamedTuple):
    """What a fact is correlated by: facts of one key meet in one state, in log order."""

    kind: str
    name: str


KeyState = TraceState | RollbackState | PolicyState | SeenState


def key_of(event: Event) -> Key:
    """The key of SPEC 2's table: trace, context, neuron, subject, or what is published for."""
    if isinstance(event, TraceEvent):
        return Key("trace", event.data.trace_id)
    if isinstance(event, SelfPlayCompletedEvent):
        # Nothing else needs to be known of a context than which events it had, so each has a
        # state of its own; a busy context would otherwise be one ever-growing state.
        context = event.data.context
        return Key(
            "self-play", f"{len(context)} {context}{len(event.source)} {event.source}{event.id}"
        )
    if isinstance(event, NeuronSynthesizedEvent):
        return Key("synthesis", event.data.neuron)
    if isinstance(event, SubjectRolledBackEvent | RollbackLiftedEvent):
        return Key("rollback", event.data.subject.key.decode())
    if isinstance(event, CostMedianEvent):
        data = event.data
        return Key(
            "cost-median", f"{data.effective_at} {len(data.scope)} {data.scope}{data.effect}"
        )
    if isinstance(event, ThresholdSetEvent | ThresholdRemovedEvent):
        return Key("policy", f"threshold {event.data.risk_band} {event.data.effect}")
    if isinstance(event, EffectDeclaredEvent | EffectRemovedEvent):
        return Key("policy", f"effect {event.data.effect}")
    if isinstance(event, PolicyModeEvent):
        return Key("policy", "mode")
    assert isinstance(event, PolicyEvent)
    return Key("policy", "revocation")


def log_key_of(event: Event) -> str:
    """What the log of facts is partitioned by: facts of one correlation key share it."""
    if isinstance(event, SelfPlayCompletedEvent):
        return f"self-play {event.data.context}"
    key = key_of(event)
    return f"{key.kind} {key.name}"


def new_state(key: Key) -> KeyState:
    """What is known of a key of which nothing is known."""
    if key.kind == "trace":
        return TraceState(trace_id=key.name)
    if key.kind == "policy":
        return PolicyState()
    return RollbackState() if key.kind == "rollback" else SeenState()


def correlate(
    state: KeyState, fact: Fact, medians: MedianTable, memory: int | None = None
) -> Outcome:
    """Take one fact into the state of its key, under the law of its kind."""
    if isinstance(state, TraceState):
        return correlate_trace(state, fact, medians, memory)
    if isinstance(state, RollbackState):
        return correlate_rollback(state, fact, memory)
    if isinstance(state, PolicyState):
        return correlate_policy(state, fact)
    event = fact.event
    if isinstance(event, SelfPlayCompletedEvent):
        return correlate_self_play(state, fact, memory)
    if isinstance(event, NeuronSynthesizedEvent):
        return correlate_synthesis(state, fact, memory)
    assert isinstance(event, CostMedianEvent)
    return correlate_median(state, fact, medians)
