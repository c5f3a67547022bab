"""Exact running sums of `amount * m << era` in numpy: integers wider than 64 bits, in limbs of 31.

A product of amount and mantissa is below 2**51. Shifted by the eras since the subject's first, it
is cut into limbs of 31 bits, the last one signed; sums of limbs cannot overflow, since a column has
at most 2**22 rows. Sums of a whole column are taken and those at the start of the subject's rows
subtracted, which is exact where floats would cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trustfold_projections.analysis.backtest.columns import Floats, Ints

BITS: Final = 31
_MASK: Final = (1 << BITS) - 1
ROWS_MAX: Final = 1 << 22
_WIDTH: Final = 51
"""Bits of a product of amount and mantissa."""
_COUNT_BITS: Final = 33
"""Room for as many entries of one subject, those before the column's included."""
_TOP: Final = 62


def limbs_for(eras: int) -> int:
    """How many limbs hold sums over so many eras between the first and the last."""
    over = _WIDTH + eras + _COUNT_BITS - _TOP
    return 1 + max(1, -(-over // BITS))


def split(product: Ints, eras: Ints, number: int, limbs: int) -> Ints:
    """The limb of this number of `product << eras`; the last limb carries the sign."""
    shift = BITS * number - eras
    right = product >> np.clip(shift, 0, 63)
    if number == limbs - 1:
        return right  # by `limbs_for` it begins above any product's lowest bit
    # Shifted left by 31 or more, nothing of a product is left in the limb.
    left = product << np.clip(-shift, 0, BITS)
    return np.where(shift >= 0, right, left) & _MASK


def split_int(value: int, limbs: int) -> list[int]:
    """The limbs of one Python integer."""
    return [
        value >> BITS * number if number == limbs - 1 else (value >> BITS * number) & _MASK
        for number in range(limbs)
    ]


def normalised(limbs: list[Ints]) -> list[Ints]:
    """The same numbers with every limb but the last within its 31 bits, in place."""
    for number in range(len(limbs) - 1):
        limbs[number + 1] += limbs[number] >> BITS
        limbs[number] &= _MASK
    return limbs


def as_floats(limbs: Sequence[Ints]) -> Floats:
    """Normalised numbers that are not negative as doubles, within two units in the last place."""
    made = limbs[0].astype(np.float64)
    for number in range(1, len(limbs)):
        made += np.ldexp(limbs[number].astype(np.float64), BITS * number)
    return made


def as_int(limbs: Sequence[Ints], row: int) -> int:
    """One of the numbers, exactly."""
    return sum(int(limb[row]) << BITS * number for number, limb in enumerate(limbs))
