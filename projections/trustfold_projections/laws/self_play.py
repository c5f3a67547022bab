"""Synapse weights: how far a context trusts each neuron, moved by every self-play (SPEC 6).

The score of the winner is moved by the ledger (laws.correlation); which neuron to ask next, by
the weights here. Reading the log of facts and keeping the states is the business of the stores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from trustfold_projections.laws.correlation.outcome import at_the_door
from trustfold_schemas.events import Reversibility, SelfPlayCompletedEvent
from trustfold_schemas.facts import Fact

WEIGHT_MAX = 1_000
"""Weights are integers in thousandths, clipped to [0, 1000]."""
INITIAL = 500
"""The weight of a neuron before its first self-play in a context."""
WON = 50
LOST = 25
"""What a self-play adds to the winner's weight, and takes from the loser's."""

CLOSE = 150
"""Neurons whose weights are less than so many thousandths apart are worth a self-play."""

SkippedVia = Literal["budget", "irreversible", "no_contest", "critic_failed"]
"""Why no self-play took place."""

Weights = dict[str, int]
"""Neuron -> its weight in thousandths."""


class Neighbor(NamedTuple):
    """A neuron of a context and its weight in thousandths."""

    neuron: str
    weight: int


class Synapse(Struct, kw_only=True, gc=False):
    """What is known of one context: weights by scope, and the events that moved them.

    Contexts of two scopes have nothing but their name in common, so neither moves the other.
    """

    weights: dict[str, Weights] = msgspec.field(default_factory=dict)
    seen: dict[bytes, int] = msgspec.field(default_factory=dict)
    """A digest of each event's (source, id) -> when it was recorded, in log order."""
    plays: int = 0
    """Self-plays that moved the weights."""


def play(state: Synapse, fact: Fact, memory: int | None = None) -> bool:
    """Let one self-play move the weights; False if it may not, and then nothing changed.

    Call it in log order per context: clipping makes the order count. What correlation turns away
    (repeated ids, whatever they say; a time ahead of the log or too old for it) moves nothing
    here either. `memory` is how long events are remembered, in microseconds; None is for ever.
    """
    event = fact.event
    assert isinstance(event, SelfPlayCompletedEvent)
    digest = _digest(event)
    if digest in state.seen or at_the_door({}, fact, memory) is not None:
        return False
    if memory is not None:
        _forget(state, fact.recorded - memory)
    state.seen[digest] = fact.recorded
    weights = state.weights.setdefault(event.data.scope, {})
    _move(weights, event.data.winner, WON)
    _move(weights, event.data.loser, -LOST)
    state.plays += 1
    return True


def neighbors(state: Synapse, scope: str = "") -> list[Neighbor]:
    """The neurons that played in a context and scope, the heaviest first, then by name."""
    known = state.weights.get(scope, {})
    return [Neighbor(*one) for one in sorted(known.items(), key=lambda one: (-one[1], one[0]))]


def weights_of_neuron(
    states: Mapping[str, Synapse], neuron: str, scope: str = ""
) -> dict[str, int]:
    """Context -> the weight of a neuron there, for the contexts of a scope that it played in."""
    found = {
        context: state.weights.get(scope, {}).get(neuron)
        for context, state in sorted(states.items())
    }
    return {context: weight for context, weight in found.items() if weight is not None}


class Contest(NamedTuple):
    """Two neurons that are worth a self-play, the heavier one first."""

    heavier: Neighbor
    lighter: Neighbor


def contest(candidates: Iterable[str], known: Mapping[str, int], critic: str) -> Contest | None:
    """The heaviest two candidates that are close; None if no two are.

    `known` are the weights of the context; who never played there has the initial one. The critic
    never competes, so it is no candidate.
    """
    named = sorted(
        (Neighbor(name, known.get(name, INITIAL)) for name in set(candidates) - {critic}),
        key=lambda one: (-one.weight, one.neuron),
    )
    for heavier, lighter in pairwise(named):
        if heavier.weight - lighter.weight < CLOSE:
            return Contest(heavier, lighter)
    return None


def irreversible(
    touched: Mapping[str, Mapping[str, Reversibility | None]],
) -> tuple[str, str, Reversibility | None] | None:
    """The first (neuron, effect, reversibility) that forbids a self-play, or None.

    What nobody knows to be reversible is not.
    """
    for neuron, effects in touched.items():
        for effect, reversibility in effects.items():
            if reversibility not in ("reversible", "reversible_with_cost"):
                return neuron, effect, reversibility
    return None


def orders_within(estimate: int, remaining: int) -> int:
    """In how many orders the critic may judge: 2, 1, or 0 where the money is for none."""
    return next((orders for orders in (2, 1) if orders * estimate <= remaining), 0)


def _move(weights: Weights, neuron: str, by: int) -> None:
    weights[neuron] = min(WEIGHT_MAX, max(0, weights.get(neuron, INITIAL) + by))


def _forget(state: Synapse, until: int) -> None:
    """Drop ids recorded before `until`: the door turns their repetitions away as too old."""
    for digest, recorded in list(state.seen.items()):
        if recorded >= until:
            return
        del state.seen[digest]


def _digest(event: SelfPlayCompletedEvent) -> bytes:
    """16 bytes instead of two strings of up to 256 characters: every id is in every state."""
    named = f"{len(event.source)} {event.source}{event.id}"
    return hashlib.sha256(named.encode()).digest()[:16]
