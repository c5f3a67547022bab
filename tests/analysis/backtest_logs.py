"""Logs for backtests: facts in memory, from drafts of the generated histories or from stories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tests.oracles.batch import Told
from trustfold_projections.laws.correlation import Key, key_of
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.events import CostMedianEvent
from trustfold_schemas.facts import Fact, Stamp
from trustfold_schemas.instants import DAY, HOUR, format_instant, parse_instant
from trustfold_schemas.policy_events import PolicyEvent

START = parse_instant("2026-01-05T09:00:00Z")
WRITE = {"tool": "fs_write", "effect": "fs_write:~/notes/*", "reversibility": "reversible"}


class Log:
    """Facts in log order, as a source for `read_history`."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts = list(facts)

    def medians(self) -> Iterable[Fact]:
        """The published medians."""
        return [fact for fact in self.facts if isinstance(fact.event, CostMedianEvent)]

    def policy(self) -> Iterable[Fact]:
        """The log of the policy."""
        return [fact for fact in self.facts if isinstance(fact.event, PolicyEvent)]

    def by_key(self) -> Iterable[Sequence[Fact]]:
        """The rest, key by key."""
        keys: dict[Key, list[Fact]] = {}
        for fact in self.facts:
            if not isinstance(fact.event, CostMedianEvent | PolicyEvent):
                keys.setdefault(key_of(fact.event), []).append(fact)
        return keys.values()


def log_of(told: Iterable[Told]) -> Log:
    """A generated history as a log."""
    return Log(
        fact_of(one.event, one.recorded, Stamp(one.role, one.identity, one.scopes))  # type: ignore[arg-type]
        for one in told
    )


def fact_of(event: Any, recorded: int, stamp: Stamp) -> Fact:
    """An event as a fact."""
    document = msgspec.json.encode(event)
    return Fact(recorded, recorded, stamp, decode_event(document), document)


class Story:
    """A log told fact by fact; each is recorded a second after its time."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.delay = 1_000_000

    @property
    def log(self) -> Log:
        """The log so far."""
        return Log(sorted(self.facts, key=lambda fact: fact.recorded))

    def tell(self, kind: str, moment: int, **data: Any) -> None:
        """One more fact."""
        event = {
            "specversion": "1.0",
            "id": f"e{len(self.facts)}",
            "source": "story",
            "type": f"trustfold.{kind}.v1",
            "time": format_instant(moment),
            "data": data,
        }
        self.facts.append(fact_of(event, moment + self.delay, Stamp("owner")))

    def close(self, trace_id: str, moment: int, *steps: dict[str, Any], **data: Any) -> None:
        """A closed trace; steps without an id are numbered."""
        listed = [{"step_id": str(i), "status": "ok", **step} for i, step in enumerate(steps)]
        data = {"outcome": "completed", **data}
        self.tell("trace.closed", moment, trace_id=trace_id, steps=listed, **data)

    def answer(self, trace_id: str, moment: int, decision: str, **named: Any) -> None:
        """A human's answer."""
        by = {"kind": "human", "id": "ann"}
        self.tell(
            "approval.decided", moment, trace_id=trace_id, decision=decision, decided_by=by, **named
        )

    def clean_days(self, days: int, step: dict[str, Any] = WRITE) -> int:
        """One clean trace a day; the moment of the next day."""
        for day in range(days):
            self.close(f"clean{day}", START + day * DAY, step)
        return START + days * DAY + HOUR
