"""Rulings: what the policy says of an effect before anything is known of who does it (SPEC 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from trustfold_projections.laws.policy.thresholds import DEFAULTS, Shortfall, stricter, strictest
from trustfold_schemas.decisions import BANDS, ReasonCode, Threshold
from trustfold_schemas.events import Reversibility

REMEMBERED_MAX: Final = 4096
"""So many answers are remembered; what is full stays as it is, since making room takes longer than
any question may."""

_ALWAYS_ASKED = Shortfall(ReasonCode.IRREVERSIBLE, "what cannot be undone is always asked")
_UNKNOWN = Shortfall(
    ReasonCode.UNKNOWN_REVERSIBILITY, "the caller's word how far it can be taken back"
)
_UNDECLARED = Shortfall(
    ReasonCode.UNDECLARED_EFFECT, "a declaration of how far the effect can be undone"
)


class SaidBy(Struct, frozen=True, gc=False):
    """Who set something, why, and when it was recorded."""

    by: str
    why: str
    recorded: int


class Declaration(Struct, frozen=True, gc=False):
    """A declaration in force: how far effects that match a glob can be taken back."""

    effect: str
    reversibility: Reversibility
    version: int
    said: SaidBy


class OfGlob(Struct):
    """What was set for one glob: a declaration, thresholds, and revocations by their numbers."""

    declaration: Declaration | None = None
    thresholds: list[Threshold] = msgspec.field(default_factory=list)
    revocations: list[int] = msgspec.field(default_factory=list)


class Answer(Struct, frozen=True, gc=False):
    """What a ruling comes to for one word of a caller.

    The reversibility in force, the stricter of the registry's and the word, and what must be met
    then; both None where no declaration matches. And what a promotion lacks, whoever asks.
    """

    in_force: Reversibility | None
    threshold: Threshold | None
    lacks: tuple[Shortfall, ...]


class Ruling(Struct, frozen=True, gc=False):
    """What the policy has to say of one effect, whoever does it, by the caller's own word.

    `answers` are by each word, no word is None. `capped_by` are the thresholds that forbid
    promotion in any band, `caps` the same in words. `revocations` are the numbers of those whose
    glob of the effect matches.
    """

    declaration: Declaration | None
    capped_by: tuple[Threshold, ...]
    answers: Mapping[Reversibility | None, Answer]
    caps: tuple[Shortfall, ...]
    revocations: frozenset[int]


def ruling_of(matching: Sequence[OfGlob]) -> Ruling:
    """What was set for globs that match an effect, the one that rules first before the others."""
    declared = [one.declaration for one in matching if one.declaration is not None]
    declaration = declared[0] if declared else None
    thresholds = [threshold for one in matching for threshold in one.thresholds]
    capped_by = tuple(one for one in thresholds if one.cap_autonomy is not None)
    caps = _caps(capped_by)
    revocations = frozenset(number for one in matching for number in one.revocations)
    in_force: dict[Reversibility, Reversibility] = {}
    threshold: dict[Reversibility, Threshold] = {}
    if declaration is not None:
        registry = declaration.reversibility
        in_force = {said: stricter(registry, said) for said in BANDS}
        threshold = {said: _threshold(thresholds, registry, in_force[said]) for said in BANDS}
    answers: dict[Reversibility | None, Answer] = {
        said: Answer(
            None if said is None else in_force.get(said),
            # Of a caller who does not know how far it can be taken back, the worst is supposed.
            threshold.get(said or "irreversible"),
            _lacks(declaration, said),
        )
        for said in (*BANDS, None)
    }
    return Ruling(declaration, capped_by, answers, caps, revocations)


def _threshold(
    matching: Sequence[Threshold], registry: Reversibility, in_force: Reversibility
) -> Threshold:
    """What must be met in a band: where the caller says more than the registry, both bands'."""
    made = _of_band(matching, in_force)
    if in_force == "irreversible":
        made = strictest(made, DEFAULTS["irreversible"])
    for other in BANDS[BANDS.index(registry) : BANDS.index(in_force)]:
        made = strictest(made, _of_band(matching, other))
    return made


def _of_band(matching: Sequence[Threshold], band: Reversibility) -> Threshold:
    return next((one for one in matching if one.risk_band == band), DEFAULTS[band])


def _lacks(declaration: Declaration | None, said: Reversibility | None) -> tuple[Shortfall, ...]:
    """What the registry and the caller's word leave to be desired."""
    irreversible = said == "irreversible" or (
        declaration is not None and declaration.reversibility == "irreversible"
    )
    return (
        *((_ALWAYS_ASKED,) if irreversible else ()),
        *((_UNKNOWN,) if said is None else ()),
        *((_UNDECLARED,) if declaration is None else ()),
    )


def _caps(capped_by: Sequence[Threshold]) -> tuple[Shortfall, ...]:
    """Caps as one thing that is lacking, none if there are none."""
    words = [f"the end of the cap on {one.effect} ({one.risk_band})" for one in capped_by]
    return (Shortfall(ReasonCode.CAPPED, "; ".join(words)),) if words else ()
