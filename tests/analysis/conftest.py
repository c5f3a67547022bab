"""One archive of the small scene for all tests that only read it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import duckdb
import pytest

from tests.analysis import scene
from trustfold_projections.analysis import views


@pytest.fixture(scope="session")
def scene_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the scene; its archive is the folder `archive` beside it."""
    folder = tmp_path_factory.mktemp("scene")
    scene.make(folder / "trust.db", folder / "archive")
    return folder / "trust.db"


@pytest.fixture(scope="session")
def scene_archive(scene_store: Path) -> Path:
    """The archive of the scene."""
    return scene_store.parent / "archive"


@pytest.fixture(scope="session")
def asked(scene_archive: Path) -> Generator[duckdb.DuckDBPyConnection]:
    """A connection with every view over the scene."""
    with duckdb.connect() as connection:
        views.attach(connection, scene_archive)
        yield connection
