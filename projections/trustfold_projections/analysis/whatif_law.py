"""Scores under another half-life and other weights: the law of SPEC 4 with its two numbers free.

Exact integers as in `laws.time_weights`: from 1 to 270 days every product fits in 63 bits, so that
SQL computes the same mantissas with BIGINT. Nothing here is a score that anybody is promoted by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from trustfold_projections.laws.fold import counts, later, rollbacks_in_force
from trustfold_projections.laws.scoring import RAW_SCORE_WEIGHTS, values_of
from trustfold_projections.laws.time_weights import MANTISSAS, ZERO
from trustfold_schemas.instants import DAY
from trustfold_schemas.ledger import COMPONENTS, UNDO_RATE, Entry
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject

DAYS_MIN: Final = 1
DAYS_MAX: Final = 270
"""Beyond, the product of a mantissa's step and a fraction would pass 63 bits."""
_STEPS: Final = len(MANTISSAS) - 1

Weights = tuple[float, float, float, float, float]


class HalfLife(Struct, frozen=True):
    """A half-life in whole days, from DAYS_MIN to DAYS_MAX."""

    days: int

    def __post_init__(self) -> None:
        if not DAYS_MIN <= self.days <= DAYS_MAX:
            raise ValueError(
                f"Expected a half-life of {DAYS_MIN} to {DAYS_MAX} days, got {self.days}"
            )

    @property
    def micros(self) -> int:
        """Its length in microseconds."""
        return self.days * DAY

    def g(self, moment: int) -> int:
        """The weight of a moment (microseconds since 1970), exact; before 2020 that of 2020."""
        era, rem = divmod(max(moment, ZERO) - ZERO, self.micros)
        i, f = divmod(rem * _STEPS, self.micros)
        low = MANTISSAS[i]
        return low + (MANTISSAS[i + 1] - low) * f // self.micros << era


class WhatIf(Struct, frozen=True, kw_only=True):
    """What a subject's score would be at a moment, under one half-life and one set of weights."""

    subject: Subject
    half_life_days: int
    raw_score: float
    freshness: float
    score: float
    n_samples: int
    effective_samples: float


def checked_weights(weights: Sequence[float]) -> Weights:
    """Five weights of raw_score, in the order of COMPONENTS. Raises ValueError."""
    if len(weights) != len(COMPONENTS) or any(not 0 <= weight <= 1 for weight in weights):
        raise ValueError(
            f"Expected five weights from 0 to 1, for {', '.join(COMPONENTS)}; "
            f"got {', '.join(f'{weight:g}' for weight in weights)}"
        )
    if abs(sum(weights) - 1) > 1e-9:
        raise ValueError(f"Expected weights that add up to 1, got {sum(weights):g}")
    a, b, c, d, e = weights
    return a, b, c, d, e


def whatif_of(
    state: State, half_life: HalfLife, now: int, weights: Weights = RAW_SCORE_WEIGHTS
) -> WhatIf:
    """What a state says whose sums were weighted by this half-life."""
    values = values_of(state)
    raw_score = 0.0
    for c, weight in enumerate(weights):
        raw_score += weight * (1 - values[c] if c == UNDO_RATE else values[c])
    freshness = 0.0
    if state.last_updated is not None:
        freshness = min(1.0, half_life.g(state.last_updated) / half_life.g(now))
    return WhatIf(
        subject=state.subject,
        half_life_days=half_life.days,
        raw_score=raw_score,
        freshness=freshness,
        score=raw_score * freshness,
        n_samples=state.n_samples,
        effective_samples=state.den[UNDO_RATE] / half_life.g(now),
    )


def over_time(
    subject: Subject,
    entries: Sequence[Entry],
    half_life: HalfLife,
    moments: Iterable[int],
    weights: Weights = RAW_SCORE_WEIGHTS,
) -> Iterator[tuple[int, WhatIf]]:
    """A subject's score as of each moment, read at that moment; both in ascending order.

    `entries` is its whole ledger in log order. A moment knows no rollback of later.
    """
    state = State(subject=subject)
    known: list[Entry] = []
    waiting = iter(sorted(entries, key=lambda entry: entry.recorded))
    following = next(waiting, None)
    for moment in moments:
        while following is not None and following.recorded <= moment:
            known.append(following)
            if following.kind in ("rollback", "rollback_lifted"):
                state = refolded(subject, known, half_life)
            else:
                _add(state, following, half_life)
            following = next(waiting, None)
        yield moment, whatif_of(state, half_life, moment, weights)


def refolded(subject: Subject, entries: Sequence[Entry], half_life: HalfLife) -> State:
    """The state of a subject from its entries, in log order, weighted by a half-life."""
    state = State(subject=subject, rollbacks=rollbacks_in_force(entries))
    for entry in entries:
        if entry.kind not in ("rollback", "rollback_lifted"):
            _add(state, entry, half_life)
    return state


def _add(state: State, entry: Entry, half_life: HalfLife) -> None:
    if state.rollbacks and not counts(entry.chain, state.rollbacks):
        return
    weight = half_life.g(entry.occurred)
    for c in range(5):
        state.num[c] += entry.amounts[c] * weight
        state.den[c] += entry.weights[c] * weight
    if entry.self_play is not None:
        state.self_play_num += entry.self_play[0] * weight
        state.self_play_den += entry.self_play[1] * weight
    state.n_samples += entry.n_samples
    if entry.clean and entry.kind in ("evidence", "initial"):
        state.last_updated = later(state.last_updated, entry.occurred)
