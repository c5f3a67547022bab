"""`elapsed/1` beside the table: the law's bits, from a file and its archive, as of any moment."""

from __future__ import annotations

import re
import shlex
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.analysis.backtest_logs import START, Story
from tests.cli.commands import Shell
from tests.embedded.feeding import FOLDERS, feed, foreseen, store_in_a_folder
from tests.embedded.rollbacks import rolled_back_histories
from tests.oracles.histories import RECORDED_FROM, Draft, recorded_at
from trustfold_projections.analysis import whatif_elapsed
from trustfold_projections.analysis.backtest.history import read_history
from trustfold_projections.analysis.whatif_elapsed import beside_over_time
from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.rows import EntryRow, entry_of
from trustfold_projections.archive.writer import Limits
from trustfold_projections.laws.elapsed import elapsed_digest, elapsed_score, elapsed_state
from trustfold_projections.laws.fold import refold_as_of
from trustfold_projections.laws.scoring import score_of
from trustfold_schemas.errors import NotSettledError
from trustfold_schemas.instants import DAY, format_instant, parse_instant
from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject
from trustfold_streams.archiver.from_embedded import embedded_log
from trustfold_streams.archiver.run import open_archiver
from trustfold_streams.cli.entry_sources import open_entries
from trustfold_streams.cli.options import Settings
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore

NOTES = Subject("", "fs_write", "fs_write:~/notes/*")
ELAPSED = ("--formula", "elapsed/1")

few = settings(
    max_examples=max(5, settings().max_examples // 10),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
"""Every example writes a store and an archive of several segments: too slow to shrink."""


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """An empty folder to work in."""
    return Shell(tmp_path, capsys, monkeypatch)


@few
@given(rolled_back_histories(), st.data())
def test_both_stores_give_the_entries_that_the_law_reads(
    history: list[Draft], data: st.DataObject
) -> None:
    """Of all subjects and of one, as of any moment: the digest over the ledger's own entries."""
    run, facts = foreseen(history, 3)
    clock = ManualClock(RECORDED_FROM)
    with (
        store_in_a_folder(clock) as store,
        tempfile.TemporaryDirectory(dir=FOLDERS) as folder,
    ):
        for position in range(0, len(history), 3):
            feed(store, clock, history[position : position + 3], 3, recorded_at(position))
            # Small segments, and some merged: subjects are astride many files.
            with open_archiver(Path(folder), limits=Limits(rows=4, merge=3)) as archiver:
                archiver.run(lambda _: embedded_log(store.path))
        moments = sorted({RECORDED_FROM - 1} | {fact.recorded for fact in facts})
        for name in (str(store.path), f"archive:{folder}"):
            with open_entries(Settings(name)) as source:
                settled = [one for one in moments if one <= source.settled]
                moment = data.draw(st.sampled_from(settled)) if settled else source.settled
                known = [entry for entry in run.ledger if entry.recorded <= moment]
                wanted = {entry.subject: digest(entry.subject, known) for entry in known}
                found = list(source.by_subject(moment))
                assert len(found) == len(wanted)
                assert {one: digest(one, entries) for one, entries in found} == wanted
                for one, entries in found:
                    assert list(source.by_subject(moment, one)) == [(one, entries)]
                with pytest.raises(NotSettledError):
                    list(source.by_subject(source.settled + 1))


def digest(subject: Subject, entries: list[Entry]) -> str:
    """The digest of a subject's state under elapsed/1."""
    return elapsed_digest(elapsed_state(subject, [e for e in entries if e.subject == subject]))


def test_the_command_is_the_law_beside_the_table(
    shell: Shell, scene_store: Path, scene_archive: Path
) -> None:
    """Every subject of a file and of its archive, rollbacks among them, to the bit."""
    at = ("--at", "2026-08-01", "--json")
    of_file = shell("whatif", *ELAPSED, *at, "--store", str(scene_store))
    of_archive = shell("whatif", *ELAPSED, *at, "--store", f"archive:{scene_archive}")
    assert (of_file.code, of_file.out) == (0, of_archive.out)
    table = {
        tuple(row["subject"]): row for row in shell("scores", *at, "--store", str(scene_store)).json
    }
    moment = parse_instant("2026-08-01T00:00:00Z")
    assert [tuple(row["subject"]) for row in of_file.json] == sorted(table)
    with EmbeddedStore.open(scene_store, "read") as store:
        for row in of_file.json:
            subject = Subject(*row["subject"])
            state = elapsed_state(subject, store.entries(subject))
            assert row["digest"] == elapsed_digest(state)
            assert row["score"] == elapsed_score(state, moment)
            for name in ("raw_score", "score", "n_samples"):
                assert row["table"][name] == table[subject][name]
    (one,) = [row for row in of_file.json if row["subject"] == list(NOTES)]
    asked = shell("whatif", NOTES.tool, NOTES.effect, *ELAPSED, *at, "--store", str(scene_store))
    assert asked.json == [one]
    assert any(row["score"] != row["table"]["score"] for row in of_file.json)


def test_as_of_a_moment(shell: Shell, scene_store: Path, scene_archive: Path) -> None:
    """Nothing recorded later counts; a moment that has not settled is wrong use."""
    stores = (str(scene_store), f"archive:{scene_archive}")
    for name in stores:
        early, late = (
            shell(
                "whatif",
                *NOTES[1:],
                *ELAPSED,
                "--json",
                "--as-of",
                format_instant(moment),
                "--store",
                name,
            ).json[0]
            for moment in (RECORDED_FROM + 5, RECORDED_FROM + 2 * DAY)
        )
        assert 0 < early["n_samples"] < late["n_samples"]
        ended = shell("whatif", *ELAPSED, "--as-of", "2100-01-01", "--store", name)
        assert (ended.code, "has settled up to" in ended.err) == (2, True)


def test_one_subject_is_in_memory_at_a_time(
    scene_archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a subject is given, no entry of a later one has been made."""
    made: list[Subject] = []

    def counted(row: dict[str, Any]) -> EntryRow:
        one = entry_of(row)
        made.append(one.entry.subject)
        return one

    monkeypatch.setattr(whatif_elapsed, "entry_of", counted)
    archive = Archive.open(scene_archive)
    given: list[Subject] = []
    for subject, entries in whatif_elapsed.archived_by_subject(archive, archive.settled):
        given += [subject] * len(entries)
        assert made == given


def test_tables_for_people(shell: Shell, scene_store: Path) -> None:
    """The greater score first, so many rows as asked for; nothing known is exit 1."""
    store = ("--store", str(scene_store))
    shown = shell("whatif", *ELAPSED, "--top", "1", *store)
    assert ("elapsed/1" in shown.out, "more (--top N)" in shown.out) == (True, True)
    over = shell("whatif", *NOTES[1:], *ELAPSED, "--over-time", "--every", "9", *store)
    assert (over.code, "as of" in over.out) == (0, True)
    for words in ((), ("--over-time",)):
        assert shell("whatif", "no", "such", *ELAPSED, *words, *store).code == 1
    with EmbeddedStore.open(shell.store):
        pass
    assert "no subject yet" in shell("whatif", *ELAPSED).out


def test_over_time_is_the_law_over_what_was_known() -> None:
    """Each moment of a history with a late rollback, as the laws give it from the prefix."""
    story = Story()
    end = story.clean_days(6)
    back = format_instant(START + 2 * DAY)
    story.tell(
        "subject.rolled_back", end, subject=list(NOTES), to=back, by="ann", why="a bad release"
    )
    entries = read_history(story.log)[NOTES].entries
    moments = [START + half * DAY // 2 for half in range(15)]
    made = list(beside_over_time(NOTES, entries, moments))
    assert [moment for moment, _ in made] == moments
    for moment, one in made:
        state = elapsed_state(NOTES, [entry for entry in entries if entry.recorded <= moment])
        assert (one.elapsed, one.score) == (state, elapsed_score(state, moment))
        assert one.table == score_of(refold_as_of(NOTES, entries, moment), moment)
    assert [one.elapsed.n_samples for _, one in made][-5:] == [5, 6, 6, 2, 2]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((*ELAPSED, "--half-life", "30"), "leave out --half-life and --weights"),
        ((*ELAPSED, "--weights", "0.2,0.2,0.2,0.2,0.2"), "leave out --half-life and --weights"),
        ((*ELAPSED, "--over-time"), "--over-time is of one subject"),
        (("t", "e", *ELAPSED, "--over-time", "--at", "2026-01-01"), "leave out --at"),
        (("t", "e", "--every", "2"), "--every DAYS goes with --over-time"),
        ((*ELAPSED, "--store", "kafka://localhost:1"), "--store archive:DIR"),
        (("--formula", "ewm/2"), "'ewm/1', 'elapsed/1'"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(
    shell: Shell, words: tuple[str, ...], why: str
) -> None:
    """Exit 2 and a sentence that says which to leave out."""
    ended = shell("whatif", *words)
    assert (ended.code, ended.out) == (2, "")
    assert why in " ".join(ended.err.split())


def test_the_example_of_the_guide_is_what_is_printed(shell: Shell) -> None:
    """The block of docs/backtest.md that shows the formula, line by line."""
    root = Path(__file__).resolve().parents[2]
    guide = (root / "docs" / "backtest.md").read_text(encoding="utf-8")
    (block,) = re.findall(
        r"^```console\n(\$ trustfold whatif .*?)^```$", guide, re.MULTILINE | re.DOTALL
    )
    command, *printed = block.splitlines()
    month = str(root / "examples" / "first_month.jsonl")
    assert shell("ingest", month, "--store", "month.db", "--medians-first").code == 0
    ended = shell(*shlex.split(command.removeprefix("$ trustfold ")))
    assert [line.rstrip() for line in ended.out.splitlines()] == printed
