"""The policy on Kafka: the TrustPolicy of a pipeline, beside its TrustStore.

States come from the table reader, what is in force from the log `policy`; a decision is given once
it stands in the log `decisions`, and only if it is the one that holds there.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Self

from trustfold_projections.laws.policy import Policy, TrustThresholdRegistry, decide
from trustfold_projections.laws.policy.hindsight import Differing, stands
from trustfold_schemas import actions
from trustfold_schemas.decisions import Action, Decision, Verdict, action_of
from trustfold_schemas.errors import (
    EventRefused,
    UnknownNameError,
)
from trustfold_schemas.events import Reversibility
from trustfold_schemas.facts import Role, Stamp
from trustfold_schemas.instants import SECOND, format_instant
from trustfold_schemas.subject import subject_of
from trustfold_streams.asking import check_may_ask, decision_on, last_grant_of, random_id
from trustfold_streams.clock import Clock
from trustfold_streams.closing import AsyncClosing
from trustfold_streams.kafka import policy_audit
from trustfold_streams.kafka.decisions import decision_output
from trustfold_streams.kafka.errors import StaleTableError
from trustfold_streams.kafka.policy_tail import PolicyTail
from trustfold_streams.kafka.publisher import Publisher
from trustfold_streams.kafka.reaching import require_topics, topics_there, translated
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.store import SOURCE, AsyncKafkaStore
from trustfold_streams.kafka.table import STALE_SECONDS, TableReader
from trustfold_streams.policy_port import Impacts, Why, Write
from trustfold_streams.trust_store import AnySubject


class KafkaPolicy(AsyncClosing):
    """The policy of a pipeline, held in one role. Use with `async with`, inside that of its store.

    Raises BrokerError where the broker fails. A table that is stale promotes nothing.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        table: TableReader,
        clock: Clock,
        role: Role = "owner",
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.settings = settings
        self.tail = PolicyTail(settings, clock)
        self._table = table
        self._clock = clock
        self._role: Role = role
        self._new_id = new_id
        # On Kafka a runtime's scopes are a matter of its topic's configuration.
        self._scopes = settings.stamp("trace-closed").scopes
        self._publisher = Publisher(settings, role)

    @classmethod
    def of(cls, store: AsyncKafkaStore, role: Role = "owner") -> Self:
        """The policy beside an open store."""
        return cls(store.settings, store.table, store.clock, role)

    async def _enter(self, opening: contextlib.AsyncExitStack) -> None:
        with translated(self.settings):
            have = await topics_there(self.settings)
            require_topics(self.settings, have, ("policy", "decisions"))
            if self._role != "reader":
                await opening.enter_async_context(self._publisher)
            opening.push_async_callback(self.tail.stop)
            await self.tail.start()

    # ---- what is in force ----------------------------------------------------------------------

    async def in_force(self) -> Policy:
        """The policy as it stands now."""
        with translated(self.settings):
            await self.tail.caught_up()
        return self.tail.policy

    async def thresholds(self) -> TrustThresholdRegistry:
        """The thresholds in force now."""
        return TrustThresholdRegistry(await self.in_force())

    async def say(self, write: Write) -> str:
        """Publish an event of the log `policy`; its id. In force when this returns.

        Raises EventRefused, also for a stale version, which the log's order decides; it is a dead
        letter then.
        """
        author = actions.Author(SOURCE, str(uuid.uuid4()), self._clock.now())
        receipt = await self._publisher.publish(write(author))
        with translated(self.settings):
            await self.tail.caught_up()
        letter = self.tail.refusal(receipt.offset)
        if letter is not None:
            raise EventRefused(letter.reason, letter.detail)
        return author.event_id

    async def revoke(
        self, why: str, *, by: str = "unnamed", scope: str = "*", tool: str = "*", effect: str = "*"
    ) -> str:
        """Promote no subject any more that all three globs match; the revocation's id."""
        return await self.say(
            lambda author: actions.trust_revoked(author, by, why, scope, tool, effect)
        )

    async def reinstate(self, revocation_id: str, why: str, *, by: str = "unnamed") -> None:
        """Take a revocation away. Raises UnknownNameError."""
        policy = await self.in_force()
        if revocation_id not in {one.revocation_id for one in policy.revocations}:
            raise UnknownNameError(f"no revocation in force is named {revocation_id!r}")
        await self.say(lambda author: actions.trust_reinstated(author, revocation_id, by, why))

    # ---- answering -----------------------------------------------------------------------------

    async def decide(self, action: Action | Mapping[str, Any]) -> Decision:
        """Whether an action may go without asking; in the log before it is answered.

        The same question within 24 hours gets the recorded decision again; of several that were
        made at once, all get the one that the log has first. Raises ActionError,
        NotPermittedError.
        """
        asked = action if isinstance(action, Action) else action_of(action)
        check_may_ask(Stamp(self._role, scopes=self._scopes), asked)
        with translated(self.settings):
            await self.tail.caught_up(asked.trace_id)
            now, policy = self._clock.now(), self.tail.policy
            state, stale = self._table.checked(asked.subject), self._stale(now)
            before = self.tail.asked.before(asked, now)
            if before is not None and stands(before, asked, state, policy, now, stale):
                return before
            made = decision_on(
                asked,
                state,
                policy,
                now,
                decision_id=self._new_id(),
                position=-1,
                owed_to=self.tail.asked.spot_check_owed(asked, last_grant_of(state), now),
                stale=stale,
            )
            await self._publisher.send(decision_output(self.settings, made))
            await self.tail.caught_up(asked.trace_id)
        holding = self.tail.asked.before(asked, now)
        assert holding is not None
        return holding

    async def why(self, decision_id: str) -> Why:
        """A decision followed back to the facts. Raises UnknownNameError."""
        with translated(self.settings):
            return await policy_audit.why(self.settings, decision_id)

    async def impact(self, name: str) -> Impacts:
        """The promotions that rested on a trace, or on what an event said."""
        with translated(self.settings):
            return await policy_audit.impact_of(self.settings, name)

    async def decisions(self, subject: AnySubject) -> list[Decision]:
        """A subject's recorded decisions, those of a trace in the order of the log."""
        wanted = subject_of(*subject)
        with translated(self.settings):
            made = await policy_audit.read_decisions(self.settings)
        return [decision for decision in made if decision.action.subject == wanted]

    async def differing(self, subject: AnySubject, name: str) -> list[Differing]:
        """A subject's decisions that would differ had an event or a trace never been."""
        wanted = subject_of(*subject)
        with translated(self.settings):
            return await policy_audit.differing_without(self.settings, wanted, name)

    async def peek(self, subject: AnySubject, reversibility: Reversibility | None) -> Verdict:
        """What the answer would be, from memory and without recording it."""
        wanted, now = subject_of(*subject), self._clock.now()
        return decide(
            self._table.standing(wanted),
            self.tail.policy,
            Action(wanted, reversibility, "peek", "peek"),
            now,
            stale=self._stale(now),
        )

    def _stale(self, now: int) -> str | None:
        """Why table or policy are not known to be caught up; None if both are."""
        try:
            self._table.refuse_if_stale()
        except StaleTableError as error:
            return str(error)
        if self.tail.fresh_as_of < now - STALE_SECONDS * SECOND:
            return (
                f"a policy that was read within {STALE_SECONDS} seconds, this one was as of "
                f"{format_instant(self.tail.fresh_as_of)}"
            )
        return None
