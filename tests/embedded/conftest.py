"""A store in a file, and the clock that it reads."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.oracles.histories import RECORDED_FROM
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until a test moves it."""
    return ManualClock(RECORDED_FROM)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "trust.db"


@pytest.fixture
def store(path: Path, clock: ManualClock) -> Generator[EmbeddedStore]:
    """A new store."""
    with EmbeddedStore.open(path, clock=clock) as opened:
        yield opened
