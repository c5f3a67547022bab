"""Quotients without a loop have the bits of Python's integer division."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from trustfold_projections.analysis.exact import Blocks, Total, Wide, quotients
from trustfold_projections.archive.schema import BLOCK

PPM = 10**6
DENS = st.one_of(
    st.integers(0, 2**20), st.integers(0, 2**106), st.integers(0, 100).map(lambda n: n << 80)
)


def decimals(numbers: list[int]) -> Wide:
    """A column as it comes out of DuckDB."""
    table = pa.Table.from_pydict(
        {"x": pa.array([Decimal(n) for n in numbers], pa.decimal128(38, 0))}
    )
    return Wide.of(table, "x")


def total(
    numbers: list[int], blk: list[int] | None = None, counts: list[int] | None = None
) -> Total:
    """Each number a subject of its own, unless `counts` says how many rows each subject has."""
    many = np.array(counts or [1] * len(numbers), np.int64)
    starts = np.cumsum(many) - many
    return Total(
        decimals(numbers), Blocks(starts, many, np.array(blk or [2] * len(numbers), np.int64))
    )


@settings(max_examples=300)
@given(st.lists(st.tuples(DENS, st.floats(0, 1)), min_size=1, max_size=20), st.randoms())
def test_quotients_are_correctly_rounded(rows: list[tuple[int, float]], rng: random.Random) -> None:
    """For every num <= den * 10**6 the double is the one of Python's int / int."""
    dens = [den for den, _ in rows]
    nums = [min(den * PPM, int(share * den * PPM) + rng.randrange(3)) for den, share in rows]
    made = quotients(total(nums), total(dens), 0.5)
    expected = [n / (d * PPM) if d else 0.5 for n, d in zip(nums, dens, strict=True)]
    assert made.tolist() == expected


def test_quotients_on_both_sides_of_halfway() -> None:
    """Where the exact quotient lies within a hair of halfway between two doubles, it is redone."""
    nums, dens = [], []
    rng = random.Random(7)
    for _ in range(2_000):
        d = rng.getrandbits(100) | 1 << 99
        q = rng.getrandbits(53) | 1 << 52  # 53 bits, then a half
        n = ((2 * q + 1) * d * PPM) >> rng.randrange(54, 60)
        nums.append(max(0, min(n + rng.randrange(-1, 2), d * PPM)))
        dens.append(d)
    made = quotients(total(nums), total(dens), 0.0)
    assert made.tolist() == [n / (d * PPM) for n, d in zip(nums, dens, strict=True)]


def test_wide_sums_carry() -> None:
    """Sums of two columns carry from the low half into the high one."""
    numbers = [0, 2**64 - 1, 2**64, 2**100 + 2**64 - 1, 5]
    both = decimals(numbers).plus(decimals([1, 1, 2**64 - 1, 1, 2**63]))
    assert [both.exact(i) for i in range(5)] == [
        n + m for n, m in zip(numbers, [1, 1, 2**64 - 1, 1, 2**63], strict=True)
    ]
    assert np.all(both.pair()[0] >= 0)


@settings(max_examples=200)
@given(st.lists(st.lists(st.tuples(DENS, st.floats(0, 1)), min_size=1, max_size=4), min_size=1))
def test_quotients_of_totals_over_several_blocks(subjects: list[list[tuple[int, float]]]) -> None:
    """Blocks differ by powers of 2**8, and together pass 128 bits."""
    counts = [len(rows) for rows in subjects]
    blk = [number for rows in subjects for number in range(1, len(rows) + 1)]
    dens = [den for rows in subjects for den, _ in rows]
    nums = [min(den * PPM, int(share * den * PPM)) for rows in subjects for den, share in rows]
    expected = []
    for start, count in zip(np.cumsum(counts) - counts, counts, strict=True):
        mine = range(start, start + count)
        n = sum(nums[row] << BLOCK * blk[row] for row in mine)
        d = sum(dens[row] << BLOCK * blk[row] for row in mine)
        expected.append(n / (d * PPM) if d else 0.5)
    made = quotients(total(nums, blk, counts), total(dens, blk, counts), 0.5)
    assert made.tolist() == expected
