"""Exact numbers: money in micro-USD and shares in parts per million, read from their JSON text.

Both are decimals times 10**6, rounded half to even, and integers from then on (SPEC 2).
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal

PPM = 1_000_000
"""One whole, in parts per million."""

MICRO_USD_MAX = 10**18
"""A bound that keeps money in 64 bits: a million million dollars."""

_EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)
_WHOLE = Decimal(1)


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
    if not 0 <= exact or exact.adjusted() > 20:
        raise ValueError(f"Expected {wanted}, got `{_shown(number)}`")
    # Below 10**-30 no digit can reach the rounding place, so the exponent needs no more room.
    scaled = exact.scaleb(6, _EXACT) if exact.adjusted() > -30 else Decimal(0)
    value = int(scaled.quantize(_WHOLE, context=_EXACT))
    if value > most or (value == most and scaled > most):
        raise ValueError(f"Expected {wanted}, got `{_shown(number)}`")
    return value


def micro_usd(number: object) -> MicroUsd:
    """Turn an int or Decimal of US dollars into micro-USD. Raises ValueError below 0."""
    return MicroUsd(_millionths(number, MICRO_USD_MAX, "an amount of USD from 0 to 10**12"))


def ppm(number: object) -> Ppm:
    """Turn an int or Decimal from 0 to 1 into parts per million. Raises ValueError outside."""
    return Ppm(_millionths(number, PPM, "a number from 0 to 1"))


def _shown(number: object) -> str:
    text = str(number) if isinstance(number, (int, Decimal)) else repr(number)
    return text if len(text) <= 40 else f"{text[:40]}..."
