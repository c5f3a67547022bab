"""Thresholds: what a subject must reach, and what it lacks, judged in exact integers (SPEC 5).

A float is only ever compared where it is further from the threshold than it can err.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from msgspec import Struct

from trustfold_projections.laws.scoring import freshness_of, raw_score_of, values_of
from trustfold_projections.laws.time_weights import ZERO, g
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import BANDS, ReasonCode, Threshold
from trustfold_schemas.events import Reversibility
from trustfold_schemas.ledger import HUMAN_APPROVAL_RATE, UNDO_RATE
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

_SHARES = tuple(Fraction(n, 100) for n in (30, 25, 20, 15, 10))
_WITHOUT_EVIDENCE = (Fraction(0), Fraction(1, 2), Fraction(1, 2), Fraction(1, 2), Fraction(0))


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


def shortfalls(
    state: State, threshold: Threshold, now: int, score: float | None = None
) -> list[Shortfall]:
    """What a state lacks of a threshold at a moment; empty where it is met.

    Score without self-play, effective samples and grants, and, wherever there is human evidence,
    the approval rate. `score` is the state's own, where the caller has it already.
    """
    made: list[Shortfall] = []
    if score is None:
        score = score_without_self_play(state, now)
    if not reaches_score(state, threshold.min_score, now, score):
        made.append(
            Shortfall(
                ReasonCode.SCORE_TOO_LOW,
                f"a score of {shown(threshold.min_score)}, it is {score:.4f}",
            )
        )
    weight = g(max(now, ZERO))
    if state.den[UNDO_RATE] < threshold.min_samples * weight:
        samples = samples_short(state, threshold.min_samples, now)
        made.append(Shortfall(ReasonCode.TOO_FEW_SAMPLES, _more(samples, "sample")))
    if state.num[HUMAN_APPROVAL_RATE] < threshold.min_grants * PPM * weight:
        grants = grants_short(state, threshold.min_grants, now)
        made.append(Shortfall(ReasonCode.TOO_FEW_GRANTS, _more(grants, "grant")))
    if not reaches_approval_rate(state, threshold.min_approval_rate):
        rate = state.num[HUMAN_APPROVAL_RATE] / (state.den[HUMAN_APPROVAL_RATE] * PPM)
        made.append(
            Shortfall(
                ReasonCode.APPROVAL_RATE_TOO_LOW,
                f"an approval rate of {shown(threshold.min_approval_rate)}, it is {rate:.4f}",
            )
        )
    return made


def score_without_self_play(state: State, now: int) -> float:
    """The score that the policy goes by, for people."""
    return raw_score_of(values_of(state, self_play=False)) * freshness_of(state.last_updated, now)


def reaches_score(state: State, min_score: int, now: int, score: float | None = None) -> bool:
    """Whether the score without self-play is at least `min_score` (ppm) at `now`, exactly."""
    if score is None:
        score = score_without_self_play(state, now)
    wanted = min_score / PPM
    if abs(score - wanted) > _FLOAT_ERRS:
        return score > wanted
    return exact_score(state, now) >= Fraction(min_score, PPM)


def exact_score(state: State, now: int) -> Fraction:
    """The score without self-play as the fraction it is, with no float on the way."""
    if state.last_updated is None:
        return Fraction(0)
    raw = Fraction(0)
    for c, share in enumerate(_SHARES):
        num, den = state.num[c], state.den[c]
        value = Fraction(num, den * PPM) if den else _WITHOUT_EVIDENCE[c]
        raw += share * (1 - value if c == UNDO_RATE else value)
    return raw * min(Fraction(1), Fraction(g(state.last_updated), g(max(now, ZERO))))


def samples_short(state: State, min_samples: int, now: int) -> int:
    """How many fresh samples are missing to `min_samples` effective ones, rounded up; exact."""
    weight = g(max(now, ZERO))
    return max(0, -((state.den[UNDO_RATE] - min_samples * weight) // weight))


def grants_short(state: State, min_grants: int, now: int) -> int:
    """How many fresh grants are missing to `min_grants` effective ones, rounded up; exact."""
    weight = PPM * g(max(now, ZERO))
    return max(0, -((state.num[HUMAN_APPROVAL_RATE] - min_grants * weight) // weight))


def reaches_approval_rate(state: State, min_approval_rate: int) -> bool:
    """Whether humans granted at least this share (ppm), or never decided at all; exact."""
    return state.num[HUMAN_APPROVAL_RATE] >= min_approval_rate * state.den[HUMAN_APPROVAL_RATE]


def shown(ppm: int) -> str:
    """A share as it was set."""
    return f"{ppm / PPM:g}"


def _more(number: int, what: str) -> str:
    return f"{number:,} more {what}{'' if number == 1 else 's'}"
