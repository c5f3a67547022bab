"""Rollups: the exact sums of one segment by subject and block of eras.

An entry's weight within its block is `m << (era & 7)`, below 2**38, and its product with an amount
below 2**58: a BIGINT holds it, and DuckDB sums BIGINT in 128 bits. So one level of grouping is
enough, and only what a hot subject adds up to has to be parted for Parquet.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.schema import BLOCK, ROLLUP, SUMS

_ERAS_BITS: Final = BLOCK.bit_length() - 1

WEIGHT: Final = f"m::BIGINT << (era & {BLOCK - 1})::INTEGER"
"""The weight of an entry within its block. Only m is shifted: `<<` throws on negative values."""

BLK: Final = f"(era >> {_ERAS_BITS})::INTEGER"
"""The block of an entry."""

BY_BLOCK: Final = ", ".join(
    f"coalesce(sum({product} * g), 0) AS {name}"
    for name, product in zip(
        SUMS, (*(f"a{i}" for i in range(5)), *(f"w{i}" for i in range(5)), "sp_a", "sp_w"),
        strict=True,
    )
)  # fmt: skip
"""The sums of entries by subject and block, where g is their WEIGHT: HUGEINT."""

_PARTED: Final = 2**32
"""What is too great for a BIGINT is parted by it: a power of two of whole blocks."""
_LATER: Final = 32 // BLOCK
_BOUND: Final = 2**62

_FITS: Final = f"greatest({', '.join(SUMS)}) < {_BOUND} AND least({', '.join(SUMS)}) > -{_BOUND}"


def _limbs(formula: str) -> str:
    return ", ".join(f"({formula.format(name)})::BIGINT AS {name}" for name in SUMS)


# `//` and `%` truncate: both parts have the sign of the sum.
_QUERY: Final = f"""
WITH by_block AS (
    SELECT subject, {BLK} AS blk, {BY_BLOCK}, sum(n)::BIGINT AS n, count(*) AS v,
           max(occurred_us) FILTER (clean) AS lu, max(bad_at) AS lb, max(grant_at) AS lg,
           max(seg_max) AS seg_max
    FROM (SELECT *, {WEIGHT} AS g FROM segment) GROUP BY subject, blk
)
SELECT subject, blk, {_limbs("{}")}, n, v, lu, lb, lg, seg_max
FROM by_block WHERE {_FITS}
UNION ALL
SELECT subject, blk, {_limbs(f"{{}} % {_PARTED}")}, n, v, lu, lb, lg, seg_max
FROM by_block WHERE NOT ({_FITS})
UNION ALL
SELECT subject, blk + {_LATER}, {_limbs(f"{{}} // {_PARTED}")}, 0, 0, NULL, NULL, NULL, seg_max
FROM by_block WHERE NOT ({_FITS})
ORDER BY subject, blk, v DESC
"""


def rollup_of(segment: pa.Table) -> pa.Table:
    """The rollup of a ledger segment, sorted by subject and block."""
    with in_memory() as connection:
        connection.register("segment", segment)
        made: pa.Table = connection.sql(_QUERY).to_arrow_table()
    return made.cast(ROLLUP)
