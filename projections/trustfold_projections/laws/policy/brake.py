"""The brake: no promotion for a day after something bad, and until a later human grant."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from trustfold_schemas.instants import DAY, EPOCH, MINUTE

BRAKE_LASTS = DAY


class Brake(Struct, frozen=True, gc=False):
    """A brake in force: until a moment (None: it has passed), and whether it waits for a grant."""

    until: int | None
    needs_grant: bool

    def sentence(self, now: int) -> str:
        """What lifts it, in words."""
        parts = [] if self.until is None else [f"until {clock_time(self.until, now)}"]
        if self.needs_grant:
            parts.append("until a person grants once")
        return "braked " + " and ".join(parts)


def brake_of(last_bad_at: int | None, last_grant_at: int | None, now: int) -> Brake | None:
    """The brake that is in force at `now`, or None."""
    if last_bad_at is None:
        return None
    until = last_bad_at + BRAKE_LASTS
    lasts = now < until
    needs_grant = last_grant_at is None or last_grant_at <= last_bad_at
    if not lasts and not needs_grant:
        return None
    return Brake(until if lasts else None, needs_grant)


def clock_time(moment: int, now: int) -> str:
    """A moment to the minute, rounded up, UTC; with its day unless that is today's."""
    day, minute = divmod(-(-moment // MINUTE), DAY // MINUTE)
    time = f"{minute // 60:02}:{minute % 60:02} UTC"
    if day == now // DAY:
        return time
    return f"{EPOCH.date() + timedelta(days=day)} {time}"
