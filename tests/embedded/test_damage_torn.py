"""A file that was torn: cut off, begun with garbage, or left with another's write-ahead log.

What is no store to begin with, or a newer one, is in test_file.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.embedded.damage import content_digests, contents, full_store, is_noticed, open_store
from tests.embedded.documents import closed, numbered
from tests.embedded.feeding import digests, query
from tests.oracles.histories import RECORDED_FROM
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.database import Mode
from trustfold_streams.embedded.errors import (
    NewerStoreError,
    StoreError,
)

PAGE = 4_096
MODES: tuple[Mode, ...] = ("write", "read")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that verifies, all of it in one file."""
    path = tmp_path_factory.mktemp("sound") / "trust.db"
    full_store(path)
    return path


@pytest.fixture
def copy(sound: Path, path: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copy(sound, path)
    return path


# ---- the file ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "left", [100, 512, PAGE - 1, PAGE, 2 * PAGE, 5 * PAGE + 1_000, -PAGE, -1_000, -1]
)
def test_a_file_that_was_cut_off_is_noticed(copy: Path, left: int, mode: Mode) -> None:
    """In the middle of a page or between two, near the front or the end: never a sound report."""
    content = copy.read_bytes()[:left]
    copy.write_bytes(content)
    assert is_noticed(copy, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("left", [2, 15, 99])
def test_a_file_of_which_not_even_the_header_is_left(copy: Path, left: int, mode: Mode) -> None:
    """It is not recognised as a store any more, and stays as it is."""
    copy.write_bytes(copy.read_bytes()[:left])
    before = copy.read_bytes()
    with pytest.raises(StoreError, match=str(copy)):
        open_store(copy, mode)
    assert copy.read_bytes() == before


def test_an_empty_file_is_a_store_still_to_be_made(path: Path) -> None:
    """Nothing tells a store cut to nothing from one just begun; to read there is none."""
    path.write_bytes(b"")
    with pytest.raises(NewerStoreError, match="layout 0"):
        open_store(path, "read")
    with open_store(path) as store:
        assert store.status().facts == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("length", [1, 16, 100, PAGE])
def test_garbage_at_the_front_is_refused_and_stays(copy: Path, length: int, mode: Mode) -> None:
    """Whatever stands where the header was: an error that names the file, which is not written."""
    content = random.Random(length).randbytes(length) + copy.read_bytes()[length:]
    copy.write_bytes(content)
    assert is_noticed(copy, mode)
    assert copy.read_bytes() == content


# ---- what was left of a write-ahead log --------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("content", [b"", b"\x00" * 32, b"garbage" * 1_000, b"\xff" * 40_000])
def test_a_worthless_write_ahead_log_changes_nothing(
    sound: Path, copy: Path, content: bytes, mode: Mode
) -> None:
    """Empty or garbage leftovers beside a whole file are passed over."""
    for name in ("-wal", "-shm"):
        copy.with_name(copy.name + name).write_bytes(content)
    with open_store(copy, mode) as store:
        assert store.verify().findings == []
    assert contents(copy) == contents(sound)


def test_another_stores_write_ahead_log_is_noticed(copy: Path, tmp_path: Path) -> None:
    """Pages of another file, put over those of this one, do not pass for what was there."""
    other, wal = tmp_path / "other.db", copy.with_name(copy.name + "-wal")
    with EmbeddedStore.open(other) as store:
        store.ingest(numbered(closed(f"o{number}") for number in range(50)))
    with EmbeddedStore.open(other) as store:
        store.ingest(numbered([closed("o50")]))
        shutil.copy(other.with_name(other.name + "-wal"), wal)
    assert is_noticed(copy, "read")


@pytest.mark.parametrize("seed", range(12))
def test_a_torn_write_ahead_log_leaves_whole_batches(path: Path, tmp_path: Path, seed: int) -> None:
    """Wherever the last write broke off, the commits before it are there, and it can be resumed."""
    events = [closed(f"t{number}") for number in range(60)]
    with EmbeddedStore.open(path, clock=ManualClock(RECORDED_FROM)) as store:
        store.ingest(numbered(events), batch=5)
        undisturbed = digests(store.states())
        torn = tmp_path / "torn.db"
        wal = torn.with_name(torn.name + "-wal")
        shutil.copy(path, torn)
        shutil.copy(path.with_name(path.name + "-wal"), wal)
    log = wal.read_bytes()
    wal.write_bytes(log[: random.Random(seed).randrange(len(log))])
    with open_store(torn) as store:
        bodies = query(torn, "SELECT body FROM facts ORDER BY recorded")
        kept = [body.encode() for (body,) in bodies]
        assert len(kept) % 5 == 0
        assert kept == events[: len(kept)]
        assert store.verify().findings == []
        assert store.ingest(numbered(events)).accepted == len(events) - len(kept)
        assert digests(store.states()) == undisturbed
    assert content_digests(torn) == undisturbed
