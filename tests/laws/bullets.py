"""A log of facts under the pen, for examples of what correlation turns away."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.laws.runs import Run
from tests.oracles.batch import Sums, Told
from tests.oracles.histories import rfc3339
from trustfold_projections.laws.correlation import Outcome
from trustfold_schemas.instants import DAY, SECOND, Instant
from trustfold_schemas.subject import Subject

NOW = Instant(1_780_012_800_000_000)  # 2026-05-29
T = NOW - DAY
"""When everything happens, if nothing else is said; it is recorded a day later."""

WRITE, SHELL = Subject("", "fs_write", "fs_write:~/notes/*"), Subject("", "shell", "exec")
ANN = {"kind": "human", "id": "ann"}

Data = dict[str, Any]


def step(name: str, subject: Subject = WRITE, status: str = "ok") -> Data:
    """A step of a subject."""
    return {"step_id": name, "tool": subject.tool, "effect": subject.effect, "status": status}


class Said(NamedTuple):
    """One fact: its position in the log, when it happened, and what correlation answered."""

    position: int
    moment: int
    outcome: Outcome

    @property
    def turned_away(self) -> list[tuple[int, str]]:
        """What was turned away: the position of the fact in question, and the reason."""
        return [(refusal.position, refusal.reason.value) for refusal in self.outcome.refusals]

    def names(self, *parts: str) -> bool:
        """Whether the detail of the first thing turned away names all of these."""
        return all(part in self.outcome.refusals[0].detail for part in parts)


class Log:
    """A log that grows by a fact a second; events of the trace t unless another is named."""

    def __init__(self) -> None:
        self.run = Run()
        self.now: int = NOW

    def say(
        self,
        kind: str,
        moment: int = T,
        *,
        event_id: str | None = None,
        source: str = "rt",
        scopes: tuple[str, ...] | None = None,
        **data: Any,
    ) -> Said:
        """Record one event."""
        self.now += SECOND
        event = {
            "specversion": "1.0",
            "id": event_id or f"e{self.now}",
            "source": source,
            "type": f"trustfold.{kind}.v1",
            "time": rfc3339(moment),
            "data": data,
        }
        outcome = self.run.take(Told(self.now, "owner", None, scopes, event))
        return Said(self.now, moment, outcome)

    def close(
        self, *steps: Data, moment: int = T, event_id: str | None = None, **data: Any
    ) -> Said:
        """A `trace.closed`."""
        head: Data = {"trace_id": "t", "outcome": "done", "steps": list(steps)}
        return self.say("trace.closed", moment, event_id=event_id, **(head | data))

    def step(self, one: Data, **more: Any) -> Said:
        """A `step.recorded`."""
        head: Data = {"trace_id": "t", "step": one}
        return self.say("step.recorded", **(head | more))

    def signals(self, subject: Subject = WRITE, **more: Any) -> Said:
        """A `signals.reported` of a success."""
        head: Data = {"trace_id": "t", "subject": subject, "tool_success": 1}
        return self.say("signals.reported", **(head | more))

    def deny(self, moment: int = T, **more: Any) -> Said:
        """A human's denial."""
        head: Data = {"trace_id": "t", "decision": "denied", "decided_by": ANN}
        return self.say("approval.decided", moment, **(head | more))

    def of(self, subject: Subject) -> Sums:
        """What a subject has come to; nothing, if no entry is of it."""
        return self.run.sums().get(subject, Sums())

    def rates(self, subject: Subject) -> list[int | None]:
        """The five values of a subject in ppm, None without evidence."""
        sums = self.of(subject)
        return [num // den if den else None for num, den in zip(sums.num, sums.den, strict=True)]
