"""A store whose policy is asked: what operators set, what a subject earns, and questions."""

from __future__ import annotations

from itertools import count
from typing import Any

from tests.embedded.documents import NOTES, Data, closed, decided, event, numbered, step
from trustfold_schemas.decisions import Action, Decision
from trustfold_schemas.events import Reversibility
from trustfold_schemas.instants import SECOND
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore, Receipt


class Office:
    """A store, the clock it reads, and short words for what is done with them."""

    def __init__(self, store: EmbeddedStore, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        self._numbers = count(1)
        # No promise here is about power cuts, and waiting for the disk would be most of the time.
        store._connection.execute("PRAGMA synchronous=OFF")

    def rules(self, declared: Reversibility = "reversible", effect: str = "fs_write:*") -> None:
        """Enforce without spot checks; declare the writes; ask for two grants and no more."""
        self.say("policy.mode", mode="enforce", spot_check_one_in=0)
        self.say("effect.declared", effect=effect, reversibility=declared)
        self.threshold(effect, declared, min_grants=2)

    def later(self) -> int:
        """A moment after everything recorded so far."""
        self.clock.advance(SECOND)
        return self.clock.now()

    def threshold(self, effect: str, band: Reversibility, **more: Any) -> None:
        """Set a threshold that asks for nothing but what is given."""
        easy = {"min_score": 0, "min_samples": 0, "min_grants": 0, "min_approval_rate": 0}
        self.say("threshold.set", effect=effect, risk_band=band, **(easy | more))

    def say(self, kind: str, time: int | None = None, **data: Any) -> Receipt:
        """Ingest one event by oscar, who has his reasons."""
        name = f"say/{next(self._numbers)}"
        if kind.split(".", maxsplit=1)[0] in ("policy", "effect", "threshold", "trust"):
            data = {"by": "oscar", "why": "reasons", **data}
        return self.ingest(event(kind, name, data, self.clock.now() if time is None else time))[0]

    def ingest(self, *bodies: bytes) -> list[Receipt]:
        """Ingest documents, a second later."""
        self.clock.advance(SECOND)
        made: list[Receipt] = []
        self.store.ingest(numbered(bodies), committed=made.extend)
        return made

    def trace(self, name: str, *steps: Data, granted: bool = True, time: int | None = None) -> None:
        """A closed trace with one good write unless steps are given, granted by a human."""
        moment = self.clock.now() if time is None else time
        bodies = [closed(name, *steps, time=moment)]
        if granted:
            bodies.append(decided(name, time=moment, step_ids=["a"]))
        self.ingest(*bodies)

    def earned(self, traces: int = 5) -> None:
        """So many traces with a granted write."""
        for number in range(traces):
            self.trace(f"earned/{number}")

    def ask(
        self,
        step_id: str = "s1",
        trace_id: str = "now",
        said: Reversibility | None = "reversible",
        fingerprint: str | None = "f1",
        subject: Subject = NOTES,
    ) -> Decision:
        """Ask, a second later."""
        self.clock.advance(SECOND)
        return self.store.policy.decide(Action(subject, said, trace_id, step_id, fingerprint))

    def close_with(self, decision: Decision, status: str = "ok") -> None:
        """Close the decision's trace with its step, which carries the decision."""
        action = decision.action
        one = step(action.step_id, action.subject, status)
        one |= {"decision_id": decision.decision_id, "via": decision.verdict.via or "human"}
        self.ingest(closed(action.trace_id, one, time=self.clock.now()))
