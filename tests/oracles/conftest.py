"""What the cases of the oracle share."""

from __future__ import annotations

import pytest

from tests.oracles.pen import Log


@pytest.fixture
def log() -> Log:
    """An empty log."""
    return Log()
