"""Values and scores of many subjects at once, with the very bits of the law (`laws.scoring`).

A quotient of two 127-bit integers is computed in double-double (about 100 bits). Where what it
leaves behind the double is so close to half a unit in the last place that it could be on the other
side, Python's integers divide again: so every quotient is correctly rounded, as theirs is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from trustfold_projections.archive.schema import BLOCK, SUMS
from trustfold_projections.laws.scoring import RAW_SCORE_WEIGHTS, WITHOUT_EVIDENCE
from trustfold_projections.laws.time_weights import ZERO, era_and_m
from trustfold_schemas.amounts import PPM

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Pair = tuple[Floats, Floats]
"""A double-double: a number is the sum of both, the second at most half an ulp of the first."""

_SPLIT: Final = float(2**27 + 1)
_DOUBT: Final = 1e-9
"""In units in the last place: so near to half of one the double-double does not decide."""


class Scores(NamedTuple):
    """One row a subject, in the order of keys. Floats made from exact integers, never summed."""

    subjects: list[str]
    values: tuple[Floats, Floats, Floats, Floats, Floats]
    raw_score: Floats
    n_samples: Ints
    version: Ints
    last_updated: list[int | None]


def scores_of(sums: pa.Table) -> Scores:
    """The values and raw_score of every subject in sums as of a moment (`as_of.sums_as_of`)."""
    keys = sums.column("subject").to_pylist()
    first = np.array([i == 0 or keys[i] != keys[i - 1] for i in range(len(keys))], dtype=bool)
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, len(keys)))
    several = np.flatnonzero(counts > 1).tolist()
    ints = {name: Wide.of(sums, name) for name in SUMS}
    values: list[Floats] = []
    for i in range(5):
        num, den = ints[f"x{i}"], ints[f"d{i}"]
        if i == 0:
            num, den = num.plus(ints["sp_x"]), den.plus(ints["sp_d"])
        value = quotients(num.at(starts), den.at(starts), WITHOUT_EVIDENCE[i])
        for row in several:
            # Blocks of one subject differ by powers of 2**32 and pass 128 bits together.
            block = range(starts[row], starts[row] + counts[row])
            blk = [int(sums.column("blk")[at].as_py()) * BLOCK for at in block]
            top = sum(num.exact(at) << shift for at, shift in zip(block, blk, strict=True))
            bottom = sum(den.exact(at) << shift for at, shift in zip(block, blk, strict=True))
            value[row] = top / (bottom * PPM) if bottom else WITHOUT_EVIDENCE[i]
        values.append(value)
    a, b, c, d, e = RAW_SCORE_WEIGHTS
    tool, approval, cost, clean, undo = values
    # The order of float operations of SPEC 4, one rounding each: numpy fuses none of them.
    raw = a * tool + b * approval + c * cost + d * clean + e * (1 - undo)
    return Scores(
        subjects=[keys[at] for at in starts],
        values=(tool, approval, cost, clean, undo),
        raw_score=raw,
        n_samples=_per_subject(sums, "n", starts),
        version=_per_subject(sums, "v", starts),
        last_updated=_latest(sums, starts, counts),
    )


def freshness(last_updated: list[int | None], now: int) -> Floats:
    """g(last_updated) / g(now), at most 1, 0 without last_updated; a moment is microseconds."""
    era_now, m_now = era_and_m(max(now, ZERO))
    made = np.zeros(len(last_updated))
    for i, moment in enumerate(last_updated):
        if moment is not None:
            era, m = era_and_m(moment)
            # Both mantissas are below 2**31, and a power of two scales exactly.
            made[i] = min(1.0, float(np.ldexp(m / m_now, era - era_now)))
    return made


def _per_subject(sums: pa.Table, name: str, starts: Ints) -> Ints:
    column: Ints = sums.column(name).to_numpy()
    return np.add.reduceat(column, starts) if len(starts) else column


def _latest(sums: pa.Table, starts: Ints, counts: Ints) -> list[int | None]:
    moments: list[int | None] = sums.column("lu").to_pylist()
    if len(starts) == len(moments):
        return moments
    return [
        max((one for one in moments[at : at + count] if one is not None), default=None)
        for at, count in zip(starts.tolist(), counts.tolist(), strict=True)
    ]


class Wide:
    """A column of integers of at most 127 bits, in two halves: high * 2**64 + low."""

    def __init__(self, low: np.ndarray[Any, np.dtype[np.uint64]], high: Ints) -> None:
        self.low = low
        self.high = high

    @classmethod
    def of(cls, table: pa.Table, name: str) -> Wide:
        """A column of DECIMAL(38, 0) without NULL."""
        column = table.column(name).combine_chunks()
        data = column.buffers()[1]
        if data is None or not len(column):
            return cls(np.zeros(0, np.uint64), np.zeros(0, np.int64))
        every = np.frombuffer(cast("Any", data), np.uint64).reshape(-1, 2)
        halves = every[column.offset : column.offset + len(column)]
        return cls(halves[:, 0].copy(), halves[:, 1].astype(np.int64))

    def at(self, rows: Ints) -> Wide:
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

    def pair(self) -> Pair:
        """Every row as a double-double; each of the four 32-bit parts is exact."""
        parts = (
            (self.high >> 32).astype(np.float64) * 2.0**96,
            (self.high & 0xFFFFFFFF).astype(np.float64) * 2.0**64,
            (self.low >> np.uint64(32)).astype(np.float64) * 2.0**32,
            (self.low & np.uint64(0xFFFFFFFF)).astype(np.float64),
        )
        made: Pair = (parts[0], np.zeros(len(self.low)))
        for part in parts[1:]:
            made = _added(made, part)
        return made


def quotients(num: Wide, den: Wide, without: float) -> Floats:
    """The quotients num / (den * 10**6), correctly rounded; `without` where den is 0."""
    nothing = (den.high == 0) & (den.low == 0)
    top, (d1, d2) = num.pair(), den.pair()
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
    for row in np.flatnonzero(close & ~nothing).tolist():
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
