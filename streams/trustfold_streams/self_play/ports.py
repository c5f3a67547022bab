"""What a self-play needs of its surroundings: neurons, a critic, money, effects and weights."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct

from trustfold_projections.laws.self_play import Neighbor
from trustfold_schemas.events import Reversibility

Preferred = Literal["first", "second"]


class Judgement(Struct, frozen=True):
    """What the critic says of two answers: which is better, why, and what saying so cost.

    `cost` is in micro-USD.
    """

    preferred: Preferred
    why: str
    cost: Annotated[int, Meta(ge=0)]


class Neurons(Protocol):
    """Asks a neuron."""

    def answer(self, neuron: str, query: str) -> Awaitable[str]:
        """A neuron's answer; whatever it raises means that it gave none."""
        ...


class Critic(Protocol):
    """Judges two answers, without knowing whose they are."""

    @property
    def name(self) -> str:
        """The neuron or model that judges; it never competes."""
        ...

    def estimate(self, query: str) -> int:
        """What one judgement may cost at most, in micro-USD."""
        ...

    def judge(self, query: str, first: str, second: str) -> Awaitable[Judgement]:
        """Say which answer is better. A CriticError says what a failure cost."""
        ...


class Budget(Protocol):
    """Money for critics, in micro-USD."""

    def reserve(self, amount: int) -> bool:
        """Set an amount apart; False if there is not so much."""
        ...

    def settle(self, reserved: int, spent: int) -> None:
        """Give back what was set apart, less what was spent."""
        ...


class Effects(Protocol):
    """Knows what neurons do to the world."""

    def touched(self, neuron: str) -> Awaitable[Mapping[str, Reversibility | None]]:
        """The effect classes that a neuron touches; None where nobody knows how far back."""
        ...


class Weights(Protocol):
    """Knows the synapse weights of a context."""

    def neighbors(self, context: str, scope: str = "") -> Awaitable[Sequence[Neighbor]]:
        """The neurons that played in a context, the heaviest first."""
        ...


class Publish(Protocol):
    """Publishes an event; durable when it returns."""

    def __call__(self, document: bytes) -> Awaitable[object]:
        """Take one event's document."""
        ...
