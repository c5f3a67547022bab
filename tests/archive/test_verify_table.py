"""A pipeline's table against an archive of its log: every way in which they can differ is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analysis import scene
from trustfold_projections.analysis.verify import Report
from trustfold_projections.archive.opening import Archive
from trustfold_schemas.scores import Corrupt, State
from trustfold_streams.archiver.verify_kafka import compare_table
from trustfold_streams.embedded import EmbeddedStore

Table = list[State | Corrupt]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store, whose table stands for a pipeline's, and its archive."""
    made = tmp_path_factory.mktemp("table")
    scene.make(made / "trust.db", made / "archive")
    return made


def differences(folder: Path, change: Callable[[Table], None], before: int) -> str:
    """What is found when the table was changed so."""
    with EmbeddedStore.open(folder / "trust.db", "read") as store:
        table = store.states()
    change(table)
    report = Report()
    compare_table(table, Archive.open(folder / "archive"), report, before)
    return "\n".join(finding.difference for finding in report.findings)


def _state(table: Table, at: int = 0) -> State:
    state = table[at]
    assert isinstance(state, State)
    return state


def _more(table: Table) -> None:
    _state(table).num[0] += 1


def _ahead(table: Table) -> None:
    _state(table).version += 1_000


def _behind(table: Table) -> None:
    del table[0]


def _corrupt(table: Table) -> None:
    table[0] = Corrupt(_state(table).subject, "the digest does not match")


def _made_up(table: Table) -> None:
    table.append(State(subject=_state(table).subject._replace(scope="nowhere")))


def _forgotten(table: Table) -> None:
    for state in table:
        assert isinstance(state, State)
        state.rollbacks = ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_more, "entries fold to"),
        (_ahead, "the ledger has"),
        (_behind, "entries that were recorded long before"),
        (_corrupt, "the digest does not match"),
        (_made_up, "the ledger has no entry of it"),
        (_forgotten, "rollbacks are ()"),
    ],
)
def test_a_difference_is_named(
    folder: Path, change: Callable[[Table], None], expected: str
) -> None:
    """Each by itself."""
    assert expected in differences(folder, change, 2**62)


def test_a_sound_table_and_one_that_is_a_little_behind(folder: Path) -> None:
    """What was recorded since the table was read need not be in it."""
    assert not differences(folder, lambda _: None, 2**62)
    assert not differences(folder, _behind, 0)
