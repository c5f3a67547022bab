"""The policy of a store in a file as async calls: decisions by its thread, peeks from memory.

The table of peeks is loaded at the first one, and followed by a thread of its own, so that a long
ingest delays no peek.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from trustfold_projections.laws.policy import TrustThresholdRegistry
from trustfold_projections.laws.policy.hindsight import Differing
from trustfold_schemas import actions
from trustfold_schemas.decisions import Action, Decision, Verdict, action_of
from trustfold_schemas.errors import NotPermittedError, TrustfoldError
from trustfold_schemas.events import Reversibility
from trustfold_schemas.instants import SECOND
from trustfold_schemas.subject import subject_of
from trustfold_streams.embedded.policy_table import PolicyTable
from trustfold_streams.embedded.store import EmbeddedStore
from trustfold_streams.policy_port import Impacts, Why
from trustfold_streams.trust_store import AnySubject

log = logging.getLogger("trustfold.embedded")

R = TypeVar("R")

FOLLOWED_SECONDS: Final = 1
"""A peek of a table older than this has it caught up behind its back."""
WAITED_SECONDS: Final = 5
"""A peek of a table older than this waits until it is caught up."""
ANSWERED_AT_ONCE: Final = 256
"""So many questions that wait are recorded together: one wait for the disk serves them all."""


class _Question:
    """A question that waits for its answer: a decision, or why there is none."""

    def __init__(self, action: Action) -> None:
        self.action = action
        self.answer: Decision | TrustfoldError | None = None

    def decision(self) -> Decision:
        """The answer; raises what kept it."""
        if isinstance(self.answer, TrustfoldError):
            raise self.answer
        assert self.answer is not None
        return self.answer


class PolicyCalls(ABC):
    """What `AsyncEmbeddedStore` answers of the policy."""

    def __init__(self) -> None:
        self._table: PolicyTable | None = None
        self._table_thread = ThreadPoolExecutor(1, thread_name_prefix="trustfold-policy")
        self._following: asyncio.Future[None] | None = None
        self._questions: deque[_Question] = deque()

    @abstractmethod
    async def _do(self, work: Callable[[EmbeddedStore], R]) -> R:
        """Have the store's thread do something."""

    async def thresholds(self) -> TrustThresholdRegistry:
        """The thresholds in force now."""
        return TrustThresholdRegistry(await self._do(lambda store: store.policy.in_force()))

    async def decide(self, action: Action | Mapping[str, Any]) -> Decision:
        """Whether an action may go without asking; durable when this returns."""
        question = _Question(action if isinstance(action, Action) else action_of(action))
        self._questions.append(question)
        try:
            # Whoever comes first answers all that wait; the others then find nothing left to do.
            await self._do(self._answer)
        finally:
            with contextlib.suppress(ValueError):
                self._questions.remove(question)
        return question.decision()

    def _answer(self, store: EmbeddedStore) -> None:
        """Answer what waits, with one wait for the disk; in the store's thread."""
        some: list[_Question] = []
        with contextlib.suppress(IndexError):
            while len(some) < ANSWERED_AT_ONCE:
                some.append(self._questions.popleft())
        try:
            made = store.policy.decide_all([one.action for one in some]) if some else []
        except NotPermittedError:
            # Each by itself, so that one which may not be asked spoils no other.
            for one in some:
                one.answer = _answered_alone(store, one.action)
        except TrustfoldError as error:
            for one in some:
                one.answer = error
        else:
            for one, decision in zip(some, made, strict=True):
                one.answer = decision

    async def why(self, decision_id: str) -> Why:
        """A decision followed back to the facts. Raises UnknownNameError."""
        return await self._do(lambda store: store.policy.why(decision_id))

    async def impact(self, name: str) -> Impacts:
        """The promotions that rested on a trace, or on what an event said."""
        return await self._do(lambda store: store.policy.impact(name))

    async def decisions(self, subject: AnySubject) -> list[Decision]:
        """A subject's recorded decisions, in the order of the log."""
        wanted = subject_of(*subject)
        return await self._do(lambda store: store.policy.decisions(wanted))

    async def differing(self, subject: AnySubject, name: str) -> list[Differing]:
        """A subject's decisions that would differ had an event or a trace never been."""
        wanted = subject_of(*subject)
        return await self._do(lambda store: store.policy.differing(wanted, name))

    async def revoke(
        self, why: str, *, by: str = "unnamed", scope: str = "*", tool: str = "*", effect: str = "*"
    ) -> str:
        """Promote no subject any more that all three globs match; the revocation's id."""
        return await self._do(
            lambda store: store.policy.say(
                lambda author: actions.trust_revoked(author, by, why, scope, tool, effect)
            )
        )

    async def reinstate(self, revocation_id: str, why: str, *, by: str = "unnamed") -> None:
        """Take a revocation away. Raises UnknownNameError."""
        await self._do(lambda store: store.policy.reinstate(revocation_id, by, why))

    # ---- from memory ---------------------------------------------------------------------------

    async def peek(self, subject: AnySubject, reversibility: Reversibility | None) -> Verdict:
        """What the answer would be, from memory and without recording it.

        What the file held five seconds ago counts; where it cannot be followed for a minute,
        nothing is promoted any more.
        """
        wanted = subject_of(*subject)
        table = self._table
        if table is None:
            table = await self._load()
        age = table.age
        if age > WAITED_SECONDS * SECOND:
            await asyncio.shield(self._following_of(table))
        elif age > FOLLOWED_SECONDS * SECOND:
            self._following = self._following_of(table)
        return table.peek(wanted, reversibility)

    async def _load(self) -> PolicyTable:
        path, clock = await self._do(lambda store: (store.path, store.clock))

        def load() -> PolicyTable:
            # Two first peeks at once come here one after the other.
            if self._table is None:
                self._table = PolicyTable.open(path, clock)
            return self._table

        return await asyncio.get_running_loop().run_in_executor(self._table_thread, load)

    def _following_of(self, table: PolicyTable) -> asyncio.Future[None]:
        """The table's being caught up, which is done once at a time."""
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().run_in_executor(
                self._table_thread, _refresh, table
            )
        return self._following

    async def _let_go_of_the_table(self) -> None:
        """End the following; call when the store closes."""
        table, self._table = self._table, None
        if table is not None:
            await asyncio.get_running_loop().run_in_executor(self._table_thread, table.close)
        self._table_thread.shutdown(wait=False)


def _refresh(table: PolicyTable) -> None:
    try:
        table.refresh()
    except TrustfoldError as error:
        # It grows stale, and a stale table promotes nothing.
        log.warning("the policy's table cannot be caught up: %s", error)


def _answered_alone(store: EmbeddedStore, action: Action) -> Decision | TrustfoldError:
    try:
        return store.policy.decide(action)
    except TrustfoldError as error:
        return error
