"""A real broker, started once for all tests marked `broker`, and fresh topic names for each.

With TRUSTFOLD_TEST_KAFKA=HOST:PORT they use that one instead. Where neither is to be had they are
skipped, with one line that says what is missing; in CI they fail.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from compose.kafka.broker import Broker, free_port
from tests.broker.running import VARIABLE, Running, why_there_is_none

SERVES_SECONDS_MAX = 60.0


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail in CI, what needs a broker where none can be had."""
    if item.get_closest_marker("broker") is None:
        return
    missing = why_there_is_none()
    if missing is not None and os.environ.get("CI"):
        pytest.fail(missing, pytrace=False)
    if missing is not None:
        # Always from this line, so that pytest counts all of them in one.
        pytest.skip(missing)


@contextlib.contextmanager
def started() -> Generator[Broker]:
    """A fresh broker on a free port, gone with all its data afterwards, whatever became of it."""
    with tempfile.TemporaryDirectory(prefix="trustfold-broker-") as folder:
        process = Broker(Path(folder), free_port())
        process.start()
        try:
            yield process
        finally:
            if process.pid is not None:  # nobody reads this log again: no need to ask kindly
                process.kill()


@pytest.fixture(scope="session")
def broker() -> Iterator[Running]:
    """The broker that all tests share: nobody stops it, and everybody uses an own prefix."""
    named = os.environ.get(VARIABLE)
    if named:
        yield Running(named)
        return
    with started() as process:
        yield Running(process.bootstrap, process)


@pytest.fixture(scope="session")
def expendable_broker() -> Iterator[Broker]:
    """A broker whose life is at the disposal of tests, one after the other."""
    with started() as process:
        yield process


@pytest.fixture
def own_broker(expendable_broker: Broker) -> Running:
    """A broker that nobody else uses meanwhile, which the test may stop, kill and freeze."""
    if expendable_broker.pid is None:
        expendable_broker.start()
    expendable_broker.thaw()
    asyncio.run(_unfenced(expendable_broker))
    return Running(expendable_broker.bootstrap, expendable_broker)


async def _unfenced(process: Broker) -> None:
    """Wait until it serves: a controller locks out a broker that was silent for seconds."""
    from tests.broker.processes import until
    from trustfold_streams.kafka.admin import connected
    from trustfold_streams.kafka.errors import BrokerError
    from trustfold_streams.kafka.settings import KafkaSettings

    async def look() -> str | None:
        try:
            async with connected(KafkaSettings(process.bootstrap)) as admin:
                return None if await admin.nodes() else "no node is up"
        except BrokerError as error:
            return str(error)

    await until("the broker serves", look, SERVES_SECONDS_MAX)


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}."
