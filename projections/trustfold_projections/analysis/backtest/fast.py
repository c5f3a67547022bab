"""The fast path: the verdicts of the exact path for millions of actions, slice by slice in numpy.

Doubles decide where they are further from the threshold than NEAR; nearer, the exact integers of
the same slice do, by the functions of the policy. Rollbacks need the exact path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct

from trustfold_projections.analysis.backtest.columns import (
    ASKED,
    BAD,
    BANDS,
    DENIED,
    FAILED,
    NONE,
    PREVENTABLE,
    UNDONE,
    VIOLATED,
    ActionColumns,
    Bools,
    EntryColumns,
    Floats,
    Ints,
)
from trustfold_projections.analysis.backtest.rules import (
    Always,
    AsSet,
    InARow,
    Never,
    PlainMean,
    Policy,
    Thresholds,
    Trust,
    plain_mean_reaches,
    trusted,
)
from trustfold_projections.analysis.backtest.slices import slices
from trustfold_projections.analysis.backtest.standing import Carry, Standing, standing
from trustfold_projections.analysis.backtest.tally import Tally
from trustfold_projections.laws.policy.brake import BRAKE_LASTS
from trustfold_projections.laws.scoring import RAW_SCORE_WEIGHTS, WITHOUT_EVIDENCE
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import Threshold
from trustfold_schemas.events import Reversibility
from trustfold_schemas.ledger import HUMAN_APPROVAL_RATE, UNDO_RATE
from trustfold_schemas.subject import Subject

T = TypeVar("T")

NEAR: Final = 1e-12
"""Where doubles differ from a threshold by more than this share of it, they decide."""

ROWS: Final = 1 << 17
"""Entries of a slice, and actions."""

_FLAGS: Final = 2 * VIOLATED
"""What became of an action can be said in so many ways."""


class Judged(Struct, frozen=True):
    """The verdicts of one slice: a column for each policy; `exact` counts those of integers."""

    actions: ActionColumns
    allowed: list[Bools]
    exact: int


def judged(
    entries: Iterable[EntryColumns],
    actions: Iterable[ActionColumns],
    policies: Sequence[Policy],
    subjects: Sequence[Subject],
    rows: int = ROWS,
) -> Iterator[Judged]:
    """The verdicts on sorted columns, in bounded memory; `subjects` by their numbers."""
    for known in one_ahead(_standings(entries, actions, rows)):
        if len(known.actions):
            bench = _Bench(known, subjects)
            allowed = [bench.allows(policy) for policy in policies]
            yield Judged(known.actions, allowed, bench.exact)


def _standings(
    entries: Iterable[EntryColumns], actions: Iterable[ActionColumns], rows: int
) -> Iterator[Standing]:
    carry = Carry()
    for part in slices(entries, actions, rows):
        known, carry = standing(part, carry)
        yield known


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items in the same order; the next is made in a thread while one is used.

    Numpy and DuckDB let go of the interpreter, so that two cores are at work.
    """
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = other.submit(next, items, None)
            yield item


def tallied(
    made: Iterable[Judged], policies: Sequence[Policy], scopes: Sequence[str], scope_of: Ints
) -> list[Tally]:
    """The counts of verdicts by scope; `scope_of` is the number of each subject's scope."""
    shape = len(scopes), _FLAGS
    seen = np.zeros(shape, np.int64)
    allowed = np.zeros((len(policies), *shape), np.int64)
    for part in made:
        places = scope_of[part.actions.subject] * _FLAGS + part.actions.flags
        seen += np.bincount(places, minlength=seen.size).reshape(shape)
        for number, rows in enumerate(part.allowed):
            allowed[number] += np.bincount(places[rows], minlength=seen.size).reshape(shape)
    having = {
        name: (np.arange(_FLAGS) & mask) != 0
        for name, mask in (
            ("denied", DENIED),
            ("failed", FAILED),
            ("undone", UNDONE),
            ("violated", VIOLATED),
            ("preventable", PREVENTABLE),
            ("bad", BAD),
            ("saved", ASKED),
        )
    }
    return [
        Tally(
            policy=policy.name,
            scope=scopes[scope],
            actions=int(all_.sum()),
            allowed=int(some.sum()),
            questions=int(all_[having["saved"]].sum()),
            **{name: int(some[flags].sum()) for name, flags in having.items()},
        )
        for policy, by_scope in zip(policies, allowed, strict=True)
        for scope, (all_, some) in enumerate(zip(seen, by_scope, strict=True))
        if all_.any()
    ]


class _Bench:
    """Judges the actions of one slice by one policy after the other."""

    def __init__(self, known: Standing, subjects: Sequence[Subject]) -> None:
        self.known = known
        self.subjects = subjects
        self.actions = known.actions
        self.exact = 0
        self._num = known.floats(known.num)
        self._den = known.floats(known.den)
        self._weight = known.weight_of(self.actions.moment)
        self._score: Floats = self._raw_score() * self._freshness()
        self._known_bars: dict[tuple[int, Threshold | None], tuple[Bools, Bools]] = {}
        bad, granted = known.bad_at, known.grant_at
        self._free: Bools = (bad == NONE) | (
            (self.actions.moment >= bad + BRAKE_LASTS) & (granted > bad)
        )

    def allows(self, policy: Policy) -> Bools:
        """The verdicts of one policy. Raises TypeError for one that has no fast path."""
        if isinstance(policy, Never):
            return np.zeros(len(self.actions), np.bool_)
        if isinstance(policy, Always):
            return np.ones(len(self.actions), np.bool_)
        if isinstance(policy, InARow):
            return (self.actions.band >= 0) & (self.known.row >= policy.wanted)
        if isinstance(policy, Trust | AsSet):
            return self._trust(policy)
        if isinstance(policy, PlainMean):
            return self._plain_mean(policy.thresholds)
        raise TypeError(f"{type(policy).__name__} is judged by the exact path only")

    def _raw_score(self) -> Floats:
        total: Floats = np.zeros(len(self.actions))
        for c, share in enumerate(RAW_SCORE_WEIGHTS):
            value = _quotient(self._num[c], self._den[c] * PPM, WITHOUT_EVIDENCE[c])
            total += share * (1 - value if c == UNDO_RATE else value)
        return total

    def _freshness(self) -> Floats:
        updated = self.known.updated
        fresh = np.minimum(1.0, self.known.weight_of(updated) / self._weight)
        return np.where(updated == NONE, 0.0, fresh)

    def _trust(self, policy: Trust | AsSet) -> Bools:
        brake = not isinstance(policy, Trust) or policy.brake
        made = np.zeros(len(self.actions), np.bool_)
        for number, band in enumerate(BANDS):
            thresholds, which = self._thresholds(policy, band)
            if len(thresholds) == 1:
                sure, likely = self._reached(number, thresholds[0])
            else:
                sure, likely = self._bars(number, thresholds, which)
            if brake:
                sure, likely = sure & self._free, likely & self._free
            made |= sure
            for row in np.flatnonzero(likely & ~sure):
                threshold = thresholds[int(which[row])]
                assert threshold is not None
                self.exact += 1
                made[row] = trusted(
                    self.known.state(int(row)),
                    threshold,
                    int(self.actions.moment[row]),
                    brake=brake,
                )
        return made

    def _reached(self, number: int, threshold: Threshold | None) -> tuple[Bools, Bools]:
        """The same bars for all subjects: with the brake and without it they are looked at once."""
        key = number, threshold
        if key not in self._known_bars:
            self._known_bars[key] = self._bars(number, [threshold], np.zeros(1, np.int64))
        return self._known_bars[key]

    def _bars(
        self, number: int, thresholds: Sequence[Threshold | None], which: Ints
    ) -> tuple[Bools, Bools]:
        """Which actions of a band reach their thresholds for certain, and which by doubles."""
        num, den, weight = self._num, self._den, self._weight
        score, samples, grants, rate = (
            np.array([getattr(one, name, 0) for one in thresholds], np.float64)[which]
            for name in ("min_score", "min_samples", "min_grants", "min_approval_rate")
        )
        wanted = (
            (self._score, score / PPM),
            (den[UNDO_RATE], samples * weight),
            (num[HUMAN_APPROVAL_RATE], grants * PPM * weight),
            (num[HUMAN_APPROVAL_RATE], rate * den[HUMAN_APPROVAL_RATE]),
        )
        present = np.array([one is not None for one in thresholds], np.bool_)[which]
        sure: Bools = (self.actions.band == number) & (self.known.n > 0) & present
        likely = sure.copy()
        for reached, bar in wanted:
            # No sum is negative, so that a bar of 0 is reached without a doubt.
            sure &= (reached > bar * (1 + NEAR)) | (bar == 0)
            likely &= reached >= bar * (1 - NEAR)
        return sure, likely

    def _thresholds(
        self, policy: Trust | AsSet, band: Reversibility
    ) -> tuple[Sequence[Threshold | None], Ints]:
        """Thresholds, and of each action which one is its subject's."""
        if isinstance(policy, Trust):
            return [policy.thresholds[band]], np.zeros(len(self.actions), np.int64)
        numbers, which = np.unique(self.actions.subject, return_inverse=True)
        found = [policy.threshold_for(self.subjects[int(number)], band) for number in numbers]
        return found, which.astype(np.int64)

    def _plain_mean(self, thresholds: Thresholds) -> Bools:
        num, den = self.known.plain_num, self.known.plain_den
        mean: Floats = np.zeros(len(self.actions))
        for c, share in enumerate(RAW_SCORE_WEIGHTS):
            value = _quotient(
                num[c].astype(np.float64), den[c].astype(np.float64) * PPM, WITHOUT_EVIDENCE[c]
            )
            mean += share * (1 - value if c == UNDO_RATE else value)
        made = np.zeros(len(self.actions), np.bool_)
        for number, band in enumerate(BANDS):
            threshold = thresholds[band]
            score = threshold.min_score / PPM
            rows = (
                (self.actions.band == number)
                & (self.known.n > 0)
                & (den[UNDO_RATE] >= threshold.min_samples)
                & (num[HUMAN_APPROVAL_RATE] >= threshold.min_grants * PPM)
                & (
                    num[HUMAN_APPROVAL_RATE]
                    >= threshold.min_approval_rate * den[HUMAN_APPROVAL_RATE]
                )
                & (mean >= score - NEAR)
            )
            made |= rows & (mean > score + NEAR)
            for row in np.flatnonzero(rows & (mean <= score + NEAR)):
                self.exact += 1
                made[row] = plain_mean_reaches(
                    [int(column[row]) for column in num],
                    [int(column[row]) for column in den],
                    threshold.min_score,
                )
        return made


def _quotient(num: Floats, den: Floats, nothing: float) -> Floats:
    """The quotients, and `nothing` where den is 0."""
    made = np.full(len(num), nothing)
    np.divide(num, den, out=made, where=den != 0)
    return made
