"""The one place that reads a clock; everywhere else time is an argument."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the moment in microseconds since 1970."""

    def now(self) -> int:
        """The present moment."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        """The present moment, in microseconds since 1970."""
        return time.time_ns() // 1_000  # noqa: TID251 - this is the injected Clock


class ManualClock:
    """A clock that moves only when told: for tests, and for replays at a stated moment."""

    def __init__(self, moment: int) -> None:
        self.moment = moment

    def now(self) -> int:
        """The moment it was set to."""
        return self.moment

    def advance(self, microseconds: int) -> None:
        """Move on."""
        self.moment += microseconds
