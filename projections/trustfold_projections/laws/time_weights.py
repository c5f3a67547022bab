"""Time weights: g(t) = 2**(30 + t/H) as an exact integer, with half-life H of 30 days (SPEC 4).

Weights of two moments differ by a factor of two per 30 days between them, so a sum weighted by
g(occurred) and read at any later moment is an exponentially weighted sum: `pandas.ewm` with
`halflife` and `times`, but in integers.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Final

from trustfold_schemas.instants import DAY, EARLIEST

HALF_LIFE: Final = 30 * DAY
"""30 days in microseconds: the H of SPEC 4."""

ZERO: Final = EARLIEST
"""2020-01-01, where t is 0."""

STEPS: Final = 4096
"""Steps of a half-life, between which a mantissa is interpolated."""
STEP: Final = HALF_LIFE // STEPS
"""A step in microseconds; H is a whole number of them."""


def _mantissas() -> tuple[int, ...]:
    """M[j] = floor(2**(30 + j/4096)) for j = 0..4096, by decimal arithmetic at 80 digits."""
    exact = Context(prec=80)
    root = exact.power(Decimal(2), exact.divide(Decimal(1), Decimal(STEPS)))
    # Powers of one root: 4,096 products lose 4 of 80 digits, where floor needs 11.
    power, mantissas = Decimal(2**30), [2**30]
    for _ in range(1, STEPS):
        power = exact.multiply(power, root)
        mantissas.append(int(power.to_integral_value(rounding=ROUND_FLOOR, context=exact)))
    return (*mantissas, 2**31)


MANTISSAS: Final = _mantissas()


def era_and_m(moment: int) -> tuple[int, int]:
    """Split a moment (microseconds since 1970) into its era and its mantissa m, below 2**31."""
    step, rest = divmod(moment - ZERO, STEP)
    era, i = divmod(step, STEPS)
    low = MANTISSAS[i]
    return era, low + (MANTISSAS[i + 1] - low) * rest // STEP


@lru_cache(maxsize=4096)
def g(moment: int) -> int:
    """The weight of a moment (microseconds since 1970): m << era, exact.

    Raises ValueError before 2020, where no event is accepted.
    """
    era, m = era_and_m(moment)
    if era < 0:
        raise ValueError(f"a moment before 2020 has no weight: {moment}")
    return m << era
