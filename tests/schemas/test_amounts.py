"""Money and shares: exact decimals times 10**6, rounded once, half to even."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trustfold_schemas.amounts import MICRO_USD_MAX, PPM, micro_usd, ppm

DIGITS = st.text("0123456789", min_size=1, max_size=90)


@given(whole=st.integers(0, 10**12 - 1), digits=DIGITS)
@example(whole=0, digits="0000005")
@example(whole=0, digits="0000005" + "0" * 80 + "1")
@example(whole=999_999_999_999, digits="9999985" + "0" * 60 + "1")
@example(whole=999_999_999_999, digits="9999995")
def test_money_is_rounded_as_fractions_are(whole: int, digits: str) -> None:
    """However many digits: the nearest micro-USD of the exact number, a tie goes to the even."""
    text = f"{whole}.{digits}"
    assert micro_usd(Decimal(text)) == round(Fraction(text) * 10**6)


@given(DIGITS)
def test_shares_are_rounded_as_fractions_are(digits: str) -> None:
    """A share has the same rounding."""
    text = f"0.{digits}"
    assert ppm(Decimal(text)) == round(Fraction(text) * 10**6)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0.0000005", 0),
        ("0.0000015", 2),
        ("0.0000025", 2),
        ("0.00000050000000000000000000000000000000000000000000000000000000000000000001", 1),
        ("0.0125", 12_500),
        ("1e-7", 0),
        ("1e-6", 1),
        ("1E-999999999", 0),
        ("1e12", 10**18),
        ("-0.0", 0),
        ("0", 0),
    ],
)
def test_check_values(text: str, micros: int) -> None:
    """A few by hand."""
    assert micro_usd(Decimal(text)) == micros


def test_the_bounds_themselves_are_inside() -> None:
    """0 and the greatest amount are accepted, as ints too."""
    assert micro_usd(0) == 0
    assert ppm(0) == 0
    assert micro_usd(10**12) == MICRO_USD_MAX
    assert ppm(1) == ppm(Decimal("1.000")) == PPM


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (Decimal("-0.0000001"), "-1E-7"),
        (-1, "-1"),
        (10**12 + 1, "1000000000001"),
        (Decimal("1000000000000.0000000001"), "1000000000000.0000000001"),
        (Decimal("1E+300"), "1E+300"),
        (Decimal("NaN"), "NaN"),
        (Decimal("-Infinity"), "-Infinity"),
        (True, "true"),
        ("1", '"1"'),
        (None, "null"),
        (0.5, "0.5"),
        ([1], "[1]"),
    ],
)
def test_what_is_no_amount_is_refused(number: object, shown: str) -> None:
    """Negative, too great, not finite, or no exact number: a ValueError shows what it got."""
    with pytest.raises(ValueError, match="Expected an amount of USD from 0 to 10") as refusal:
        micro_usd(number)
    assert f"got `{shown}`" in str(refusal.value)


@pytest.mark.parametrize("number", [Decimal("1.0000001"), Decimal("-0.1"), 2, False, "0.5"])
def test_what_is_no_share_is_refused(number: object) -> None:
    """A share over 1 is refused, even where it would round to 1."""
    with pytest.raises(ValueError, match="Expected a number from 0 to 1, got"):
        ppm(number)


def test_a_long_number_is_quoted_in_part() -> None:
    """A message stays short, however long the number."""
    with pytest.raises(ValueError, match="Expected an amount") as refusal:
        micro_usd(Decimal("-" + "1" * 10**5))
    assert len(str(refusal.value)) < 200
