"""A real broker, started once for all tests marked `broker`, and fresh topic names for each.

With TRUSTFOLD_TEST_KAFKA=HOST:PORT they use that one instead. Where neither is to be had they are
skipped, with one line that says what is missing; in CI they fail.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from compose.kafka.broker import Broker, free_port
from tests.broker.running import VARIABLE, Running, why_there_is_none


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


@pytest.fixture
def own_broker() -> Iterator[Running]:
    """A broker of the test's own, which it may stop, kill and freeze."""
    with started() as process:
        yield Running(process.bootstrap, process)


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test uses."""
    return f"t{uuid.uuid4().hex[:12]}."
