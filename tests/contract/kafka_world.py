"""A pipeline of its own for one test: topics, a worker, and the doors the contract asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

import msgspec

import trustfold
from tests.broker.pipeline import complete, working
from tests.contract.kitchen import Kitchen, Ready
from tests.contract.stores import Letter, World
from tests.embedded.feeding import digests
from trustfold_schemas.facts import Role
from trustfold_schemas.instants import MINUTE, datetime_of
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock, SystemClock
from trustfold_streams.kafka.dead_letters import read_letters
from trustfold_streams.kafka.settings import ROLES, Publisher
from trustfold_streams.kafka.store import AsyncKafkaStore
from trustfold_streams.kafka.table import TableReader
from trustfold_streams.trust_store import TrustPolicy

TICK_SECONDS = 0.005
"""The log tells moments in milliseconds."""

BEGAN = SystemClock().now()
"""Where the clock of every world stands at first, so that all worlds of a test agree."""


class KafkaWorld:
    """Topics and a worker, with the configuration that the doors opened so far ask for.

    Who may speak of which scopes is a matter of the topics' configuration: a door for a publisher
    with scopes is what an operator does, who changes it and restarts the worker.
    """

    def __init__(self, ready: Ready, open_things: AsyncExitStack) -> None:
        self._ready = ready
        self._settings = settings = ready.settings
        self._clock = ManualClock(BEGAN)
        self._table = TableReader(settings, self._clock)
        self._stack = open_things
        self._worker = AsyncExitStack()

    async def start(self) -> None:
        """Begin to read; somebody works on the topics already."""
        self._stack.push_async_callback(self._worker.aclose)
        self._worker.push_async_callback(self._ready.end)
        self._stack.push_async_callback(self._table.stop)
        await self._table.start()

    @asynccontextmanager
    async def open(
        self,
        role: Role = "owner",
        *,
        identity: str | None = None,
        scopes: Sequence[str] | None = None,
    ) -> AsyncGenerator[AsyncKafkaStore]:
        """The store as one publisher holds it, once its table may be read."""
        await self._configure(role, Publisher(identity, None if scopes is None else tuple(scopes)))
        async with AsyncKafkaStore(self._settings, role, self._clock) as store:
            await complete(store.table, self._clock.now() - MINUTE // 2)
            yield store

    @asynccontextmanager
    async def policy(self, role: Role = "owner") -> AsyncGenerator[TrustPolicy]:
        """The policy beside the store, once its table may be read."""
        async with self.open(role) as store, trustfold.policy_of(store, role) as policy:
            yield policy

    async def _configure(self, role: Role, publisher: Publisher) -> None:
        known = self._settings.publishers
        wanted = {**known, **{t: publisher for t, r in ROLES.items() if role in ("owner", r)}}
        if publisher == Publisher() or wanted == known:
            return
        await self._worker.aclose()
        self._settings = msgspec.structs.replace(self._settings, publishers=wanted)
        await self._worker.enter_async_context(working(self._settings))

    def now(self) -> datetime:
        """The moment of the last tick; the broker's own clock is the machine's, and goes on."""
        return datetime_of(self._clock.now())

    async def between(self) -> datetime:
        """The present moment of the machine, with a tick of the log on either side."""
        await asyncio.sleep(TICK_SECONDS)
        self._clock.moment = SystemClock().now()
        await asyncio.sleep(TICK_SECONDS)
        return self.now()

    async def ingest(self, documents: Iterable[bytes]) -> None:
        """Publish them one after the other."""
        async with AsyncKafkaStore(self._settings, "owner", self._clock) as store:
            await store.ingest(documents)

    async def caught_up(self) -> None:
        """Wait until the table is complete as of now."""
        await complete(self._table)

    async def dead_letters(self) -> list[Letter]:
        """Read from the topic."""
        return [Letter(one.reason, one.body) for one in await read_letters(self._settings)]

    async def digests(self) -> dict[Subject, str]:
        """Of the table, once it is complete as of now: the subjects of a trace come one by one."""
        await self.caught_up()
        return digests(self._table.states())


@asynccontextmanager
async def kafka_world(kitchen: Kitchen) -> AsyncGenerator[World]:
    """A pipeline on a broker, gone afterwards but for its topics."""
    async with AsyncExitStack() as stack:
        world = KafkaWorld(await kitchen.take(), stack)
        await world.start()
        yield world
