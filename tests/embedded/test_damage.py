"""A disk that is full, a file that may not be written, and one that another holds."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path

import pytest

from tests.embedded.damage import contents, full_store, open_store
from tests.embedded.documents import (
    DAY,
    NOTES,
    closed,
    decided,
    median,
    numbered,
    recorded_step,
    step,
    undone,
)
from tests.embedded.feeding import digests, query
from tests.oracles.histories import RECORDED_FROM
from trustfold_schemas.errors import NotPermittedError
from trustfold_schemas.facts import Stamp
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore, Receipt
from trustfold_streams.embedded.errors import (
    StoreBusyError,
    StoreFullError,
    StoreReadOnlyError,
)

BATCH = 20
SOON = 0.2
"""Seconds that a writer waits here for a lock that nobody gives back."""

OVERDUE = ManualClock(RECORDED_FROM + 2 * DAY)
"""A clock by which a trace waits to be closed, so that every writing call has something to do."""

Writing = Callable[[EmbeddedStore], object]

WRITING = pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda store: store.ingest(numbered([closed("new")])), id="ingest"),
        pytest.param(lambda store: store.ingest([]), id="ingest of nothing"),
        pytest.param(lambda store: store.sweep(), id="sweep"),
        pytest.param(lambda store: store.repair(), id="repair"),
        pytest.param(
            lambda store: store.rollback(NOTES, RECORDED_FROM, "ann", "why"), id="rollback"
        ),
        pytest.param(lambda store: store.lift("r1", "ann", "why"), id="lift"),
        pytest.param(lambda store: store.exclude("t1", "ann", "why"), id="exclude"),
        pytest.param(lambda store: store.replay(store.dead_letters()[0]), id="replay"),
    ],
)
"""Every call that writes."""


def log() -> list[bytes]:
    """Some hundred events, all of which are facts, with a dead letter among them."""
    made = [median(), b"no event"]
    for number in range(80):
        name, subject = f"t{number}", Subject("", f"tool{number % 7}", "invoke")
        made += [
            recorded_step(name, step("a", subject)),
            closed(name, step("a", subject), step("b"), cost_usd=0.01),
            decided(name, step_ids=["a"]),
        ]
        if number % 5 == 0:
            made.append(undone(name))
    return made


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[Subject, str]:
    """What the log comes to when nothing is in the way."""
    with EmbeddedStore.open(tmp_path_factory.mktemp("undisturbed") / "trust.db") as store:
        store.ingest(numbered(log()))
        return digests(store.states())


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


def limit_pages(store: EmbeddedStore, more: int) -> None:
    """Let the file grow by so many pages and no further, as a disk does that is filling up."""
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count={pages + more}")


# ---- a full disk -------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 1, 7, 20, 33])
def test_a_full_disk_keeps_what_was_committed_and_nothing_of_the_batch(
    path: Path, store: EmbeddedStore, room: int
) -> None:
    """The ingest ends by name; whole batches are kept, as many as were told of, and verify."""
    told: list[Receipt] = []
    limit_pages(store, room)
    with pytest.raises(StoreFullError, match=str(path)):
        store.ingest(numbered(log()), batch=BATCH, committed=told.extend)
    accepted = sum(receipt.counted == "accepted" for receipt in told)
    assert len(told) % BATCH == 0
    bodies = [body.encode() for (body,) in query(path, "SELECT body FROM facts ORDER BY recorded")]
    kept = [body for body in log()[: len(told)] if body != b"no event"]
    assert (len(bodies), bodies) == (accepted, kept)
    assert store.verify().findings == []


@pytest.mark.parametrize("room", [0, 7, 33])
def test_the_ingest_completes_once_there_is_room(
    store: EmbeddedStore, undisturbed: dict[Subject, str], room: int
) -> None:
    """The same file again, in the same process or another, comes to the undisturbed digests."""
    limit_pages(store, room)
    with pytest.raises(StoreFullError):
        store.ingest(numbered(log()), batch=BATCH)
    kept = store.status().facts
    limit_pages(store, 1_000_000)
    summary = store.ingest(numbered(log()), batch=BATCH)
    assert (summary.duplicates, summary.accepted) == (kept, len(log()) - 1 - kept)
    assert digests(store.states()) == undisturbed
    assert store.verify().findings == []


def test_a_full_disk_is_no_hindrance_to_reading(path: Path, store: EmbeddedStore) -> None:
    """After a write that failed, the same store answers as before it."""
    store.ingest(numbered(log()[:BATCH]))
    before = store.states()
    limit_pages(store, 0)
    with pytest.raises(StoreFullError):
        store.ingest(numbered(log()))
    assert store.states() == before
    assert store.verify().findings == []


# ---- a file that may not be written ------------------------------------------------------------


@WRITING
def test_a_store_opened_for_reading_writes_nothing(copy: Path, write: Writing) -> None:
    """Every call that would write is refused by name, and the file stays as it was."""
    before = copy.read_bytes()
    with open_store(copy, "read") as store, pytest.raises(StoreReadOnlyError, match=str(copy)):
        write(store)
    assert copy.read_bytes() == before


@WRITING
def test_a_reader_writes_nothing(copy: Path, write: Writing) -> None:
    """The role `reader` may not write, however the file was opened."""
    before = contents(copy)
    with (
        EmbeddedStore.open(copy, stamp=Stamp("reader")) as store,
        pytest.raises(NotPermittedError, match="reader"),
    ):
        write(store)
    assert contents(copy) == before


@WRITING
def test_a_connection_that_may_only_query(copy: Path, write: Writing) -> None:
    """SQLite's own refusal to write comes in our words, from every call that writes."""
    before = contents(copy)
    with EmbeddedStore.open(copy, clock=OVERDUE) as store:
        store._connection.execute("PRAGMA query_only=ON")
        with pytest.raises(StoreReadOnlyError, match=str(copy)):
            write(store)
        assert store.verify().findings == []
    assert contents(copy) == before


def test_a_file_of_which_sqlite_may_only_read(copy: Path) -> None:
    """A file that a later SQLite forbids this one to write is read, and not written."""
    content = bytearray(copy.read_bytes())
    content[18] = 3  # the version of the format that a writer must know
    copy.write_bytes(content)
    with open_store(copy, "read") as store:
        assert store.verify().findings == []
    with pytest.raises(StoreReadOnlyError, match=str(copy)), open_store(copy) as store:
        store.ingest(numbered([closed("new")]))
    assert copy.read_bytes() == bytes(content)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write whatever chmod says")
def test_a_file_without_the_permission_to_write(copy: Path) -> None:
    """What chmod forbids is refused by name."""
    copy.chmod(0o400)
    with pytest.raises(StoreReadOnlyError, match=str(copy)), open_store(copy) as store:
        store.ingest(numbered([closed("new")]))


# ---- a file that another holds -----------------------------------------------------------------


@pytest.fixture
def held(copy: Path) -> Generator[EmbeddedStore]:
    """A store that is open while another program writes and does not finish."""
    with (
        EmbeddedStore.open(copy, clock=OVERDUE, busy_seconds=SOON) as store,
        closing(sqlite3.connect(copy, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        yield store


@WRITING
def test_every_writer_waits_a_bounded_time(held: EmbeddedStore, write: Writing) -> None:
    """Whatever it was to write, it gives up by name, nothing of it is kept, and reading goes on."""
    before = contents(held.path)
    with pytest.raises(StoreBusyError, match=f"{held.path} .* try again"):
        write(held)
    assert contents(held.path) == before
    assert held.verify().findings == []


def test_a_file_that_another_is_making_into_a_store(path: Path) -> None:
    """Two that make the same file wait for each other, for a bounded time."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreBusyError, match=str(path)):
            EmbeddedStore.open(path, busy_seconds=SOON)
        other.execute("ROLLBACK")
    with EmbeddedStore.open(path) as store:
        assert store.verify().findings == []
