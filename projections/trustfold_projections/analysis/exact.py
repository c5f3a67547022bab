"""Values and scores of many subjects at once, with the very bits of the law (`laws.scoring`).

A quotient of two 127-bit integers is computed in double-double (about 100 bits). Where what it
leaves behind the double is so close to half a unit in the last place that it could be on the other
side, Python's integers divide again: so every quotient is correctly rounded, as theirs is.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from trustfold_projections.analysis.eras import Ints, eras_and_ms
from trustfold_projections.archive.schema import BLOCK, SUMS
from trustfold_projections.laws.scoring import RAW_SCORE_WEIGHTS, WITHOUT_EVIDENCE
from trustfold_projections.laws.time_weights import ZERO, era_and_m
from trustfold_schemas.amounts import PPM

Floats = np.ndarray[Any, np.dtype[np.float64]]
Pair = tuple[Floats, Floats]
"""A double-double: a number is the sum of both, the second at most half an ulp of the first."""

NEVER: Final = -1
"""In place of a moment that there was not."""

_SPLIT: Final = float(2**27 + 1)
_REST_OF_64: Final = np.uint64(2**11 - 1)
_TOP_53_OF_64: Final = np.uint64(2**64 - 2**11)
_REST_OF_63: Final = np.int64(2**10 - 1)
_TOP_53_OF_63: Final = np.int64(-(2**10))
"""Masks that cut an integer into what a double holds exactly and the rest."""
_AT_ONCE: Final = 4_096
"""Subjects whose numbers stay in the processor's cache."""
_DOUBT: Final = 1e-9
"""In units in the last place: so near to half of one the double-double does not decide."""


class Scores(NamedTuple):
    """One row a subject, in the order of keys. Floats made from exact integers, never summed."""

    subjects: list[str]
    starts: Ints
    """Where in the sums the rows of each begin; they end where the next ones do."""
    values: tuple[Floats, Floats, Floats, Floats, Floats]
    raw_score: Floats
    n_samples: Ints
    version: Ints
    last_updated: Ints
    """Microseconds since 1970; NEVER where there was no clean trace."""


def scores_of(sums: pa.Table) -> Scores:
    """The values and raw_score of every subject in sums as of a moment (`as_of.sums_as_of`)."""
    subjects, starts, ends = rows_by_subject(sums)
    blk = np.asarray(sums.column("blk").to_numpy(), np.int64)
    ints = {name: Wide.of(sums, name) for name in SUMS}
    parts = [np.empty((0, 5))]
    for first in range(0, len(starts), _AT_ONCE):
        begin, end = starts[first : first + _AT_ONCE], ends[first : first + _AT_ONCE]
        rows = slice(int(begin[0]), int(end[-1]))
        blocks = Blocks(begin - begin[0], end - begin, blk[rows])
        parts.append(_values_of({name: ints[name].at(rows) for name in SUMS}, blocks))
    values = np.concatenate(parts).T
    a, b, c, d, e = RAW_SCORE_WEIGHTS
    tool, approval, cost, clean, undo = values
    # The order of float operations of SPEC 4, one rounding each: numpy fuses none of them.
    raw = a * tool + b * approval + c * cost + d * clean + e * (1 - undo)
    return Scores(
        subjects=subjects,
        starts=starts,
        values=(tool, approval, cost, clean, undo),
        raw_score=raw,
        n_samples=_per_subject(sums, "n", starts),
        version=_per_subject(sums, "v", starts),
        last_updated=_latest(sums, starts),
    )


def rows_by_subject(sums: pa.Table) -> tuple[list[str], Ints, Ints]:
    """The keys of sums that are sorted by subject, and where the rows of each begin and end."""
    subjects = sums.column("subject").combine_chunks().dictionary_encode()
    # Equal keys stand together, and are numbered in the order in which they come.
    starts = np.flatnonzero(np.diff(subjects.indices.to_numpy(), prepend=-1))
    ends = np.append(starts, sums.num_rows)[1:]
    return subjects.dictionary.to_pylist(), starts, ends


def _values_of(ints: dict[str, Wide], blocks: Blocks) -> Floats:
    """The five values of some subjects, a row a subject."""
    values: list[Floats] = []
    for i in range(5):
        num, den = ints[f"x{i}"], ints[f"d{i}"]
        if i == 0:
            num, den = num.plus(ints["sp_x"]), den.plus(ints["sp_d"])
        values.append(quotients(Total(num, blocks), Total(den, blocks), WITHOUT_EVIDENCE[i]))
    return np.column_stack(values)


def freshness(last_updated: Ints, now: int) -> Floats:
    """The freshness g(last_updated) / g(now), at most 1, and 0 for NEVER; `now` in microseconds."""
    era_now, m_now = era_and_m(max(now, ZERO))
    era, m = eras_and_ms(last_updated)
    # Both mantissas are below 2**31, and a power of two scales exactly.
    made = np.ldexp(m / m_now, np.maximum(era - era_now, -1_000).astype(np.int32))
    return np.where(last_updated == NEVER, 0.0, np.minimum(made, 1.0))


def _per_subject(sums: pa.Table, name: str, starts: Ints) -> Ints:
    column: Ints = sums.column(name).to_numpy()
    return np.add.reduceat(column, starts) if len(starts) else column


def _latest(sums: pa.Table, starts: Ints) -> Ints:
    moments: Ints = sums.column("lu").combine_chunks().fill_null(NEVER).to_numpy()
    return np.maximum.reduceat(moments, starts) if len(starts) else moments


class Wide:
    """A column of integers of at most 127 bits, in two halves: high * 2**64 + low."""

    def __init__(self, low: np.ndarray[Any, np.dtype[np.uint64]], high: Ints) -> None:
        self.low = low
        self.high = high

    @classmethod
    def of(cls, table: pa.Table, name: str) -> Wide:
        """A column of BIGINT or DECIMAL(38, 0) without NULL."""
        column = table.column(name).combine_chunks()
        if column.type == pa.int64():
            narrow: Ints = column.to_numpy()
            return cls(narrow.view(np.uint64), narrow >> 63)
        data = column.buffers()[1]
        if data is None or not len(column):
            return cls(np.zeros(0, np.uint64), np.zeros(0, np.int64))
        every = np.frombuffer(cast("Any", data), np.uint64).reshape(-1, 2)
        halves = every[column.offset : column.offset + len(column)]
        return cls(halves[:, 0], halves[:, 1].view(np.int64))

    def at(self, rows: slice) -> Wide:
        """Some rows."""
        return Wide(self.low[rows], self.high[rows])

    def plus(self, other: Wide) -> Wide:
        """The sum of two columns."""
        low = self.low + other.low
        carry = (low < self.low).astype(np.int64)
        return Wide(low, self.high + other.high + carry)

    def exact(self, row: int) -> int:
        """One row as an integer."""
        return (int(self.high[row]) << 64) + int(self.low[row])

    def shifted(self, powers: Ints) -> list[int]:
        """Every row times a power of two as an integer."""
        rows = zip(self.high.tolist(), self.low.tolist(), powers.tolist(), strict=True)
        return [(high << 64 | low) << power for high, low, power in rows]

    def pair(self) -> Pair:
        """Every row as a double-double, of parts that are exact and each below the one before."""
        narrow = self.low.view(np.int64)
        if np.array_equal(self.high, narrow >> 63):  # all fit into 64 bits, as most do
            return _two_sum(_doubles(narrow & _TOP_53_OF_63), _doubles(narrow & _REST_OF_63))
        top = _doubles(self.high & _TOP_53_OF_63, 2.0**64)
        tail = _doubles(self.low & _REST_OF_64)
        if np.any(self.high & _REST_OF_63):
            top, more = _two_sum(top, _doubles(self.high & _REST_OF_63, 2.0**64))
            tail = more + tail
        top, more = _two_sum(top, _doubles(self.low & _TOP_53_OF_64))
        return _two_sum(top, more + tail)


def _doubles(
    numbers: np.ndarray[Any, np.dtype[np.int64]] | np.ndarray[Any, np.dtype[np.uint64]],
    scale: float = 1.0,
) -> Floats:
    return numbers.astype(np.float64) * scale


class Layer(NamedTuple):
    """At most one row a subject: whose it is, which row, and what a double of it is scaled by."""

    subjects: Ints
    rows: Ints
    scale: Floats


class Blocks:
    """Where the rows of each subject begin, how many there are, and the block of each row."""

    def __init__(self, starts: Ints, counts: Ints, blk: Ints) -> None:
        self.starts = starts
        self.counts = counts
        self.blk = blk

    @cached_property
    def layers(self) -> list[Layer]:
        """The rows in as many layers as a subject has blocks, relative to its last block."""
        last = self.blk[self.starts + self.counts - 1] if len(self.starts) else self.blk
        made: list[Layer] = []
        for number in range(int(self.counts.max(initial=0))):
            subjects = np.flatnonzero(self.counts > number)
            rows = self.starts[subjects] + number
            # What is 2**900 times smaller than the rest is nothing to a double-double.
            powers = np.maximum(BLOCK * (self.blk[rows] - last[subjects]), -900)
            made.append(Layer(subjects, rows, np.ldexp(1.0, powers)))
        return made


class Total:
    """One number a subject: its blocks, each a row, added up at their powers of 2**8.

    Together they may pass 128 bits, so that they are added as double-doubles, relative to the
    subject's last block, and as Python's integers only where it matters.
    """

    def __init__(self, rows: Wide, blocks: Blocks) -> None:
        self._rows = rows
        self._blocks = blocks

    def pair(self) -> Pair:
        """Every subject's total over 2**(8 * its last block), and 0 for nothing but zeros."""
        high, low = self._rows.pair()
        first, *others = self._blocks.layers
        total, rest = high[first.rows] * first.scale, low[first.rows] * first.scale
        for at, rows, scale in others:
            part, more = _two_sum(total[at], high[rows] * scale)
            total[at], rest[at] = _two_sum(part, more + rest[at] + low[rows] * scale)
        return total, rest

    def exact(self, subject: int) -> int:
        """One subject's total as an integer."""
        start, count = int(self._blocks.starts[subject]), int(self._blocks.counts[subject])
        return sum(
            self._rows.exact(row) << BLOCK * int(self._blocks.blk[row])
            for row in range(start, start + count)
        )


def quotients(num: Total, den: Total, without: float) -> Floats:
    """The quotients num / (den * 10**6), correctly rounded; `without` where den is 0."""
    top, (d1, d2) = num.pair(), den.pair()
    nothing = d1 == 0
    d1 = np.where(nothing, 1.0, d1)
    bottom = _sum_of(*_product(d1, np.full_like(d1, PPM)), d2 * PPM)
    first = top[0] / bottom[0]
    rest = _minus(top, _times(bottom, first))
    second = rest[0] / bottom[0]
    rest = _minus(rest, _times(bottom, second))
    third = rest[0] / bottom[0]
    made, left = _two_sum(first, second)
    left = left + third
    made, left = _two_sum(made, left)
    # Half a unit in the last place, of which there are two widths at a power of two.
    wide, narrow = np.spacing(made) / 2, (made - np.nextafter(made, 0.0)) / 2
    doubt = _DOUBT * 2
    close = (np.abs(np.abs(left) - wide) <= doubt * wide) | (
        np.abs(np.abs(left) - narrow) <= doubt * narrow
    )
    for row in np.flatnonzero(close & (made > 0) & ~nothing).tolist():
        made[row] = num.exact(row) / (den.exact(row) * PPM)
    return np.where(nothing, without, made)


# ---- double-double ---------------------------------------------------------------------------


def _two_sum(a: Floats, b: Floats) -> Pair:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _added(pair: Pair, b: Floats) -> Pair:
    s, e = _two_sum(pair[0], b)
    return _two_sum(s, e + pair[1])


def _sum_of(a: Floats, b: Floats, c: Floats) -> Pair:
    return _added((a, b), c)


def _split(a: Floats) -> Pair:
    t = a * _SPLIT
    high = t - (t - a)
    return high, a - high


def _product(a: Floats, other: Floats) -> Pair:
    """A product and what its rounding took, without a fused multiply-add (Dekker)."""
    p = a * other
    (ah, al), (bh, bl) = _split(a), _split(other)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _times(pair: Pair, b: Floats) -> Pair:
    p, e = _product(pair[0], b)
    return _two_sum(p, e + pair[1] * b)


def _minus(a: Pair, b: Pair) -> Pair:
    s, e = _two_sum(a[0], -b[0])
    t, f = _two_sum(a[1], -b[1])
    s, e = _two_sum(s, e + t)
    return _two_sum(s, e + f)
