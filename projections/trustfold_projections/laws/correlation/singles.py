"""The laws of what is not keyed by trace: self-play, synthesis, rollbacks (SPEC 3, 4, 6)."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from trustfold_projections.laws.correlation.outcome import (
    Outcome,
    SeenIds,
    Verdict,
    at_the_door,
    refused,
    remember,
)
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.amounts import PPM
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.events import (
    CostMedianEvent,
    NeuronSynthesizedEvent,
    RollbackLiftedEvent,
    SelfPlayCompletedEvent,
    SubjectRolledBackEvent,
)
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import format_instant
from trustfold_schemas.ledger import Entry, Kind
from trustfold_schemas.subject import Subject


class SeenState(Struct, gc=False, kw_only=True):
    """What is known under a context (self-play) or a neuron (synthesis)."""

    seen: SeenIds = msgspec.field(default_factory=dict)
    seeded: dict[str, str] = msgspec.field(default_factory=dict)
    """Scope -> the event id of the synthesis that holds."""


class PolicyState(Struct, gc=False, kw_only=True):
    """What is known of one threshold, declaration, mode, or of the revocations."""

    seen: SeenIds = msgspec.field(default_factory=dict)
    version: int = 0


class RollbackState(Struct, gc=False, kw_only=True):
    """What is known of one subject's rollbacks: id -> still in force."""

    seen: SeenIds = msgspec.field(default_factory=dict)
    in_force: dict[str, bool] = msgspec.field(default_factory=dict)


def correlate_self_play(state: SeenState, fact: Fact, memory: int | None = None) -> Outcome:
    """One self-play: 10**6 with weight 1 to the winner's own sums, 0 if the users refused it."""
    turned_away = at_the_door(state.seen, fact, memory)
    if turned_away is not None:
        return turned_away
    event = fact.event
    assert isinstance(event, SelfPlayCompletedEvent)
    remember(state.seen, fact)
    won = 0 if event.data.users_accepted_winner is False else PPM
    return _accepted(_entry(fact, "self_play", event.data.subject, self_play=(won, 1)))


def correlate_synthesis(state: SeenState, fact: Fact, memory: int | None = None) -> Outcome:
    """The birth of a neuron: one initial entry per neuron and scope, raw_score = its reward."""
    turned_away = at_the_door(state.seen, fact, memory)
    if turned_away is not None:
        return turned_away
    event = fact.event
    assert isinstance(event, NeuronSynthesizedEvent)
    data = event.data
    first = state.seeded.get(data.scope)
    if first is not None:
        return refused(
            fact,
            Reason.ALREADY_SEEDED,
            f"neuron `{data.neuron}` of scope `{data.scope}` was seeded by event `{first}`",
        )
    remember(state.seen, fact)
    state.seeded[data.scope] = event.id
    r = int(data.reward)
    return _accepted(
        _entry(
            fact,
            "initial",
            data.subject,
            amounts=(r, r, r, r, PPM - r),
            weights=(1, 1, 1, 1, 1),
            n_samples=1,
            clean=True,
        )
    )


def correlate_rollback(state: RollbackState, fact: Fact, memory: int | None = None) -> Outcome:
    """A rollback of a subject, or the lifting of one; both are entries without numbers."""
    turned_away = at_the_door(state.seen, fact, memory)
    if turned_away is not None:
        return turned_away
    event = fact.event
    if isinstance(event, SubjectRolledBackEvent):
        if event.data.to > fact.recorded:
            return refused(
                fact,
                Reason.FUTURE,
                f"Expected a moment not after {format_instant(fact.recorded)}, when it was "
                f"recorded, got `{format_instant(event.data.to)}` - at `$.data.to`",
            )
        if event.id in state.in_force:
            return refused(
                fact,
                Reason.CONFLICT,
                f"a rollback of {event.data.subject} has the id `{event.id}` already",
            )
        remember(state.seen, fact)
        state.in_force[event.id] = True
        return _accepted(_entry(fact, "rollback", event.data.subject, to=int(event.data.to)))
    assert isinstance(event, RollbackLiftedEvent)
    if not state.in_force.get(event.data.rollback_id):
        known = event.data.rollback_id in state.in_force
        return refused(
            fact,
            Reason.UNKNOWN_ROLLBACK,
            f"rollback `{event.data.rollback_id}` of {event.data.subject} "
            + ("was lifted before" if known else "is not known"),
        )
    remember(state.seen, fact)
    state.in_force[event.data.rollback_id] = False
    return _accepted(
        _entry(fact, "rollback_lifted", event.data.subject, lifts=event.data.rollback_id)
    )


def correlate_median(state: SeenState, fact: Fact, medians: MedianTable) -> Outcome:
    """A median of cost; the first recorded for one (scope, effect, effective_at) holds."""
    turned_away = at_the_door(state.seen, fact, None)
    if turned_away is not None:
        return turned_away
    event = fact.event
    assert isinstance(event, CostMedianEvent)
    if not medians.add(event.data, fact.recorded):
        return refused(
            fact,
            Reason.ALREADY_SET,
            f"a median of effect `{event.data.effect}` in scope `{event.data.scope}`, effective "
            f"at {format_instant(event.data.effective_at)}, was recorded before",
        )
    remember(state.seen, fact)
    return Outcome(Verdict.ACCEPTED, remembered=True)


def correlate_policy(state: PolicyState, fact: Fact) -> Outcome:
    """An event of the log `policy`: it moves no score, but makes a new version of its subject.

    One that names the version it replaces is refused unless that one is in force (SPEC 5).
    Nothing set yet is version 0; a removal is a version too.
    """
    turned_away = at_the_door(state.seen, fact, None)
    if turned_away is not None:
        return turned_away
    expected = getattr(fact.event.data, "expected_version", None)  # type: ignore[attr-defined]
    if expected is not None and expected != state.version:
        return refused(
            fact,
            Reason.STALE_VERSION,
            f"Expected to replace version {state.version}, got {expected} "
            "- at `$.data.expected_version`",
        )
    remember(state.seen, fact)
    state.version += 1
    return Outcome(Verdict.ACCEPTED, remembered=True)


def _accepted(entry: Entry) -> Outcome:
    return Outcome(Verdict.ACCEPTED, entries=(entry,), remembered=True)


def _entry(
    fact: Fact,
    kind: Kind,
    subject: Subject,
    *,
    amounts: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0),
    weights: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0),
    n_samples: int = 0,
    self_play: tuple[int, int] | None = None,
    clean: bool = False,
    to: int | None = None,
    lifts: str | None = None,
) -> Entry:
    return Entry(
        kind=kind,
        subject=subject,
        trace_id=None,
        event_id=fact.event.id,
        source=fact.event.source,
        occurred=int(fact.event.time),
        recorded=fact.recorded,
        chain=(fact.recorded,),
        amounts=amounts,
        weights=weights,
        n_samples=n_samples,
        self_play=self_play,
        clean=clean,
        to=to,
        lifts=lifts,
    )
