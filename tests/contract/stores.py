"""What a store must offer to be held to the contract, and how a test waits for it.

A store may let its scores follow what was published after a while, so a test never reads once and
believes it: it reads `eventually`, and looks for the absence of a change only once the store has
caught up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.facts import Role
from trustfold_schemas.subject import Subject
from trustfold_streams.trust_store import TrustPolicy, TrustStore

T = TypeVar("T")

POLLS_MAX = 600
POLL_SECONDS = 0.05
"""Together half a minute, of which a store that answers at once waits nothing."""


class Letter(NamedTuple):
    """What the contract asks of a dead letter."""

    reason: Reason
    body: bytes


class World(Protocol):
    """One store, empty at first, with the doors to it and a look behind it."""

    def open(
        self,
        role: Role = "owner",
        *,
        identity: str | None = None,
        scopes: Sequence[str] | None = None,
    ) -> AbstractAsyncContextManager[TrustStore]:
        """The store as one publisher holds it."""
        ...

    def policy(self, role: Role = "owner") -> AbstractAsyncContextManager[TrustPolicy]:
        """The store's policy as one asker or operator holds it."""
        ...

    def now(self) -> datetime:
        """The present moment, by the clock that the store reads."""
        ...

    async def between(self) -> datetime:
        """A moment at or after the recorded of all so far, and before that of all to come."""
        ...

    async def ingest(self, documents: Iterable[bytes]) -> None:
        """Publish raw event documents as the owner; durable when this returns."""
        ...

    async def caught_up(self) -> None:
        """Wait until everything published so far has come to the scores and dead letters."""
        ...

    async def dead_letters(self) -> list[Letter]:
        """All dead letters."""
        ...

    async def digests(self) -> dict[Subject, str]:
        """The content digests of the table."""
        ...


StoreFactory = Callable[[], AbstractAsyncContextManager[World]]
"""Makes a world of its own for each test."""


async def eventually(read: Callable[[], Awaitable[T]], condition: Callable[[T], bool]) -> T:
    """Read until what was read is as it should be; fail with the last of it after a while."""
    for _ in range(POLLS_MAX):
        seen = await read()
        if condition(seen):
            return seen
        await asyncio.sleep(POLL_SECONDS)
    raise AssertionError(f"not what was waited for: {await read()}")


async def known(read: Callable[[], Awaitable[T | None]]) -> T:
    """Read until there is something."""
    seen = await eventually(read, lambda one: one is not None)
    assert seen is not None
    return seen
