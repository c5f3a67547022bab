"""An archive knows what was known: the integers of every subject, as of any settled moment."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.benchmarks import ledgers
from tests.embedded.feeding import FOLDERS, feed, foreseen, store_in_a_folder
from tests.embedded.rollbacks import rolled_back_histories
from tests.oracles.histories import RECORDED_FROM, Draft, recorded_at
from trustfold_projections.analysis.as_of import states_as_of, sums_as_of
from trustfold_projections.analysis.exact import freshness, scores_of
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.reading import read_rows, read_segment
from trustfold_projections.archive.rows import EntryRow
from trustfold_projections.archive.writer import Limits
from trustfold_projections.laws.fold import refold_as_of
from trustfold_projections.laws.scoring import freshness_of, raw_score_of, values_of
from trustfold_schemas.errors import NotSettledError
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State, content_digest
from trustfold_streams.archiver.from_embedded import embedded_log
from trustfold_streams.archiver.run import open_archiver
from trustfold_streams.archiver.store import ArchiveStore, verify_archive
from trustfold_streams.clock import ManualClock

few = settings(
    max_examples=max(5, settings().max_examples // 10),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
"""Every example writes a store and an archive of several segments: too slow to shrink."""
SMALL = Limits(rows=4, merge=3)
BATCH = 3


def archived(path: Path, folder: Path) -> Archive:
    """The archive of a store after one more pass."""
    with open_archiver(folder, limits=SMALL) as archiver:
        archiver.run(lambda _: embedded_log(path))
    return Archive.open(folder)


def prefix(ledger: Sequence[Entry], moment: int) -> list[State]:
    """Every subject's state by folding the prefix of the ledger in Python."""
    subjects = {entry.subject for entry in ledger if entry.recorded <= moment}
    return [
        refold_as_of(subject, [e for e in ledger if e.subject == subject], moment)
        for subject in sorted(subjects)
    ]


@few
@given(rolled_back_histories(), st.data())
def test_three_readings_agree_and_nothing_later_changes_them(
    history: list[Draft], data: st.DataObject
) -> None:
    """DuckDB, the embedded store and prefixes in Python; before and after more was recorded."""
    run, facts = foreseen(history, BATCH)
    # Half of the history is archived, then all of it: segments astride, merges, late feedback.
    half = (len(history) // 2) // BATCH * BATCH
    clock = ManualClock(RECORDED_FROM)
    with (
        store_in_a_folder(clock) as store,
        tempfile.TemporaryDirectory(dir=FOLDERS) as name,
        in_memory() as connection,
    ):
        feed(store, clock, history[:half], BATCH)
        archive = archived(store.path, Path(name))
        moments = sorted({fact.recorded for fact in facts} | {RECORDED_FROM - 1})
        settled = [moment for moment in moments if moment <= archive.settled]
        some = data.draw(st.lists(st.sampled_from(settled), max_size=2)) if settled else []
        before = {moment: states_as_of(connection, archive, moment) for moment in some}
        for position in range(half, len(history), BATCH):
            feed(store, clock, history[position : position + BATCH], BATCH, recorded_at(position))
        clock.moment = recorded_at(len(history))
        archive = archived(store.path, Path(name))
        settled = [moment for moment in moments if moment <= archive.settled]
        some += data.draw(st.lists(st.sampled_from(settled), max_size=3)) if settled else []
        for moment in some:
            found = states_as_of(connection, archive, moment)
            assert found == before.get(moment, found)
            assert found == store.states_as_of(moment) == prefix(run.ledger, moment)
            assert len({content_digest(state) for state in found}) == len(found)
            _assert_same_bits(archive, found, moment)
        report = verify_archive(Path(name))
        assert report.ok, report.findings
        assert report.entries == len(run.ledger)


def _assert_same_bits(archive: Archive, states: list[State], moment: int) -> None:
    with in_memory() as connection:
        made = scores_of(sums_as_of(connection, archive, moment)[0])
    expected = {state.subject.key.decode(): state for state in states}
    assert sorted(made.subjects) == sorted(expected)
    fresh = freshness(made.last_updated, moment)
    for at, key in enumerate(made.subjects):
        state = expected[key]
        assert tuple(float(column[at]) for column in made.values) == values_of(state)
        assert made.raw_score[at] == raw_score_of(values_of(state))
        assert fresh[at] == freshness_of(state.last_updated, moment)


def test_hot_subjects_have_the_same_sums_from_rollups_and_entries(tmp_path: Path) -> None:
    """What passes 64 bits within one segment is exact, in Python's integers and in the scores."""
    ledgers.make(tmp_path, 3_000, 2)
    archive = Archive.open(tmp_path)
    entries: dict[str, list[Entry]] = {}
    for line in archive.manifest.segments("ledger"):
        for row in read_rows("ledger", read_segment(tmp_path, line)):
            assert isinstance(row, EntryRow)
            entries.setdefault(row.entry.subject.key.decode(), []).append(row.entry)
    with in_memory() as connection:
        found = states_as_of(connection, archive, archive.settled)
        tables = [
            sums_as_of(connection, archive, archive.settled, by_entry=by_entry)[0]
            for by_entry in (False, True)
        ]
    assert tables[0].num_rows > tables[1].num_rows  # there are rows of what passed 64 bits
    assert found == [
        refold_as_of(s.subject, entries[s.subject.key.decode()], archive.settled) for s in found
    ]
    for made in map(scores_of, tables):
        assert made.subjects == [state.subject.key.decode() for state in found]
        assert made.raw_score.tolist() == [raw_score_of(values_of(state)) for state in found]


def test_a_moment_that_has_not_settled_is_refused(tmp_path: Path) -> None:
    """Never a wrong number: later facts could still change what was known then."""
    with store_in_a_folder() as store:
        archive = archived(store.path, tmp_path)
    with ArchiveStore.open(tmp_path) as held, pytest.raises(NotSettledError, match="has settled"):
        held.states_as_of(archive.settled + 1)
    assert not json.loads((tmp_path / "manifest.jsonl").read_bytes() or b"[]")
