"""The stores that are held to the contract; all that tells them apart is here."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest

import trustfold
from tests.broker.running import Running
from tests.contract.stores import Letter, StoreFactory, World
from tests.embedded.feeding import digests
from tests.oracles.histories import RECORDED_FROM
from trustfold_schemas.facts import Role
from trustfold_schemas.instants import MINUTE, SECOND, datetime_of
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.async_store import AsyncEmbeddedStore, open_store
from trustfold_streams.trust_store import TrustPolicy


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class EmbeddedWorld:
    """A file, and a clock that moves between two writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._clock = ManualClock(RECORDED_FROM + MINUTE)
        with EmbeddedStore.open(path, clock=self._clock):
            pass

    def open(
        self,
        role: Role = "owner",
        *,
        identity: str | None = None,
        scopes: Sequence[str] | None = None,
    ) -> AsyncEmbeddedStore:
        """The store as one publisher holds it."""
        return open_store(
            self._path, role=role, identity=identity, scopes=scopes, clock=self._clock
        )

    @asynccontextmanager
    async def policy(self, role: Role = "owner") -> AsyncGenerator[TrustPolicy]:
        """The policy of a store opened in this role."""
        async with self.open(role) as store, trustfold.policy_of(store) as policy:
            yield policy

    def now(self) -> datetime:
        """The clock's moment."""
        return datetime_of(self._clock.now())

    async def between(self) -> datetime:
        """The moment from which the clock moves on."""
        self._clock.advance(SECOND)
        moment = self.now()
        self._clock.advance(SECOND)
        return moment

    async def ingest(self, documents: Iterable[bytes]) -> None:
        """Ingest them in one call."""
        async with self.open() as store:
            await store.ingest(documents)

    async def caught_up(self) -> None:
        """The scores are written with the facts."""

    async def dead_letters(self) -> list[Letter]:
        """Read with a store of its own."""
        with EmbeddedStore.open(self._path, "read") as store:
            return [Letter(one.reason, one.body) for one in store.dead_letters()]

    async def digests(self) -> dict[Subject, str]:
        """Read with a store of its own."""
        with EmbeddedStore.open(self._path, "read") as store:
            return digests(store.states())


def _embedded(folders: pytest.TempPathFactory) -> StoreFactory:
    @asynccontextmanager
    async def make() -> AsyncGenerator[World]:
        yield EmbeddedWorld(folders.mktemp("world") / "trust.db")

    return make


@pytest.fixture(
    scope="session", params=["embedded", pytest.param("kafka", marks=pytest.mark.broker)]
)
def store_factory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StoreFactory]:
    """Makes worlds of one kind of store."""
    if request.param == "embedded":
        yield _embedded(tmp_path_factory)
        return
    from tests.contract.kafka_world import kafka_world
    from tests.contract.kitchen import Kitchen

    broker: Running = request.getfixturevalue("broker")
    with Kitchen(broker.bootstrap) as kitchen:
        yield lambda: kafka_world(kitchen)
