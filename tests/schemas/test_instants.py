"""Instants: RFC 3339 outside, whole microseconds since 1970 inside."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustfold_schemas.instants import EARLIEST, format_instant, instant_of, parse_instant

ZONES = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m)))
MOMENTS = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 - hypothesis wants it naive and adds the zone
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001
    timezones=ZONES,
)


@given(MOMENTS)
def test_the_standard_library_reads_the_same_moment(moment: datetime) -> None:
    """Whatever the zone, a time means the moment that datetime says it means."""
    instant = parse_instant(moment.isoformat())
    assert datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant) == moment
    assert instant == instant_of(moment)


@given(MOMENTS)
def test_what_is_written_is_read_again(moment: datetime) -> None:
    """Writing loses nothing: always `Z`, always six digits."""
    instant = instant_of(moment)
    text = format_instant(instant)
    assert parse_instant(text) == instant
    assert len(text) == len("2026-01-02T03:04:05.000000Z")
    assert text.endswith("Z")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("2026-01-02T03:04:05.1234569Z", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02T03:04:05.9999999999999Z", "2026-01-02T03:04:05.999999Z"),
        ("1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z"),
        ("2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.100000Z"),
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000000Z"),
        ("2026-01-02t03:04:05z", "2026-01-02T03:04:05.000000Z"),
        ("2026-01-02T03:04:05-00:00", "2026-01-02T03:04:05.000000Z"),
        ("2026-01-02T03:04:05+05:45", "2026-01-01T21:19:05.000000Z"),
        ("2026-01-01T23:30:00-01:30", "2026-01-02T01:00:00.000000Z"),
        ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_spellings(text: str, plain: str) -> None:
    """Every spelling that RFC 3339 allows is read; digits beyond microseconds are cut off."""
    assert format_instant(parse_instant(text)) == plain


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-01-02T03:04:05", "RFC 3339 time with a zone"),
        ("2026-01-02", "RFC 3339 time with a zone"),
        ("2026-01-02 03:04:05Z", "RFC 3339 time with a zone"),
        ("2026-01-02T03:04Z", "RFC 3339 time with a zone"),
        ("2026-01-02T03:04:05.Z", "RFC 3339 time with a zone"),
        ("2026-01-02T03:04:05,5Z", "RFC 3339 time with a zone"),
        ("2026-01-02T03:04:05+01", "RFC 3339 time with a zone"),
        ("2026-01-02T03:04:05+0100", "RFC 3339 time with a zone"),
        ("20260102T030405Z", "RFC 3339 time with a zone"),
        ("٢٠٢٦-01-02T03:04:05Z", "RFC 3339 time with a zone"),
        ("2026-01-02T03:04:05Z\n", "RFC 3339 time with a zone"),
        (" 2026-01-02T03:04:05Z", "RFC 3339 time with a zone"),
        ("", "RFC 3339 time with a zone"),
        ("2016-12-31T23:59:60Z", "seconds 00 to 59"),
        ("2026-02-29T00:00:00Z", "moment of the calendar"),
        ("2026-13-01T00:00:00Z", "moment of the calendar"),
        ("2026-01-02T24:00:00Z", "moment of the calendar"),
        ("2026-01-02T03:04:61Z", "moment of the calendar"),
        ("2026-01-02T03:04:05+24:00", "moment of the calendar"),
        ("0000-01-01T00:00:00Z", "moment of the calendar"),
    ],
)
def test_refusals_say_what_they_got_and_wanted(text: str, wanted: str) -> None:
    """What is no RFC 3339 time of the calendar is refused in words that name both sides."""
    with pytest.raises(ValueError, match=wanted) as refusal:
        parse_instant(text)
    assert f"`{text}`" in str(refusal.value)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_what_could_not_be_written_again_is_not_read(text: str) -> None:
    """A zone cannot push a moment out of the years 1 to 9999, where it has no text any more."""
    with pytest.raises(ValueError, match="moment of the calendar"):
        parse_instant(text)


def test_a_long_text_is_quoted_in_part() -> None:
    """A message stays short, however long the text that it quotes."""
    for text in ("x" * 10**6, f"2026-02-30T00:00:00.{'1' * 10**6}Z"):
        with pytest.raises(ValueError, match="characters") as refusal:
            parse_instant(text)
        assert len(str(refusal.value)) < 200


def test_a_naive_datetime_is_refused() -> None:
    """A datetime without a zone means no moment."""
    with pytest.raises(ValueError, match="zone"):
        instant_of(datetime(2026, 1, 2))  # noqa: DTZ001 - that is the point


def test_the_zero_of_the_weights() -> None:
    """EARLIEST is 2020-01-01 UTC."""
    assert format_instant(EARLIEST) == "2020-01-01T00:00:00.000000Z"
