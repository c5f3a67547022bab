"""One changed byte anywhere in the closed file: found, refused by name, or where nothing lies."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.embedded.damage import (
    Rows,
    content_digests,
    contents,
    full_store,
    is_noticed,
    open_store,
)
from tests.embedded.feeding import FOLDERS
from trustfold_schemas.errors import TrustfoldError

POSITIONS = 200
REMARKS = slice(2, 7)
"""Detail, origin, first and last moment and count of a dead letter: not proven, and harmless."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that verifies, all of it in one file."""
    path = tmp_path_factory.mktemp("sound") / "trust.db"
    full_store(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    return path


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder in memory: hundreds of small files."""
    with tempfile.TemporaryDirectory(dir=FOLDERS) as name:
        yield Path(name)


def proven(rows: Rows) -> Rows:
    """All that the proofs speak of, the remarks on dead letters left out."""
    letters = [row[:2] + row[REMARKS.stop :] for row in rows["dead_letters"]]
    return {**rows, "dead_letters": letters}


def changed_byte(sound: Path, folder: Path, seed: int) -> Path:
    """A copy of the store with one byte changed."""
    chance = random.Random(seed)
    content = bytearray(sound.read_bytes())
    # Most of a small file is unused; half of the positions are where something is.
    positions = range(len(content))
    used = [at for at in positions if content[at]] if seed % 2 else positions
    content[chance.choice(used)] ^= chance.randrange(1, 256)
    path = folder / f"{seed}.db"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("seed", range(0, POSITIONS, 20))
def test_a_changed_byte_is_noticed_or_changes_nothing(sound: Path, folder: Path, seed: int) -> None:
    """Wherever the disk erred: an error of ours, a finding, or every row is as it was."""
    for one in range(seed, seed + 20):
        path = changed_byte(sound, folder, one)
        if not is_noticed(path, "read" if one % 3 else "write"):
            assert content_digests(path) == content_digests(sound)
            assert proven(contents(path)) == proven(contents(sound))


@pytest.mark.parametrize("seed", range(5))
def test_a_changed_byte_that_is_noticed_is_not_made_worse(
    sound: Path, folder: Path, seed: int
) -> None:
    """Repairing what SQLite can still read ends in an error of ours or leaves facts and ledger."""
    for one in range(1_000 + seed * 10, 1_010 + seed * 10):
        path = changed_byte(sound, folder, one)
        before = folder / "before.db"
        shutil.copy(path, before)
        try:
            with open_store(path) as store:
                store.repair()
                is_sound = store.verify().ok
        except TrustfoldError:
            continue
        if is_sound:
            assert proven(contents(path))["facts"] == contents(sound)["facts"]
            assert content_digests(path) == content_digests(sound)
        else:
            assert is_noticed(before, "read")
