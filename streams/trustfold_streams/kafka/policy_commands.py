"""The policy of the command line on a broker: the port `PolicyStore`, in calls that wait.

Beside `command_store`, which is the port `Store`. What needs scores waits a little for a table that
a living worker is about to call complete; where it stays stale, nothing is promoted.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from trustfold_projections.laws.policy import Policy
from trustfold_projections.laws.policy.hindsight import Differing, Impact
from trustfold_schemas.decisions import Action, Decision, Verdict
from trustfold_schemas.events import Reversibility
from trustfold_schemas.facts import OWNER, Stamp
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock
from trustfold_streams.kafka import policy_audit
from trustfold_streams.kafka.calls import BrokerCalls
from trustfold_streams.kafka.errors import StaleTableError
from trustfold_streams.kafka.pipeline_progress import alive
from trustfold_streams.kafka.policy import KafkaPolicy
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.table import TableReader
from trustfold_streams.kafka.visit import FRESH_SECONDS_MAX, LOAD_SECONDS_MAX, LOOK_SECONDS
from trustfold_streams.policy_port import Impacts, Why, Write


class KafkaPolicyStore(BrokerCalls):
    """The policy of a pipeline for one command."""

    def __init__(
        self, settings: KafkaSettings, stamp: Stamp = OWNER, clock: Clock | None = None
    ) -> None:
        super().__init__(settings, stamp, clock)
        self._policy: KafkaPolicy | None = None
        self._table = TableReader(settings, self.clock)
        self._loaded = False

    async def _stop(self) -> None:
        if self._policy is not None:
            await self._policy.__aexit__(None, None, None)
        if self._loaded:
            await self._table.stop()
        await super()._stop()

    async def _held(self, *, scores: bool = False) -> KafkaPolicy:
        """The policy; with the table of scores, as complete as a worker makes it."""
        if self._policy is None:
            policy = KafkaPolicy(self.settings, self._table, self.clock, self.stamp.role)
            self._policy = await policy.__aenter__()
        if scores and not self._loaded:
            self._visit.need("scores", "progress", "policy")
            self._loaded = True
            async with asyncio.timeout(LOAD_SECONDS_MAX):
                await self._table.start()
            await self._wait_until_fresh(self._table)
        return self._policy

    async def _wait_until_fresh(self, table: TableReader) -> None:
        """Wait for a table that a living worker is about to call complete, but not for ever."""
        until = time.monotonic() + FRESH_SECONDS_MAX
        while time.monotonic() < until and alive(table, self.clock):
            with contextlib.suppress(StaleTableError):
                table.refuse_if_stale()
                return
            await table.changed(LOOK_SECONDS)

    # ---- what is in force ----------------------------------------------------------------------

    def in_force(self) -> Policy:
        """The policy as it stands now."""

        async def read() -> Policy:
            return await (await self._held()).in_force()

        return self._run(read())

    def say(self, write: Write) -> str:
        """Publish an event of the log `policy`; its id. Raises EventRefused: stale_version."""

        async def publish() -> str:
            return await (await self._held()).say(write)

        return self._run(publish())

    def reinstate(self, revocation_id: str, by: str, why: str) -> None:
        """Take a revocation away. Raises UnknownNameError where none of this id is in force."""

        async def publish() -> None:
            await (await self._held()).reinstate(revocation_id, why, by=by)

        self._run(publish())

    # ---- answering -----------------------------------------------------------------------------

    def decide(self, action: Action) -> Decision:
        """Answer, and record the answer first. Raises NotPermittedError."""

        async def ask() -> Decision:
            return await (await self._held(scores=True)).decide(action)

        return self._run(ask())

    def peek(self, subject: Subject, reversibility: Reversibility | None) -> Verdict:
        """What the answer would be, without recording it."""

        async def ask() -> Verdict:
            return await (await self._held(scores=True)).peek(subject, reversibility)

        return self._run(ask())

    # ---- looking back --------------------------------------------------------------------------

    def decisions(self, subject: Subject) -> list[Decision]:
        """A subject's decisions, those of a trace in log order."""
        made = self._run(policy_audit.read_decisions(self.settings))
        return [decision for decision in made if decision.action.subject == subject]

    def why(self, decision_id: str) -> Why:
        """A decision followed back to the facts. Raises UnknownNameError."""
        self._visit.need("decisions", "facts", "ledger", "policy", "cost-median")
        return self._run(policy_audit.why(self.settings, decision_id))

    def impact(self, name: str) -> Impacts:
        """What rested on a trace, or on what an event said. Raises UnknownNameError."""
        self._visit.need("decisions", "facts", "ledger", "policy")
        return self._run(policy_audit.impact_of(self.settings, name))

    def impact_of_rollback(self, subject: Subject, to: int) -> list[Impact]:
        """The promotions that rested on what a rollback to a moment, made now, would take back."""
        self._visit.need("decisions", "ledger", "policy")
        return self._run(policy_audit.impact_of_rollback(self.settings, subject, to))

    def differing(self, subject: Subject, name: str) -> list[Differing]:
        """A subject's decisions that would differ had an event or a trace never been."""
        self._visit.need("decisions", "facts", "ledger", "policy", "cost-median")
        return self._run(policy_audit.differing_without(self.settings, subject, name))
