"""What is known of each action's subject strictly before it, as columns over the actions.

One slice at a time; what a later slice needs of the last subject is carried as exact integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from trustfold_projections.analysis.backtest.columns import (
    NONE,
    ActionColumns,
    Bools,
    EntryColumns,
    Floats,
    Ints,
)
from trustfold_projections.analysis.backtest.limbs import (
    as_floats,
    as_int,
    limbs_for,
    normalised,
    split,
    split_int,
)
from trustfold_projections.analysis.backtest.slices import Slice
from trustfold_projections.analysis.eras import eras_and_ms
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject

T = TypeVar("T")

NOBODY: Final = Subject("", "backtest", "none")
"""The subject of states that are made for a comparison only."""


class Carry(Struct, kw_only=True):
    """What is known of one subject at the end of a slice, its entries from `era` to `last_era`."""

    subject: int = -1
    era: int = 0
    last_era: int = 0
    num: list[int] = msgspec.field(default_factory=lambda: [0] * 5)
    den: list[int] = msgspec.field(default_factory=lambda: [0] * 5)
    plain_num: list[int] = msgspec.field(default_factory=lambda: [0] * 5)
    plain_den: list[int] = msgspec.field(default_factory=lambda: [0] * 5)
    n: int = 0
    row: int = 0
    updated: int = NONE
    bad_at: int = NONE
    grant_at: int = NONE


class Standing(Struct, eq=False, kw_only=True):
    """Column by column what is known before each action.

    `num` and `den` are limbs of the exact sums divided by 2**`era`, `plain_num` and `plain_den`
    sums without weights of time; `row` is the run of clean traces.
    """

    actions: ActionColumns
    era: Ints
    num: list[list[Ints]]
    den: list[list[Ints]]
    plain_num: list[Ints]
    plain_den: list[Ints]
    n: Ints
    row: Ints
    updated: Ints
    bad_at: Ints
    grant_at: Ints

    def state(self, row: int) -> State:
        """The exact state before one action, for the law's own functions."""
        era = int(self.era[row])
        return State(
            subject=NOBODY,
            num=[as_int(limbs, row) << era for limbs in self.num],
            den=[as_int(limbs, row) << era for limbs in self.den],
            n_samples=int(self.n[row]),
            last_updated=_moment(self.updated[row]),
            last_bad_at=_moment(self.bad_at[row]),
            last_grant_at=_moment(self.grant_at[row]),
        )

    def weight_of(self, moments: Ints) -> Floats:
        """The weights of moments divided by 2**era, as doubles; before 2020 it is that of 2020."""
        era, m = eras_and_ms(moments)
        weights: Floats = np.ldexp(m.astype(np.float64), era - self.era)
        return weights

    def floats(self, sums: Sequence[list[Ints]]) -> list[Floats]:
        """Five exact sums as doubles."""
        return [as_floats(limbs) for limbs in sums]


def standing(part: Slice, carry: Carry) -> tuple[Standing, Carry]:
    """What is known before each action of a slice, and what to carry into the next."""
    made = _Rows(part.entries, part.actions, carry)
    return made.standing(), made.carry()


class _Rows:
    """The arithmetic of one slice: where each subject's rows begin, and where each action looks.

    Row -1 of a subject stands for what is carried into it, or for nothing.
    """

    def __init__(self, entries: EntryColumns, actions: ActionColumns, carry: Carry) -> None:
        self.entries, self.actions, self.carried = entries, actions, carry
        count = len(entries)
        self.numbers, first = np.unique(entries.subject, return_index=True)
        self.first: Ints = first.astype(np.int64)
        group = np.repeat(np.arange(len(self.first)), np.diff(np.append(self.first, count)))
        self.group: Ints = group.astype(np.int64)
        """Of each entry, which of the slice's subjects it is of."""
        self.start: Ints = self.first[self.group]
        """Of each entry, the first of its subject in this slice."""
        self._look()
        self._eras()

    def _look(self) -> None:
        """Find the last entry before each action, and who has none."""
        entries, actions = self.entries, self.actions
        of = np.searchsorted(self.numbers, actions.subject)
        known = of < len(self.numbers)
        known[known] = self.numbers[of[known]] == actions.subject[known]
        self.at: Ints = np.full(len(actions), -1, np.int64)
        self.of: Ints = np.where(known, of, -1)
        if known.any():
            # One sorted key of subject and moment: both are made small by taking off the least.
            low = min(int(entries.recorded.min()), int(actions.moment.min()))
            high = max(int(entries.recorded.max()), int(actions.moment.max()))
            span = high - low + 2
            keys = self.group * span + (entries.recorded - low)
            wanted = self.of[known] * span + (actions.moment[known] - low)
            found = np.searchsorted(keys, wanted, "left").astype(np.int64) - 1
            begins = self.first[self.of[known]]
            self.at[known] = np.where(found >= begins, found, -1)
        self.found: Bools = self.at >= 0
        self.rows: Ints = self.at[self.found]
        self.begins: Ints = self.start[self.rows]
        self.is_carried: Bools = actions.subject == self.carried.subject

    def _eras(self) -> None:
        """The first era of each subject, to which its sums are relative, and the limbs for all."""
        entries, carried = self.entries, self.carried
        self.base: Ints = np.empty(0, np.int64)
        self.last: Ints = self.base
        if len(entries):
            self.base = np.minimum.reduceat(entries.era, self.first)
            self.last = np.maximum.reduceat(entries.era, self.first)
            if self.numbers[0] == carried.subject:
                self.base[0] = min(int(self.base[0]), carried.era)
                self.last[0] = max(int(self.last[0]), carried.last_era)
        most = int((self.last - self.base).max()) if len(entries) else 0
        self.limbs = limbs_for(max(most, carried.last_era - carried.era))
        self.shift: Ints = entries.era - self.base[self.group]
        self.era: Ints = np.full(len(self.actions), carried.era, np.int64)
        here = self.of >= 0
        self.era[here] = self.base[self.of[here]]

    # ---- running sums and maxima ---------------------------------------------------------------

    def _sums(self, column: Ints, carried: int) -> Ints:
        """The running sum of a column before each action, what is carried included."""
        made = np.zeros(len(self.actions), np.int64)
        if column.any():  # few logs have all the components
            running = np.cumsum(column)
            before = running - column
            made[self.found] = running[self.rows] - before[self.begins]
        made[self.is_carried] += carried
        return made

    def _weighted(self, column: Ints, carried: int) -> list[Ints]:
        """The exact running sum of column * m << era before each action, in limbs."""
        product = column * self.entries.m
        era = self._carried_base()
        parts = split_int(carried >> era, self.limbs)
        return normalised(
            [
                self._sums(split(product, self.shift, number, self.limbs), parts[number])
                for number in range(self.limbs)
            ]
        )

    def _carried_base(self) -> int:
        """The era that the sums of the carried subject are relative to."""
        if len(self.numbers) and self.numbers[0] == self.carried.subject:
            return int(self.base[0])
        return self.carried.era

    def _maxima(self, column: Ints, carried: int) -> Ints:
        """The greatest of a column so far before each action, or NONE."""
        made = np.full(len(self.actions), NONE, np.int64)
        if len(self.rows):
            made[self.found] = self._running_maximum(column)[self.rows]
        made[self.is_carried] = np.maximum(made[self.is_carried], carried)
        return made

    def _running_maximum(self, column: Ints) -> Ints:
        present = column != NONE
        if not present.any():
            return column
        low = int(column[present].min())
        span = int(column[present].max()) - low + 2
        # Each subject's values lie above all of those before it, so that no maximum runs over.
        steps = self.group * span + np.where(present, column - low + 1, 0)
        value = np.maximum.accumulate(steps) - self.group * span
        return np.where(value > 0, value - 1 + low, NONE)

    def _row(self) -> Ints:
        """The run of clean traces before each action."""
        entries = self.entries
        made = np.zeros(len(self.actions), np.int64)
        unbroken = ~self.found
        if len(self.rows):
            good = np.cumsum(entries.good)
            places = np.arange(len(entries))
            broken = np.maximum.accumulate(np.where(entries.worse, places, -1))
            rows, begins = self.rows, self.begins
            since = broken[rows]
            whole = since < begins
            before = np.where(whole, good[begins] - entries.good[begins], good[since])
            made[self.found] = good[rows] - before
            unbroken[self.found] = whole
        made[self.is_carried & unbroken] += self.carried.row
        return made

    # ---- results -------------------------------------------------------------------------------

    def standing(self) -> Standing:
        """What is known before each action."""
        entries, carried = self.entries, self.carried
        return Standing(
            actions=self.actions,
            era=self.era,
            num=self._each(self._weighted, entries.amounts, carried.num),
            den=self._each(self._weighted, entries.weights, carried.den),
            plain_num=self._each(self._sums, entries.amounts, carried.plain_num),
            plain_den=self._each(self._sums, entries.weights, carried.plain_den),
            n=self._sums(entries.n, carried.n),
            row=self._row(),
            updated=self._maxima(entries.updated, carried.updated),
            bad_at=self._maxima(entries.bad_at, carried.bad_at),
            grant_at=self._maxima(entries.grant_at, carried.grant_at),
        )

    def _each(
        self, running: Callable[[Ints, int], T], columns: Sequence[Ints], carried: Sequence[int]
    ) -> list[T]:
        """The running sums of five columns; those that are the same are summed once."""
        made: list[T] = []
        for c, column in enumerate(columns):
            for before in range(c):
                if carried[before] == carried[c] and np.array_equal(columns[before], column):
                    made.append(made[before])
                    break
            else:
                made.append(running(column, carried[c]))
        return made

    def carry(self) -> Carry:
        """What is known of the last subject at the end of the slice."""
        entries = self.entries
        if not len(entries):
            return self.carried
        last = int(self.numbers[-1])
        before = self.carried if last == self.carried.subject else Carry(subject=last)
        mine = entries.part(int(self.first[-1]), len(entries))
        weighed = [
            [_total(column, mine) for column in columns] for columns in (mine.amounts, mine.weights)
        ]
        worse = np.flatnonzero(mine.worse)
        run = int(mine.good[worse[-1] + 1 :].sum()) if len(worse) else int(mine.good.sum())
        return Carry(
            subject=last,
            era=int(self.base[-1]),
            last_era=int(self.last[-1]),
            num=[a + b for a, b in zip(before.num, weighed[0], strict=True)],
            den=[a + b for a, b in zip(before.den, weighed[1], strict=True)],
            plain_num=_added(before.plain_num, mine.amounts),
            plain_den=_added(before.plain_den, mine.weights),
            n=before.n + int(mine.n.sum()),
            row=run if len(worse) else before.row + run,
            updated=max(before.updated, int(mine.updated.max())),
            bad_at=max(before.bad_at, int(mine.bad_at.max())),
            grant_at=max(before.grant_at, int(mine.grant_at.max())),
        )


def _total(column: Ints, entries: EntryColumns) -> int:
    """The exact sum of column * m << era."""
    product = column * entries.m
    low, high = product & ((1 << 26) - 1), product >> 26
    total = 0
    for era in np.unique(entries.era):
        of_era = entries.era == era
        total += ((int(high[of_era].sum()) << 26) + int(low[of_era].sum())) << int(era)
    return total


def _added(before: Sequence[int], columns: Sequence[Ints]) -> list[int]:
    return [known + int(column.sum()) for known, column in zip(before, columns, strict=True)]


def _moment(value: np.int64) -> int | None:
    return None if value == NONE else int(value)
