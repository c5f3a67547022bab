"""The leaderboard of an archive is that of its states: as of any moment, ties and all."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tests.analysis.test_views import rows
from tests.benchmarks import ledgers
from trustfold_projections.analysis.as_of import states_as_of
from trustfold_projections.analysis.leaderboard import leaderboard_as_of
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.opening import Archive
from trustfold_projections.laws.leaderboard import leaderboard_of
from trustfold_schemas.instants import DAY


def _must_equal(archive: Archive, moment: int) -> None:
    with in_memory() as connection:
        states = states_as_of(connection, archive, moment)
        for now in (moment, moment + 45 * DAY):
            for top in (1, 2, 3, 5, 1_000):
                found = leaderboard_as_of(connection, archive, top, moment, now)
                assert found == leaderboard_of(states, top, now)


def test_it_is_that_of_the_states_as_of_every_moment(
    asked: duckdb.DuckDBPyConnection, scene_archive: Path
) -> None:
    """Rollbacks, self-play, subjects without samples, outcomes of traces; and nothing at all."""
    archive = Archive.open(scene_archive)
    moments = [row["recorded_us"] for row in rows(asked, "FROM facts")]
    for moment in (moments[0] - DAY, *moments[::4], archive.settled):
        _must_equal(archive, moment)


def test_many_subjects_and_segments(tmp_path: Path) -> None:
    """Hundreds of subjects, of which only those that are shown become states."""
    ledgers.make(tmp_path, 3_000, 400)
    archive = Archive.open(tmp_path)
    for moment in (ledgers.START + ledgers.SPAN // 3, archive.settled):
        _must_equal(archive, moment)
