"""What correlation answers to one fact, and the checks that every key shares."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.facts import Content, Fact
from trustfold_schemas.instants import DAY, MINUTE, format_instant
from trustfold_schemas.ledger import Entry

FUTURE_MAX = 5 * MINUTE
"""How far an event's time may be ahead of its recorded moment: a future weight rules for ever."""


class Verdict(StrEnum):
    """What became of the fact itself."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REFUSED = "refused"


class Refusal(Struct, frozen=True, gc=False):
    """A dead letter to be written: `position` is the fact in the log whose bytes it holds."""

    position: int
    reason: Reason
    detail: str


class Outcome(Struct, frozen=True, gc=False):
    """The answer to one fact: the entries it makes, in order, and what it turned away.

    A refusal may be of this fact or of an earlier one that only now proves useless.
    `remembered` says whether the fact changed what is known, and so belongs to the log.
    """

    verdict: Verdict
    entries: tuple[Entry, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    remembered: bool = False

    @property
    def conflict(self) -> bool:
        """Whether the fact says something else under the id of an earlier one."""
        return any(refusal.reason is Reason.CONFLICT for refusal in self.refusals)


DUPLICATE = Outcome(Verdict.DUPLICATE)

SeenIds = dict[tuple[str, str], Content]
"""(source, id) of every fact remembered under one key, and what it said."""


def refused(fact: Fact, reason: Reason, detail: str) -> Outcome:
    """Turn a fact away without a trace in what is known."""
    return Outcome(Verdict.REFUSED, refusals=(Refusal(fact.position, reason, detail),))


def at_the_door(seen: SeenIds, fact: Fact, memory: int | None) -> Outcome | None:
    """Judge what compares with the log: duplicate, conflict, future, too old (SPEC 2, 3).

    None lets the fact in. `memory` is how long a trace is remembered, in microseconds;
    None is for ever.
    """
    event = fact.event
    earlier = seen.get((event.source, event.id))
    if earlier is not None:
        if earlier.same_as(fact.content):
            return DUPLICATE
        return refused(
            fact,
            Reason.CONFLICT,
            f"id `{event.id}` of source `{event.source}` was accepted before with other content",
        )
    if event.time > fact.recorded + FUTURE_MAX:
        return refused(
            fact,
            Reason.FUTURE,
            f"Expected a time at most 5 minutes after {format_instant(fact.recorded)}, when it "
            f"was recorded, got `{format_instant(event.time)}` - at `$.time`",
        )
    if memory is not None and event.time < fact.recorded - (memory - DAY):
        return refused(
            fact,
            Reason.TOO_OLD,
            f"Expected a time within {(memory - DAY) // DAY} days before "
            f"{format_instant(fact.recorded)}, got `{format_instant(event.time)}` - at `$.time`",
        )
    return None


def remember(seen: SeenIds, fact: Fact) -> None:
    """Keep a fact's id and content, so that its repetition has no effect."""
    seen[(fact.event.source, fact.event.id)] = fact.content
