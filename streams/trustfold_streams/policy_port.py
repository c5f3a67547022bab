"""The port of the policy: what runtimes, people and commands ask of any store's policy (SPEC 5).

Questions and answers are in `trustfold_schemas.decisions`, rules in the laws. Calls wait until they
are done; `trust_store` has the async ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from trustfold_projections.laws.policy import Policy
from trustfold_projections.laws.policy.hindsight import Differing, Impact
from trustfold_schemas import actions
from trustfold_schemas.decisions import Action, Decision, Verdict
from trustfold_schemas.events import Reversibility, Step
from trustfold_schemas.facts import Fact
from trustfold_schemas.subject import Subject

Write = Callable[[actions.Author], bytes]


class Difference(Struct, frozen=True):
    """One thing that is not what it should be: where, and what stands against what."""

    where: str
    difference: str


class Why(Struct, frozen=True, kw_only=True):
    """A decision with its past and its future.

    `step` is the one that carries the decision, else the one of its name in its trace; `feedback`
    what was said of that step. The digests are those of the state it rested on, as the ledger
    folds now and as the facts give it again. `verdict_again` is the decision made again from the
    facts; None where the record was corrupt then, so that there is nothing to make it from.
    """

    decision: Decision
    step: Step | None
    step_recorded: int | None
    feedback: tuple[Fact, ...]
    digest_of_ledger: str | None
    digest_of_facts: str | None
    verdict_again: Verdict | None
    differences: tuple[Difference, ...]

    @property
    def digest_matches(self) -> bool:
        """Whether ledger and facts both give the state that was decided on."""
        recorded = self.decision.verdict.digest
        return self.digest_of_ledger == recorded == self.digest_of_facts

    @property
    def verdict_matches(self) -> bool:
        """Whether the same question, asked again of the same past, has the same answer."""
        return self.verdict_again in (None, self.decision.verdict)

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return self.digest_matches and self.verdict_matches and not self.differences


class Impacts(Struct, frozen=True, kw_only=True):
    """What taking something back comes to.

    `acted` are the promotions by which its own steps acted, of a revocation those by which they
    acted whom it names; `rested` those that rested on its evidence.
    """

    name: str
    what: str
    acted: tuple[Decision, ...]
    rested: tuple[Impact, ...]


class PolicyStore(Protocol):
    """The policy of an open store, and the log of its decisions."""

    def in_force(self) -> Policy:
        """The policy as it stands now."""
        ...

    def say(self, write: Write) -> str:
        """Publish an event of the log `policy`; its id. Raises EventRefused: stale_version."""
        ...

    def reinstate(self, revocation_id: str, by: str, why: str) -> None:
        """Take a revocation away. Raises UnknownNameError where none of this id is in force."""
        ...

    def decide(self, action: Action) -> Decision:
        """Answer, and record the answer first. Raises NotPermittedError.

        The same trace, step, subject and fingerprint within 24 hours gets the recorded decision
        again; an `allow` only while it would be one still.
        """
        ...

    def peek(self, subject: Subject, reversibility: Reversibility | None) -> Verdict:
        """What the answer would be, without recording it."""
        ...

    def decisions(self, subject: Subject) -> list[Decision]:
        """A subject's decisions, in log order."""
        ...

    def why(self, decision_id: str) -> Why:
        """A decision followed back to the facts. Raises UnknownNameError."""
        ...

    def impact(self, name: str) -> Impacts:
        """What rested on a trace, or on what an event said. Raises UnknownNameError.

        `name` is a trace, an event such as an undo or an exclusion, a rollback or a revocation.
        """
        ...

    def impact_of_rollback(self, subject: Subject, to: int) -> list[Impact]:
        """The promotions that rested on what a rollback to a moment, made now, would take back."""
        ...

    def differing(self, subject: Subject, name: str) -> list[Differing]:
        """A subject's decisions that would differ had an event or a trace never been."""
        ...
