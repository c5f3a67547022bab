"""Time weights: the table, the split of a moment, and how weights of two moments compare."""

import hashlib
from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles import batch
from trustfold_projections.laws.time_weights import HALF_LIFE, MANTISSAS, ZERO, era_and_m, g
from trustfold_schemas.instants import parse_instant

EXACT = Context(prec=60)
STEP_MICROSECONDS = 4_000
"""m grows by one at least every 3.5 ms: 181,704 or more in each of 4,096 parts of 30 days."""

moments = st.integers(ZERO, ZERO + 400 * HALF_LIFE)


def test_the_table_of_mantissas_is_the_one_of_the_specification() -> None:
    """M[0..4096], as decimals joined by commas, has the SHA-256 that SPEC 4 begins to spell."""
    text = ",".join(str(m) for m in MANTISSAS)
    assert hashlib.sha256(text.encode()).hexdigest().startswith("fb239e2f756c9722")


@pytest.mark.parametrize("j", [0, 1, 1365, 2048, 4095, 4096])
def test_a_mantissa_is_the_floor_of_the_exact_power(j: int) -> None:
    """M[j]**4096 <= 2**(30*4096 + j) < (M[j]+1)**4096: the floor, by integers alone."""
    assert MANTISSAS[j] ** 4096 <= 2 ** (30 * 4096 + j) < (MANTISSAS[j] + 1) ** 4096


def test_a_moment_splits_as_the_specification_computed() -> None:
    """The check value of SPEC 4: t, era and m at 2026-04-22T12:34:56.789012Z."""
    moment = parse_instant("2026-04-22T12:34:56.789012Z")
    assert (moment - ZERO, *era_and_m(moment)) == (199_024_496_789_012, 76, 1_849_056_653)


@given(moments)
def test_a_weight_is_its_mantissa_shifted_by_its_era(moment: int) -> None:
    """A weight is m << era with 2**30 <= m < 2**31, so that SQL can keep both as small integers."""
    era, m = era_and_m(moment)
    assert (g(moment), 1 << 30 <= m < 1 << 31) == (m << era, True)


@given(moments)
def test_a_weight_is_that_of_an_independent_transcription(moment: int) -> None:
    """The batch oracle, written from SPEC 4 without our code, gives the same integer."""
    assert g(moment) == batch.g(moment)


@given(moments, st.integers(0, 3 * HALF_LIFE) | st.integers(0, 10_000_000))
def test_a_later_moment_never_weighs_less(moment: int, wait: int) -> None:
    """Weights do not fall as time goes on, microsecond by microsecond and across eras."""
    assert g(moment) <= g(moment + wait)


@given(moments)
def test_four_milliseconds_later_weighs_more(moment: int) -> None:
    """Weights grow strictly at the step of m, whatever part of an era the moment lies in."""
    assert g(moment) < g(moment + STEP_MICROSECONDS)


@given(moments, st.integers(1, 200))
def test_a_weight_doubles_per_thirty_days_exactly(moment: int, eras: int) -> None:
    """30 days are one bit: evidence of 30 days ago weighs exactly half."""
    assert g(moment + eras * HALF_LIFE) == g(moment) << eras


@given(moments)
def test_a_weight_is_the_exact_power_within_the_precision_of_m(moment: int) -> None:
    """The chord of M lies at most 3.6e-9 above 2**(30 + t/H), two floors 1.9e-9 below it."""
    exponent = EXACT.add(30, EXACT.divide(Decimal(moment - ZERO), Decimal(HALF_LIFE)))
    exact = EXACT.power(Decimal(2), exponent)
    assert -1.9e-9 < float(EXACT.subtract(EXACT.divide(Decimal(g(moment)), exact), 1)) < 3.6e-9


def test_the_first_moment_of_2020_weighs_two_to_the_thirty() -> None:
    """Time starts with the year 2020, at the smallest weight there is."""
    assert g(parse_instant("2020-01-01T00:00:00Z")) == 2**30


def test_a_moment_before_2020_is_refused() -> None:
    """No weight is made up for a moment that no accepted event can have."""
    with pytest.raises(ValueError, match="before 2020"):
        g(ZERO - 1)
