"""An archiver that is killed at any step, twice in a row, leaves what another finishes unharmed."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.archive.logs import DyingDisk, Killed, held, log_of, orphans
from tests.embedded.feeding import FOLDERS
from trustfold_projections.archive import manifest as manifests
from trustfold_projections.archive import rollup, segment
from trustfold_projections.archive.files import Disk, Files
from trustfold_projections.archive.writer import ArchiveWriter, Limits

LIMITS = Limits(rows=2, merge=2)
"""Small enough that a few rows make several segments, which are merged."""
FIRST, WHOLE = 2, 4
STEPS_MAX = 500


@pytest.fixture(autouse=True, scope="module")
def rollups_made_once() -> Generator[None]:
    """The same few segments are written hundreds of times; their rollups are computed once."""
    made: dict[tuple[int, ...], pa.Table] = {}

    def rollup_of(table: pa.Table) -> pa.Table:
        offsets = tuple(table.column("offset").to_pylist())
        if offsets not in made:
            made[offsets] = rollup.rollup_of(table)
        return made[offsets]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "rollup_of", rollup_of)
        yield


def run(folder: Path, files: Files) -> None:
    """Two passes over a growing log, and the removal of what merges have taken over."""
    for count in (FIRST, WHOLE):
        writer = ArchiveWriter(folder, files, LIMITS)
        if writer.manifest.settled < log_of(count).settled:
            writer.archive(log_of(count))
        writer.remove_retired()


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The steps of an undisturbed run."""
    counting = DyingDisk(STEPS_MAX, halfway=False)
    run(tmp_path_factory.mktemp("undisturbed") / "archive", counting)
    return counting.done


def test_a_run_has_every_kind_of_step(steps: list[str]) -> None:
    """The steps that are killed at below are writes, fsyncs, renames, lines and unlinks."""
    assert {step.split()[0] for step in steps} == {"write", "sync", "rename", "append", "remove"}


@pytest.mark.parametrize("part", range(4))
def test_killed_at_every_step_twice_in_a_row(steps: list[str], part: int) -> None:
    """No gap, no overlap, no orphan, no differing row, wherever two archivers died."""
    expected = {topic: list(log_of(WHOLE).rows(place, 0, 999)) for place, topic in _PLACES}
    for number in range(part, len(steps), 4):
        step = steps[number]
        for halfway in (False, True) if step.startswith(("write", "append")) else (False,):
            with tempfile.TemporaryDirectory(dir=FOLDERS) as name:
                folder = Path(name)
                with pytest.raises(Killed):
                    run(folder, DyingDisk(number, halfway=halfway))
                # The second finds less to do, and dies somewhere in what is left.
                second = DyingDisk((number * 7) % 11, halfway=not halfway)
                with contextlib.suppress(Killed):
                    run(folder, second)
                run(folder, Disk())
                assert held(folder) == expected, step
                assert not list(orphans(folder)), step
                manifest = manifests.load(folder)
                assert (manifest.settled, manifest.torn) == (log_of(WHOLE).settled, 0), step


_PLACES = [(place, place.topic) for place in log_of(1).ends()]
