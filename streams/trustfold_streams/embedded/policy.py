"""The policy of a store in a file: what is in force, and decisions recorded before they are given.

Rules are the law's. What follows a decision back to its facts is in `policy_audit`, what answers
from memory in `policy_table`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from trustfold_projections.laws.policy import Policy, PolicyLog, decide
from trustfold_projections.laws.policy.hindsight import Differing, Impact, stands
from trustfold_schemas import actions
from trustfold_schemas.decisions import Action, Decision, Verdict
from trustfold_schemas.errors import TrustCorruptionError, UnknownNameError
from trustfold_schemas.events import Reversibility
from trustfold_schemas.facts import Stamp
from trustfold_schemas.scores import Corrupt, State
from trustfold_schemas.subject import Subject
from trustfold_streams.asking import check_may_ask, decision_on, last_grant_of, random_id
from trustfold_streams.clock import Clock
from trustfold_streams.embedded import decisions, policy_audit, reader, thresholds
from trustfold_streams.embedded.database import snapshot, transaction, translated
from trustfold_streams.policy_port import Impacts, Why, Write

NewId = Callable[[], str]


class HeldPolicy:
    """The policy in force, read once and then only what its log has grown by."""

    def __init__(self) -> None:
        self._log = PolicyLog()

    def read(self, connection: sqlite3.Connection) -> Policy:
        """The policy that stands in the file."""
        if thresholds.last_of_policy(connection) > self._log.last_recorded:
            for fact in thresholds.read_policy(connection, self._log.last_recorded):
                self._log.take(fact)
        return self._log.policy


class EmbeddedPolicy:
    """The PolicyStore of a store in a file; made by `EmbeddedStore.policy`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        clock: Clock,
        stamp: Stamp,
        *,
        state: Callable[[Subject], State | None],
        say: Callable[[Write], str],
        must_write: Callable[[], None],
        new_id: NewId = random_id,
    ) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self._stamp = stamp
        self._state = state
        self._say = say
        self._must_write = must_write
        self._new_id = new_id
        self._held = HeldPolicy()

    def in_force(self) -> Policy:
        """The policy as it stands now."""
        with translated(self._path), snapshot(self._connection):
            return self._held.read(self._connection)

    def say(self, write: Write) -> str:
        """Publish an event of the log `policy`; its id. Raises EventRefused: stale_version."""
        return self._say(write)

    def reinstate(self, revocation_id: str, by: str, why: str) -> None:
        """Take a revocation away. Raises UnknownNameError where none of this id is in force."""
        if revocation_id not in {one.revocation_id for one in self.in_force().revocations}:
            raise UnknownNameError(f"no revocation in force is named {revocation_id!r}")
        self._say(lambda author: actions.trust_reinstated(author, revocation_id, by, why))

    # ---- deciding ------------------------------------------------------------------------------

    def decide(self, action: Action) -> Decision:
        """Answer, and record the answer first. Raises NotPermittedError.

        The same question within 24 hours gets the recorded decision again; an `allow` only while
        it would be one still.
        """
        (decision,) = self.decide_all([action])
        return decision

    def decide_all(self, asked: Sequence[Action]) -> list[Decision]:
        """Answer several questions in their order, with one wait for the disk; all or none.

        Raises NotPermittedError where one of them may not be asked.
        """
        for action in asked:
            check_may_ask(self._stamp, action)
        self._must_write()
        with translated(self._path), transaction(self._connection):
            policy = self._held.read(self._connection)
            return [self._decide(action, policy) for action in asked]

    def _decide(self, action: Action, policy: Policy) -> Decision:
        position, recorded, chain = decisions.last(self._connection)
        now = max(self._now(), recorded)
        state = self._known(action.subject)
        before = decisions.asked_before(self._connection, action, now)
        if before is not None and stands(before, action, state, policy, now):
            return before
        owed_to = decisions.spot_check_owed(self._connection, action, last_grant_of(state), now)
        decision = decision_on(
            action,
            state,
            policy,
            now,
            decision_id=self._new_id(),
            position=position + 1,
            owed_to=owed_to,
        )
        decisions.insert(self._connection, decision, chain)
        return decision

    def peek(self, subject: Subject, reversibility: Reversibility | None) -> Verdict:
        """What the answer would be, without recording it; read from the file."""
        action = Action(subject, reversibility, "peek", "peek")
        with translated(self._path), snapshot(self._connection):
            policy = self._held.read(self._connection)
            return decide(self._known(subject), policy, action, self._now())

    def _known(self, subject: Subject) -> State | Corrupt | None:
        try:
            return self._state(subject)
        except TrustCorruptionError as error:
            return Corrupt(subject, str(error))

    def _now(self) -> int:
        """Never before what the log has recorded: a clock set back revives no dead evidence."""
        return max(self._clock.now(), reader.last_recorded(self._connection) or 0)

    # ---- looking back --------------------------------------------------------------------------

    def decisions(self, subject: Subject) -> list[Decision]:
        """A subject's decisions, in log order."""
        with translated(self._path):
            return list(decisions.of_subject(self._connection, subject))

    def why(self, decision_id: str) -> Why:
        """A decision followed back to the facts. Raises UnknownNameError."""
        with translated(self._path), snapshot(self._connection):
            return policy_audit.why(self._connection, decision_id)

    def impact(self, name: str) -> Impacts:
        """What rested on a trace, or on what an event said. Raises UnknownNameError."""
        with translated(self._path), snapshot(self._connection):
            return policy_audit.impact_of(self._connection, name)

    def impact_of_rollback(self, subject: Subject, to: int) -> list[Impact]:
        """The promotions that rested on what a rollback to a moment, made now, would take back."""
        with translated(self._path), snapshot(self._connection):
            return policy_audit.impact_of_rollback(self._connection, subject, to)

    def differing(self, subject: Subject, name: str) -> list[Differing]:
        """A subject's decisions that would differ had an event or a trace never been."""
        with translated(self._path), snapshot(self._connection):
            return policy_audit.differing_without(self._connection, subject, name)
