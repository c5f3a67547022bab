"""What a synthesis needs of its surroundings: who drafts, where drafts are tried, who decides."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal, Protocol

from msgspec import Struct

from trustfold_projections.laws.synthesis import Measured
from trustfold_projections.laws.synthesis_words import Dossier


class Draft(Struct, frozen=True):
    """A draft of a neuron, and what making it cost, in micro-USD."""

    neuron: str
    content: str
    cost: int = 0


class Answer(Struct, frozen=True):
    """What a person answered at the gate; `words` are for the next draft of a revision."""

    decision: Literal["approve", "deny", "revise"]
    by: str
    words: str = ""


class Generator(Protocol):
    """Makes drafts, by a model or otherwise."""

    def estimate(self, task: str) -> int:
        """What one draft may cost at most, in micro-USD."""
        ...

    def draft(self, task: str, feedback: str | None, attempt: int) -> Awaitable[Draft]:
        """Draft a neuron; `feedback` is prose about the draft before, None for the first one."""
        ...


class Bench(Protocol):
    """Tries a draft in a sandbox: tests, judge, cost, likeness and coverage."""

    def measure(self, draft: Draft) -> Awaitable[Measured]:
        """Everything that is measured of a draft."""
        ...


class Gate(Protocol):
    """The person who decides."""

    def ask(self, dossier: Dossier, draft: Draft) -> Awaitable[Answer]:
        """Show a draft that passed, and wait for the answer, however long that takes."""
        ...
