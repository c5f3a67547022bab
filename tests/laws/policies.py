"""A policy under the pen: facts of its log, states with a past, and questions about them."""

from __future__ import annotations

from typing import Any

import msgspec

from trustfold_projections.laws.correlation import Outcome
from trustfold_projections.laws.policy import Policy, PolicyLog
from trustfold_projections.laws.time_weights import ZERO, g
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import Action
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.events import Reversibility
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.instants import DAY, SECOND, format_instant
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject

NOW = ZERO + 2300 * DAY
NOTES = Subject("", "fs_write", "fs_write:~/notes/*")
ASKED = Action(NOTES, "reversible", "t1", "s1", "f1")


class Rules:
    """A log `policy` that grows by a fact a second."""

    def __init__(self) -> None:
        self.log = PolicyLog()
        self.facts: list[Fact] = []
        self.recorded = NOW - DAY

    @property
    def policy(self) -> Policy:
        """What is in force."""
        return self.log.policy

    def say(self, kind: str, event_id: str | None = None, **data: Any) -> Outcome:
        """Record one event by oscar, who has his reasons."""
        self.recorded += SECOND
        document = msgspec.json.encode(
            {
                "specversion": "1.0",
                "id": event_id or f"p{self.recorded}",
                "source": "ops",
                "type": f"trustfold.{kind}.v1",
                "time": format_instant(self.recorded),
                "data": {"by": "oscar", "why": "reasons", **data},
            }
        )
        fact = Fact(self.recorded, self.recorded, OWNER, decode_event(document), document)
        self.facts.append(fact)
        return self.log.take(fact)

    def declare(self, effect: str, reversibility: Reversibility, **more: Any) -> Outcome:
        """Declare an effect."""
        return self.say("effect.declared", effect=effect, reversibility=reversibility, **more)

    def threshold(self, effect: str, band: Reversibility, **more: Any) -> Outcome:
        """Set a threshold that everybody meets who has a history, but for what is given."""
        easy = {"min_score": 0, "min_samples": 0, "min_grants": 0, "min_approval_rate": 0}
        return self.say("threshold.set", effect=effect, risk_band=band, **(easy | more))

    def mode(self, mode: str = "enforce", spot_check_one_in: int | None = 0) -> Outcome:
        """Set the mode, without spot checks unless it is told of some."""
        return self.say("policy.mode", mode=mode, spot_check_one_in=spot_check_one_in)


def enforcing(declared: Reversibility = "reversible") -> Rules:
    """A policy that promotes, with the notes declared and no spot checks."""
    rules = Rules()
    rules.mode()
    rules.declare("fs_write:~/notes/*", declared)
    return rules


def perfect(
    subject: Subject = NOTES, *, traces: int = 1000, granted: int | None = None, at: int = NOW
) -> State:
    """The state after so many perfect traces at a moment, all granted by a human or so many."""
    weight, decided = g(at), traces if granted is None else granted
    counts = [traces, decided, traces, traces, traces]
    num = [count * PPM * weight for count in counts]
    num[4] = 0
    return State(
        subject=subject,
        num=num,
        den=[count * weight for count in counts],
        n_samples=traces,
        last_updated=at,
        last_grant_at=at if decided else None,
        version=traces,
    )
