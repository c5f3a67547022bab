"""Instants: int microseconds since 1970 UTC inside, RFC 3339 with `Z` outside.

No clock is read here; `streams` owns the one injected clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

MICROSECOND = 1
SECOND = 1_000_000 * MICROSECOND
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST = int((datetime(2020, 1, 1, tzinfo=UTC) - EPOCH) / timedelta(microseconds=1))
"""2020-01-01, before which no event is accepted: the zero of the time weights (SPEC 4)."""

_FIRST = datetime.min.replace(tzinfo=UTC) - EPOCH
_LAST = datetime.max.replace(tzinfo=UTC) - EPOCH
_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


class Instant(int):
    """A moment in microseconds since 1970-01-01T00:00:00Z; its own type for the codecs' sake."""

    __slots__ = ()


def parse_instant(text: str) -> Instant:
    """Read an RFC 3339 time with a zone; digits beyond microseconds are cut off (SPEC 2).

    Raises ValueError with what it got and what it wanted.
    """
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise ValueError(f"Expected an RFC 3339 time with a zone, got `{shorten(text)}`")
    day, clock, fraction, zone = match.groups()
    if clock.endswith(":60"):
        raise ValueError(f"Expected seconds 00 to 59, got a leap second: `{shorten(text)}`")
    micros = f"{fraction[:6]:0<6}" if fraction else "000000"
    offset = "+00:00" if zone in "Zz" else zone
    try:
        since = datetime.fromisoformat(f"{day}T{clock}.{micros}{offset}") - EPOCH
    except ValueError:
        since = timedelta.max
    # Its zone may push a moment of year 1 or 9999 out of the years that can be written again.
    if not _FIRST <= since <= _LAST:
        raise ValueError(f"Expected a moment of the calendar, got `{shorten(text)}`")
    return Instant((since.days * 86_400 + since.seconds) * SECOND + since.microseconds)


def format_instant(moment: int) -> str:
    """Write an instant as RFC 3339 with `Z`, always with six digits of microseconds."""
    return (EPOCH + timedelta(microseconds=moment)).isoformat(timespec="microseconds")[:-6] + "Z"


def datetime_of(moment: int) -> datetime:
    """An instant as an aware datetime in UTC."""
    return EPOCH + timedelta(microseconds=moment)


def instant_of(moment: datetime) -> Instant:
    """Turn an aware datetime into an instant; a naive one is refused."""
    if moment.tzinfo is None:
        raise ValueError(f"Expected a datetime with a zone, got the naive {moment!r}")
    return Instant((moment - EPOCH) // timedelta(microseconds=1))


def shorten(text: str, most: int = 80) -> str:
    """Quote at most `most` characters of somebody's text in a message."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
