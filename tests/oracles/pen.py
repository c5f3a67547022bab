"""A pen to write logs of facts with, for the hand-computed cases of the batch oracle."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.oracles.batch import (
    Contribution,
    Subject,
    Sums,
    Told,
    batch,
    contributions,
    g,
)

T = 1_776_861_296_789_012  # 2026-04-22T12:34:56.789012Z
NOW = T + 60 * 86_400_000_000
ERA = g(T)
WRITE, SHELL = ("", "fs_write", "fs_write:~/notes/*"), ("", "shell", "exec")
TEAM_SHELL = ("team", "shell", "exec")
WHOLE = ("", "runtime", "done")
HUMAN = {"kind": "human", "id": "ann"}


class Log:
    """A log of facts under the pen: each line one microsecond after the one before."""

    def __init__(self) -> None:
        self.facts: list[Told] = []

    def say(self, kind: str, moment: int = T, **data: Any) -> Told:
        """Record one event; `id`, `source`, `scopes` and `recorded` may be given."""
        given_id, source = data.pop("id", f"e{len(self.facts)}"), data.pop("source", "rt")
        scopes, recorded = data.pop("scopes", None), data.pop("recorded", NOW + len(self.facts))
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment)
        event = {
            "specversion": "1.0",
            "id": given_id,
            "source": source,
            "type": f"trustfold.{kind}.v1",
            "time": time.isoformat(timespec="microseconds"),
            "data": data,
        }
        self.facts.append(Told(recorded, "runtime", None, scopes, event))
        return self.facts[-1]

    def close(self, *steps: dict[str, Any], moment: int = T, **data: Any) -> Told:
        """A `trace.closed` of trace t."""
        head = {"trace_id": "t", "outcome": "done", "steps": list(steps)}
        return self.say("trace.closed", moment, **(head | data))

    def step(self, step: dict[str, Any], moment: int = T, **data: Any) -> Told:
        """A `step.recorded` of trace t."""
        return self.say("step.recorded", moment, **({"trace_id": "t", "step": step} | data))

    def decide(self, decision: str, moment: int = T, **data: Any) -> Told:
        """A human's `approval.decided` on trace t."""
        head = {"trace_id": "t", "decision": decision, "decided_by": HUMAN}
        return self.say("approval.decided", moment, **(head | data))

    def undo(self, moment: int = T, **data: Any) -> Told:
        """A human's `undo.executed` on trace t."""
        return self.say("undo.executed", moment, **({"trace_id": "t", "by": HUMAN} | data))

    def aside(self, kind: str, moment: int = T, **data: Any) -> Told:
        """A `trace.excluded` or `trace.included` of trace t."""
        return self.say(f"trace.{kind}", moment, trace_id="t", by="op", why="test", **data)

    def signals(self, subject: Subject = WRITE, moment: int = T, **data: Any) -> Told:
        """A `signals.reported` of trace t."""
        head = {"trace_id": "t", "subject": list(subject)}
        return self.say("signals.reported", moment, **(head | data))

    def gives(self, subject: Subject) -> Contribution:
        """What trace t gives the subject."""
        return contributions(self.facts).get(("t", subject), Contribution())

    def state(self, subject: Subject) -> Sums:
        """The subject's final state."""
        return batch(self.facts)[subject]


def step(name: str, subject: Subject = WRITE, status: str = "ok", **more: Any) -> dict[str, Any]:
    """A step of a subject."""
    return {"step_id": name, "tool": subject[1], "effect": subject[2], "status": status} | more


def digest(subject: Subject, state: Sums) -> str:
    """The content digest of SPEC 4 under `ewm/1`, in hex."""
    singles = (state.n_samples, state.self_play_num, state.self_play_den)
    moments = (state.last_updated, state.last_bad_at, state.last_grant_at)
    rest = [None if number is None else str(number) for number in (*singles, *moments)]
    content = ["ewm/1", subject, [str(n) for n in state.num], [str(n) for n in state.den], *rest]
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
