"""A folder in which commands are run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Shell


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """An empty folder, in which `trust.db` is made unless `--store` says otherwise."""
    return Shell(tmp_path, capsys, monkeypatch)
