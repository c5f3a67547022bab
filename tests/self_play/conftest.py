"""A table to play at."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.self_play.surroundings import Table


@pytest.fixture
def table(tmp_path: Path) -> Generator[Table]:
    """An empty store, neurons that answer, and a critic that likes long answers."""
    made = Table(tmp_path)
    yield made
    made.close()
