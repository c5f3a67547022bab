"""Rollups: the exact sums of one segment by subject and block of eras.

Products in BIGINT inside, powers of two multiplied outside: `<<` throws on negative values, and
a correction's amounts are negative. What stands in two limbs never passes 64 bits.
"""

from __future__ import annotations

import pyarrow as pa

from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.schema import LIMB, ROLLUP, SUMS

_PRODUCTS = {
    **{f"x{i}": f"a{i}::BIGINT * m" for i in range(5)},
    **{f"d{i}": f"w{i}::BIGINT * m" for i in range(5)},
    "sp_x": "coalesce(sp_a, 0)::BIGINT * m",
    "sp_d": "coalesce(sp_w, 0)::BIGINT * m",
}
_MASK = (1 << LIMB) - 1

BY_ERA = ", ".join(f"sum({product}) AS {name}" for name, product in _PRODUCTS.items())
"""The sums of the inner level, by subject and era: HUGEINT."""

BY_BLOCK = ", ".join(
    f"sum({name} * (1::HUGEINT << (era & 31)::INTEGER)) AS {name}" for name in SUMS
)
"""The sums of the outer level, by subject and block: HUGEINT."""

MARKS = (
    "sum(n) AS n, count(*) AS v, max(occurred_us) FILTER (clean) AS lu, max(bad_at) AS lb, "
    "max(grant_at) AS lg"
)
MARKS_OF_MARKS = "sum(n) AS n, sum(v) AS v, max(lu) AS lu, max(lb) AS lb, max(lg) AS lg"

_LIMBS = ", ".join(
    f"({name} >> {LIMB})::BIGINT AS {name}_hi, ({name} & {_MASK}::HUGEINT)::BIGINT AS {name}_lo"
    for name in SUMS
)

_QUERY = f"""
WITH by_era AS (
    SELECT subject, era, {BY_ERA}, {MARKS}, max(seg_max) AS seg_max
    FROM segment GROUP BY subject, era
), by_block AS (
    SELECT subject, (era >> 5)::INTEGER AS blk, {BY_BLOCK}, {MARKS_OF_MARKS},
           max(seg_max) AS seg_max
    FROM by_era GROUP BY subject, blk
)
SELECT subject, blk, {_LIMBS}, n::BIGINT AS n, v::BIGINT AS v, lu, lb, lg, seg_max
FROM by_block ORDER BY subject, blk
"""


def rollup_of(segment: pa.Table) -> pa.Table:
    """The rollup of a ledger segment, sorted by subject and block."""
    with in_memory() as connection:
        connection.register("segment", segment)
        made: pa.Table = connection.sql(_QUERY).to_arrow_table()
    return made.cast(ROLLUP)
