"""Thresholds: what a subject must reach, and what it lacks, judged in exact integers (SPEC 5).

A float is only ever compared where it is further from the threshold than it can err.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import Struct

from trustfold_projections.laws.policy.standing import Standing, standing_of
from trustfold_projections.laws.time_weights import ZERO, g
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import BANDS, ReasonCode, Threshold
from trustfold_schemas.events import Reversibility
from trustfold_schemas.ledger import UNDO_RATE
from trustfold_schemas.scores import State

DEFAULTS: Final[dict[Reversibility, Threshold]] = {
    "reversible": Threshold("reversible", 650_000, 20, 0, 900_000),
    "reversible_with_cost": Threshold("reversible_with_cost", 750_000, 10, 5, 900_000),
    "irreversible": Threshold("irreversible", PPM, 10, 5, PPM, "approve_required"),
}
"""What holds where no threshold is set, from a backtest on real runs. The last one is the seed's
`min_score=1.0`; a rule, not this number, is what never promotes the irreversible."""

_FLOAT_ERRS = 1e-9
"""Far more than the rounding of a dozen float operations on numbers up to one."""

_SHARES = (30, 25, 20, 15, 10)
"""The weights of raw_score in hundredths; the last one weighs 1 - undo_rate."""
_WITHOUT_EVIDENCE = ((0, 1), (1, 2), (1, 2), (1, 2), (0, 1))


class Shortfall(Struct, frozen=True, gc=False):
    """One thing that a threshold asks for and a state lacks, as a code and in words."""

    reason: ReasonCode
    words: str


def stricter(a: Reversibility, b: Reversibility) -> Reversibility:
    """The stricter of two reversibilities."""
    return BANDS[max(BANDS.index(a), BANDS.index(b))]


def strictest(one: Threshold, other: Threshold) -> Threshold:
    """A threshold that is met where both are; it keeps the name of the first."""
    return Threshold(
        one.risk_band,
        max(one.min_score, other.min_score),
        max(one.min_samples, other.min_samples),
        max(one.min_grants, other.min_grants),
        max(one.min_approval_rate, other.min_approval_rate),
        one.cap_autonomy or other.cap_autonomy,
        one.effect,
        one.version,
    )


def shortfalls(known: Standing, threshold: Threshold, weight: int, score: float) -> list[Shortfall]:
    """What a subject lacks of a threshold at a moment; empty where it is met.

    Score without self-play, effective samples and grants, and, wherever there is human evidence,
    the approval rate. `weight` is that of the moment, `score` the subject's then.
    """
    made: list[Shortfall] = []
    if not _meets_score(known, threshold.min_score, weight, score):
        words = f"a score of {shown(threshold.min_score)}, it is {score:.4f}"
        made.append(Shortfall(ReasonCode.SCORE_TOO_LOW, words))
    return made + evidence_shortfalls(known, threshold, weight)


def evidence_shortfalls(known: Standing, threshold: Threshold, weight: int) -> list[Shortfall]:
    """The same but for the score: samples, grants and the approval rate."""
    made: list[Shortfall] = []
    # How many are missing is counted only where some are.
    if known.samples < threshold.min_samples * weight:
        made.append(_more_samples(_short(known.samples, threshold.min_samples, weight)))
    if known.granted < threshold.min_grants * PPM * weight:
        made.append(_more_grants(_short(known.granted, threshold.min_grants, PPM * weight)))
    if known.granted < threshold.min_approval_rate * known.decided:
        rate = known.granted / (known.decided * PPM)
        words = f"an approval rate of {shown(threshold.min_approval_rate)}, it is {rate:.4f}"
        made.append(Shortfall(ReasonCode.APPROVAL_RATE_TOO_LOW, words))
    return made


def meets(state: State, threshold: Threshold, now: int) -> bool:
    """Whether a state lacks nothing of a threshold at a moment."""
    known, weight = standing_of(state), g(max(now, ZERO))
    return not shortfalls(known, threshold, weight, known.raw_score * known.freshness(weight))


def _meets_score(known: Standing, min_score: int, weight: int, score: float) -> bool:
    wanted = min_score / PPM
    if abs(score - wanted) > _FLOAT_ERRS:
        return score > wanted
    top, bottom = _exact_score(known, weight)
    return top * PPM >= min_score * bottom


def _exact_score(known: Standing, weight: int) -> tuple[int, int]:
    """The score as a fraction, top and bottom, with no float on the way."""
    top, bottom = 0, 1
    for c, (share, num, den) in enumerate(zip(_SHARES, *known.all_sums, strict=True)):
        part, whole = (num, den * PPM) if den else _WITHOUT_EVIDENCE[c]
        if c == UNDO_RATE:
            part = whole - part
        # Not reduced: numbers of some hundred bits are faster multiplied than reduced.
        top, bottom = top * whole + share * part * bottom, bottom * whole
    return top * min(known.weight, weight), 100 * bottom * weight


def _short(have: int, wanted: int, weight: int) -> int:
    """How many of a weight are missing, rounded up."""
    return max(0, -((have - wanted * weight) // weight))


@lru_cache(maxsize=1024)
def shown(ppm: int) -> str:
    """A share as it was set."""
    return f"{ppm / PPM:g}"


@lru_cache(maxsize=1024)
def _more_samples(number: int) -> Shortfall:
    return Shortfall(ReasonCode.TOO_FEW_SAMPLES, _more(number, "sample"))


@lru_cache(maxsize=1024)
def _more_grants(number: int) -> Shortfall:
    return Shortfall(ReasonCode.TOO_FEW_GRANTS, _more(number, "grant"))


def _more(number: int, what: str) -> str:
    return f"{number:,} more {what}{'' if number == 1 else 's'}"
