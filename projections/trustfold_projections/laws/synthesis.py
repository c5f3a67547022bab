"""The reward of a draft: how well a synthesized neuron did before a person is asked (SPEC 6).

R = 0.40 det_pass_rate + 0.25 judge_score + 0.15 cost_ratio - 0.10 similarity_penalty
  + 0.10 coverage_bonus, in exact integers; from 0.65 on a person is asked, below it the breakdown
goes back to who drafts. R approves nothing. What is said of it in words is in `synthesis_words`.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from trustfold_schemas.amounts import PPM, MicroUsd, Ppm
from trustfold_schemas.events import NeuronName
from trustfold_schemas.subject import Effect, Scope

WEIGHTS: Final = {
    "det_pass_rate": 40,
    "judge_score": 25,
    "cost_ratio": 15,
    "similarity_penalty": -10,
    "coverage_bonus": 10,
}
"""Hundredths, in the order of the formula."""
HUNDRED = 100
GATE = Ppm(650_000)
"""The least reward with which a person is asked."""

TESTS_MAX = 10_000
WORDS_MAX = 4_000


class Checked(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One deterministic test of a draft."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    passed: bool


class Judged(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What the judge said of a draft, by the constitution: a score and its words."""

    score: Ppm
    words: Annotated[str, Meta(max_length=WORDS_MAX)] = ""


class Cost(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What the draft cost in the sandbox, and what was estimated, in micro-USD."""

    actual_usd: MicroUsd
    estimated_usd: MicroUsd


class Similarity(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """How much the draft is like a neuron that exists already."""

    penalty: Ppm = Ppm(0)
    nearest: NeuronName | None = None


class Coverage(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """How much of what the draft does no neuron covered before."""

    bonus: Ppm = Ppm(0)
    effects: tuple[Effect, ...] = ()


class Measured(Struct, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=True):
    """Everything that was measured of one draft of a neuron."""

    neuron: NeuronName
    tests: Annotated[tuple[Checked, ...], Meta(max_length=TESTS_MAX)]
    judge: Judged
    cost: Cost
    similarity: Similarity = Similarity()
    coverage: Coverage = Coverage()
    scope: Scope = ""

    @property
    def red(self) -> list[str]:
        """The names of the tests that failed, in their order."""
        return [test.name for test in self.tests if not test.passed]


class Term(Struct, frozen=True, gc=False, kw_only=True):
    """One component of a reward: `term` is weight times value, in hundredths of a millionth."""

    component: str
    value: Ppm
    weight: int
    term: int


class Breakdown(Struct, frozen=True, gc=False, kw_only=True):
    """A reward taken apart. `reward` is never rounded up, so none passes the gate by rounding."""

    terms: tuple[Term, ...]
    reward: Ppm

    @property
    def passes(self) -> bool:
        """Whether a person may be asked."""
        return self.reward >= GATE

    def value(self, component: str) -> Ppm:
        """The value of one component."""
        return next(term.value for term in self.terms if term.component == component)


def reward_of(measured: Measured) -> Breakdown:
    """The reward of a draft, from 0 to 10**6 ppm.

    >>> draft = Measured(
    ...     neuron="budget", tests=(Checked("sums", True),), judge=Judged(Ppm(600_000)),
    ...     cost=Cost(MicroUsd(10), MicroUsd(10)), coverage=Coverage(Ppm(200_000)))
    >>> reward_of(draft).reward
    720000
    """
    values = {
        "det_pass_rate": pass_rate(measured.tests),
        "judge_score": measured.judge.score,
        "cost_ratio": cost_ratio(measured.cost),
        "similarity_penalty": measured.similarity.penalty,
        "coverage_bonus": measured.coverage.bonus,
    }
    terms = tuple(
        Term(component=name, value=values[name], weight=weight, term=weight * values[name])
        for name, weight in WEIGHTS.items()
    )
    total = sum(term.term for term in terms)
    return Breakdown(terms=terms, reward=Ppm(min(PPM, max(0, total // HUNDRED))))


def pass_rate(tests: tuple[Checked, ...]) -> Ppm:
    """The share of tests that passed; a draft without tests has passed none."""
    return Ppm(sum(test.passed for test in tests) * PPM // len(tests)) if tests else Ppm(0)


def cost_ratio(cost: Cost) -> Ppm:
    """Estimated by actual cost: 1 within the estimate, less above it, 0 where it was to be free."""
    if cost.actual_usd <= cost.estimated_usd:
        return Ppm(PPM)
    return Ppm(cost.estimated_usd * PPM // cost.actual_usd)
