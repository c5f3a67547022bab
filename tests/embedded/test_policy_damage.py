"""One changed value in any column of any decision is named by verify, and by no answer believed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.embedded.asking import Office
from tests.embedded.damage import Column, changed, columns_of
from tests.oracles.histories import RECORDED_FROM
from trustfold_schemas.errors import UnknownNameError
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.errors import StoreDamagedError


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three decisions, the second a spot check and the third owed to it."""
    path = tmp_path_factory.mktemp("sound") / "trust.db"
    clock = ManualClock(RECORDED_FROM)
    with EmbeddedStore.open(path, clock=clock) as store:
        office = Office(store, clock)
        office.rules()
        office.ask("s0")
        office.earned()
        office.say("policy.mode", mode="enforce", spot_check_one_in=1)
        office.ask("s1")
        assert office.ask("s2").owed_to is not None
        assert store.verify().decisions == 3
        assert store.verify().ok
    return path


def findings(path: Path) -> list[tuple[str, str]]:
    """What verify finds, by proof and place."""
    with EmbeddedStore.open(path, "read") as store:
        return [(one.proof, one.where) for one in store.verify().findings]


@pytest.mark.parametrize("column", columns_of("decisions"), ids=str)
@pytest.mark.parametrize("position", [1, 2, 3])
def test_a_changed_cell_of_a_decision_is_named(
    sound: Path, tmp_path: Path, column: Column, position: int
) -> None:
    """The next number, another character, another byte, a value for NULL."""
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (trigger,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'decisions_stay'"
        ).fetchone()
        connection.execute("DROP TRIGGER decisions_stay")
        (old,) = connection.execute(
            f"SELECT {column.name} FROM decisions WHERE position = ?", (position,)
        ).fetchone()
        new = 99 if column.name == "position" else changed(column, old)
        connection.execute(
            f"UPDATE decisions SET {column.name} = ? WHERE position = ?", (new, position)
        )
        connection.execute(trigger)
        connection.commit()
    found = findings(path)
    assert found
    assert {proof for proof, _ in found} <= {"decisions", "file"}
    assert "decisions" in {proof for proof, _ in found}


def test_a_decision_that_was_cut_out_is_named(sound: Path, tmp_path: Path) -> None:
    """The one after it stands where it should not, behind a chain that is not its own."""
    path = cut(sound, tmp_path / "trust.db", "DELETE FROM decisions WHERE position = 2")
    assert [proof for proof, _ in findings(path)] == ["decisions"]


def cut(sound: Path, path: Path, *statements: str) -> Path:
    """A copy with changes made behind the store's back, the triggers as they were."""
    path.write_bytes(sound.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (trigger,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE name = 'decisions_are_kept'"
        ).fetchone()
        connection.execute("DROP TRIGGER decisions_are_kept")
        for statement in statements:
            assert connection.execute(statement).rowcount > 0
        connection.execute(trigger)
        connection.commit()
    return path


@pytest.mark.parametrize("first", [1, 2, 3])
def test_decisions_that_were_cut_off_are_named(sound: Path, tmp_path: Path, first: int) -> None:
    """The log does not end where it did; `why` of one that is gone says so too."""
    path = cut(sound, tmp_path / "trust.db", f"DELETE FROM decisions WHERE position >= {first}")
    assert findings(path) == [("decisions", "the end of the log")]
    for where, error in ((path, StoreDamagedError), (sound, UnknownNameError)):
        with EmbeddedStore.open(where, "read") as store, pytest.raises(error, match="gone"):
            store.policy.why("gone")


def test_whoever_cuts_what_is_noted_too_is_found_by_the_anchor(sound: Path, tmp_path: Path) -> None:
    """A file rebuilt without its last decision is sound in itself; it lacks the head kept away."""
    with EmbeddedStore.open(sound, "read") as store:
        head = store.verify().decisions_head
        assert (store.verify(head).ok, store.verify(head).anchored) == (True, True)
    path = cut(
        sound,
        tmp_path / "trust.db",
        "DELETE FROM decisions WHERE position = 3",
        "UPDATE meta SET value = (SELECT chain FROM decisions WHERE position = 2) "
        "WHERE name = 'decisions'",
    )
    assert findings(path) == []
    with EmbeddedStore.open(path, "read") as store:
        (finding,) = store.verify(head).findings
    assert "cut off" in finding.difference


def test_what_is_noted_is_proven_like_the_rest(sound: Path, tmp_path: Path) -> None:
    """Another head, no head, or none that could be one: each is named."""
    for statement in (
        "UPDATE meta SET value = zeroblob(32) WHERE name = 'decisions'",
        "UPDATE meta SET value = 7 WHERE name = 'decisions'",
        "DELETE FROM meta WHERE name = 'decisions'",
    ):
        path = cut(sound, tmp_path / "trust.db", statement)
        assert findings(path) == [("decisions", "the end of the log")]
