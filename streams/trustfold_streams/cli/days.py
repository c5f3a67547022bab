"""The moments at which a score over time is shown: the ends of days."""

from __future__ import annotations

from collections.abc import Iterator

import click

from trustfold_schemas.instants import DAY

POINTS_MAX = 10_000
"""Moments of a score over time."""


def ends_of_days(first: int, until: int, days: int) -> Iterator[int]:
    """The ends of days from the first entry on, every so many days, and the last moment."""
    moment, every = (first // DAY + 1) * DAY - 1, days * DAY
    if (until - moment) // every > POINTS_MAX:
        raise click.UsageError(
            f"--over-time gives at most {POINTS_MAX:,} moments: take a larger --every"
        )
    while moment < until:
        yield moment
        moment += every
    yield until
