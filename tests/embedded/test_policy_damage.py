"""One changed value in any column of any decision is named by verify, and by no answer believed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.embedded.asking import Office
from tests.embedded.damage import Column, changed, columns_of
from tests.oracles.histories import RECORDED_FROM
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore


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
    path = tmp_path / "trust.db"
    path.write_bytes(sound.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER decisions_are_kept")
        connection.execute("DELETE FROM decisions WHERE position = 2")
        connection.commit()
    assert [proof for proof, _ in findings(path)] == ["decisions"]
