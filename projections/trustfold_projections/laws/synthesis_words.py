"""A reward in words: prose for the next draft, and the dossier for the person at the gate."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from trustfold_projections.laws.synthesis import (
    GATE,
    HUNDRED,
    WEIGHTS,
    Breakdown,
    Measured,
    reward_of,
)
from trustfold_schemas.amounts import PPM
from trustfold_schemas.documents import decimal_of

NAMES_MAX = 20
"""Tests named in prose; of more, so many are named and the rest counted."""
_FULL = {name: PPM if weight > 0 else 0 for name, weight in WEIGHTS.items()}


class Dossier(Struct, frozen=True, gc=False, kw_only=True):
    """What a person sees before approving a neuron. Amounts are decimals as text would show them.

    `text` is the same for reading. R is one number among others: it has approved nothing.
    """

    neuron: str
    scope: str
    reward: float
    gate: float
    passes: bool
    breakdown: dict[str, float]
    terms: dict[str, float]
    tests: int
    red_tests: tuple[str, ...]
    judge_words: str
    cost_usd: float
    estimated_usd: float
    nearest: str | None
    new_effects: tuple[str, ...]
    attempt: int
    text: str


def prose(measured: Measured, breakdown: Breakdown | None = None) -> str:
    """The breakdown for whoever drafts next: what was red, what the judge said, what is missing."""
    found = breakdown or reward_of(measured)
    lines = [
        f"The draft of {measured.neuron} reached R = {_share(found.reward)}; "
        + (
            f"the gate at {_share(GATE)} is passed."
            if found.passes
            else f"the gate is at {_share(GATE)}, {_share(GATE - found.reward)} more."
        ),
        _tests(measured, found),
        _judge(measured, found),
        _cost(measured, found),
    ]
    if measured.similarity.penalty:
        nearest = measured.similarity.nearest or "a neuron that exists"
        lines.append(
            f"similarity_penalty = {_share(measured.similarity.penalty)}: "
            f"it is much like {nearest}."
        )
    lines.append(_coverage(measured))
    if not found.passes:
        lines.append(f"Try again with this in mind. {_most(found)}")
    return "\n".join(lines)


def dossier(measured: Measured, attempt: int = 1) -> Dossier:
    """The dossier of a draft, `attempt` counting the drafts so far."""
    found = reward_of(measured)
    return Dossier(
        neuron=measured.neuron,
        scope=measured.scope,
        reward=found.reward / PPM,
        gate=GATE / PPM,
        passes=found.passes,
        breakdown={term.component: term.value / PPM for term in found.terms},
        terms={term.component: term.term / (HUNDRED * PPM) for term in found.terms},
        tests=len(measured.tests),
        red_tests=tuple(measured.red),
        judge_words=measured.judge.words,
        cost_usd=measured.cost.actual_usd / PPM,
        estimated_usd=measured.cost.estimated_usd / PPM,
        nearest=measured.similarity.nearest,
        new_effects=measured.coverage.effects,
        attempt=attempt,
        text=_dossier_text(measured, found, attempt),
    )


def breakdown_data(measured: Measured, breakdown: Breakdown) -> dict[str, object]:
    """The breakdown as it stands in `neuron.synthesized`: components as decimals, tests counted."""
    return {
        **{term.component: decimal_of(term.value) for term in breakdown.terms},
        "tests": len(measured.tests),
        "red_tests": len(measured.red),
    }


def _dossier_text(measured: Measured, found: Breakdown, attempt: int) -> str:
    scope = f" (scope {measured.scope})" if measured.scope else ""
    lines = [
        f"Neuron {measured.neuron}{scope}, draft {attempt}",
        f"R = {_share(found.reward)}, gate {_share(GATE)}",
        "",
        f"{'component':<20} {'value':>8} {'weight':>7} {'term':>9}",
    ]
    lines += [
        f"{term.component:<20} {_share(term.value):>8} {term.weight / HUNDRED:>7.2f} "
        f"{term.term / (HUNDRED * PPM):>9.4f}"
        for term in found.terms
    ]
    lines += [
        "",
        _tests(measured, found),
        _judge(measured, found),
        _cost(measured, found),
        _coverage(measured),
    ]
    if measured.similarity.nearest is not None:
        lines.append(f"Nearest neuron: {measured.similarity.nearest}.")
    lines.append("R approves nothing: approve, deny or ask for a revision.")
    return "\n".join(lines)


def _tests(measured: Measured, found: Breakdown) -> str:
    rate = _share(found.value("det_pass_rate"))
    if not measured.tests:
        return f"det_pass_rate = {rate}: no test was run."
    red = measured.red
    if not red:
        return f"det_pass_rate = {rate}: all {len(measured.tests)} tests are green."
    return (
        f"det_pass_rate = {rate}: {len(red)} of {len(measured.tests)} tests are red: {_named(red)}."
    )


def _judge(measured: Measured, found: Breakdown) -> str:
    words = measured.judge.words.strip()
    said = f"the judge said: {words}" if words else "the judge said nothing more."
    return f"judge_score = {_share(found.value('judge_score'))}: {said}"


def _cost(measured: Measured, found: Breakdown) -> str:
    cost = measured.cost
    return (
        f"cost_ratio = {_share(found.value('cost_ratio'))}: it cost "
        f"{decimal_of(cost.actual_usd)} USD, {decimal_of(cost.estimated_usd)} were estimated."
    )


def _coverage(measured: Measured) -> str:
    effects = measured.coverage.effects
    what = f"new are {_named(effects)}." if effects else "no effect class is said to be new."
    return f"coverage_bonus = {_share(measured.coverage.bonus)}: {what}"


def _most(found: Breakdown) -> str:
    """Which component could give most."""
    best = max(found.terms, key=lambda term: term.weight * (_FULL[term.component] - term.value))
    more = best.weight * (_FULL[best.component] - best.value) / (HUNDRED * PPM)
    return f"Most is to be won at {best.component}: {more:.4f}."


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_MAX])
    more = len(names) - NAMES_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def _share(ppm: int) -> str:
    """A share with as many digits as it has, two at least."""
    whole, rest = divmod(ppm, PPM)
    return f"{whole}.{f'{rest:06d}'.rstrip('0').ljust(2, '0')}"
