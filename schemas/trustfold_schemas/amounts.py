"""Exact numbers: money in micro-USD and shares in parts per million, read from their JSON text.

Both are decimals times 10**6, rounded half to even, and integers from then on (SPEC 2).
"""

from __future__ import annotations

import json
from decimal import ROUND_HALF_EVEN, Context, Decimal

PPM = 1_000_000
"""One whole, in parts per million."""

MICRO_USD_MAX = 10**18
"""A bound that keeps money in 64 bits: a million million dollars."""

_MILLIONTH = Decimal("0.000001")
_ROOM = Context(prec=60, rounding=ROUND_HALF_EVEN)


class MicroUsd(int):
    """Money in millionths of a US dollar; its own type for the codecs' sake."""

    __slots__ = ()


class Ppm(int):
    """A share between 0 and 10**6; its own type for the codecs' sake."""

    __slots__ = ()


def _millionths(number: object, most: int, wanted: str) -> int:
    if isinstance(number, bool) or not isinstance(number, (int, Decimal)):
        raise ValueError(f"Expected {wanted}, got `{_shown(number)}`")
    exact = Decimal(number)
    if not exact.is_finite() or not 0 <= exact <= most // PPM:
        raise ValueError(f"Expected {wanted}, got `{_shown(number)}`")
    # Rounded once and from all its digits: any step before, such as the product, could round too.
    return int(exact.quantize(_MILLIONTH, context=_ROOM).scaleb(6, _ROOM))


def micro_usd(number: object) -> MicroUsd:
    """Turn an int or Decimal of US dollars into micro-USD. Raises ValueError below 0."""
    return MicroUsd(_millionths(number, MICRO_USD_MAX, "an amount of USD from 0 to 10**12"))


def ppm(number: object) -> Ppm:
    """Turn an int or Decimal from 0 to 1 into parts per million. Raises ValueError outside."""
    return Ppm(_millionths(number, PPM, "a number from 0 to 1"))


def _shown(number: object) -> str:
    is_number = isinstance(number, (int, Decimal)) and not isinstance(number, bool)
    text = str(number) if is_number else json.dumps(number, ensure_ascii=False, default=str)
    return text if len(text) <= 40 else f"{text[:40]}..."
