"""What-if: exact sums under any half-life, whoever adds them; at 30 days the table's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analysis.backtest_logs import START, WRITE, Story
from tests.archive.entries import SUBJECTS
from tests.archive.logs import log_of
from tests.cli.commands import Shell
from tests.embedded.documents import TIME
from tests.laws.runs import Run, run
from tests.oracles.histories import Draft, told, wild_histories
from trustfold_projections.analysis.whatif import states_under
from trustfold_projections.analysis.whatif_law import (
    HalfLife,
    checked_weights,
    over_time,
    whatif_of,
)
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.rows import EntryRow, table_of
from trustfold_projections.archive.schema import SCHEMAS, Place
from trustfold_projections.laws.fold import refold_as_of, rollbacks_in_force
from trustfold_projections.laws.scoring import score_of
from trustfold_projections.laws.time_weights import MANTISSAS, ZERO, g
from trustfold_schemas.instants import DAY, HOUR, format_instant
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.archiver.run import open_archiver
from trustfold_streams.cli import fact_sources

NOTES = Subject("", "fs_write", "fs_write:~/notes/*")


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """One database for all examples."""
    with contextlib.closing(in_memory()) as connection:
        yield connection


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """An empty folder to work in."""
    return Shell(tmp_path, capsys, monkeypatch)


def literal_sums(entries: list[Entry], days: int) -> tuple[list[int], list[int], int, int | None]:
    """SPEC 4 with another H, entry by entry: num, den, n_samples, last_updated."""
    half_life = days * 24 * 3600 * 1_000_000
    spans = [(one.to, one.at) for one in rollbacks_in_force(entries)]
    num, den, n, updated = [0] * 5, [0] * 5, 0, None
    for entry in entries:
        if entry.kind in ("rollback", "rollback_lifted"):
            continue
        if any(low < moment <= high for low, high in spans for moment in entry.chain):
            continue
        era, rem = divmod(entry.occurred - ZERO, half_life)
        i, f = divmod(rem * 4096, half_life)
        weight = (MANTISSAS[i] + (MANTISSAS[i + 1] - MANTISSAS[i]) * f // half_life) << era
        for c in range(5):
            num[c] += entry.amounts[c] * weight
            den[c] += entry.weights[c] * weight
        n += entry.n_samples
        if entry.clean:
            updated = max(updated or 0, entry.occurred)
    return num, den, n, updated


def load(connection: duckdb.DuckDBPyConnection, made: Run) -> None:
    """Make the view `ledger` of a run's entries."""
    rows = [EntryRow(i, entry, 0, i, 0) for i, entry in enumerate(made.ledger)]
    connection.register(
        "ledger",
        table_of(Place("ledger", 0), rows) if rows else SCHEMAS["ledger"].empty_table(),
    )


@given(wild_histories(), st.sampled_from((1, 7, 29, 30, 90, 270)), st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_sql_sums_are_the_literal_ones(
    database: duckdb.DuckDBPyConnection, history: list[Draft], days: int, data: st.DataObject
) -> None:
    """Whatever the history, half-life and moment: DuckDB, the law and the text agree exactly."""
    made = run(told(history))
    load(database, made)
    moments = [entry.recorded for entry in made.ledger] or [ZERO]
    moment = data.draw(st.sampled_from(moments))
    known = [entry for entry in made.ledger if entry.recorded <= moment]
    states = {state.subject: state for state in states_under(database, HalfLife(days), moment)}
    for subject in {entry.subject for entry in known}:
        mine = [entry for entry in known if entry.subject == subject]
        num, den, n, updated = literal_sums(mine, days)
        state = states.get(subject, State(subject=subject))
        assert (state.num, state.den, state.n_samples) == (num, den, n)
        assert state.last_updated == updated
        [(_, one)] = over_time(subject, mine, HalfLife(days), [moment])
        assert one == whatif_of(state, HalfLife(days), moment)


def test_thirty_days_are_the_law(database: duckdb.DuckDBPyConnection) -> None:
    """With the law's half-life and weights a score is the table's, to the bit."""
    story = Story()
    moment = story.clean_days(9)
    entries = entries_of(story)
    assert [HalfLife(30).g(t) for t in (ZERO, moment)] == [g(ZERO), g(moment)]
    for at, made in over_time(NOTES, entries, HalfLife(30), [START + DAY, moment]):
        score = score_of(refold_as_of(NOTES, entries, at), at)
        assert (made.raw_score, made.freshness, made.score) == (
            score.raw_score,
            score.freshness,
            score.score,
        )
        assert made.effective_samples == score.effective_samples


def entries_of(story: Story) -> list[Entry]:
    """The ledger of the subject NOTES."""
    from trustfold_projections.analysis.backtest.history import read_history

    return read_history(story.log)[NOTES].entries


def test_a_half_life_is_that_of_pandas() -> None:
    """The value of a component is `pandas.ewm(halflife, times)`, within 1e-9, at 3 days too."""
    story = Story()
    statuses = ["ok", "error", "ok", "ok", "error", "ok"]
    for day, status in enumerate(statuses):
        story.close(f"t{day}", START + day * 40 * HOUR, WRITE | {"status": status})
    entries = entries_of(story)
    [(_, made)] = over_time(
        NOTES, entries, HalfLife(3), [START + 30 * DAY], checked_weights([1, 0, 0, 0, 0])
    )
    times = pd.to_datetime([entry.occurred for entry in entries], unit="us")
    said = pd.Series([status == "ok" for status in statuses], dtype=np.float64)
    wanted = said.ewm(halflife="3 days", times=times).mean().iloc[-1]
    assert made.raw_score == pytest.approx(wanted, abs=1e-9)


def test_over_time_knows_a_rollback_only_once_it_came() -> None:
    """Before a rollback the score rises day by day; from its moment on it is that of then."""
    story = Story()
    moment = story.clean_days(6)
    story.tell(
        "subject.rolled_back",
        moment,
        subject=list(NOTES),
        to=format_instant(START + 2 * DAY + HOUR),
        by="ann",
        why="a bad release",
    )
    days = [START + day * DAY + 2 * HOUR for day in range(8)]
    counted = [made.n_samples for _, made in over_time(NOTES, entries_of(story), HalfLife(7), days)]
    assert counted == [1, 2, 3, 4, 5, 6, 3, 3]


def test_the_command(shell: Shell) -> None:
    """A file and its archive give the same rows; a shorter half-life gives a staler score."""
    story = Story()
    moment = story.clean_days(5)
    shell.ingest(*(fact.document for fact in story.facts))
    shell("archive", "kept")
    at = ("--at", format_instant(moment + 20 * DAY), "--json")
    half_lives = ("--half-life", "5", "--half-life", "30", "--half-life", "270")
    of_file = shell("whatif", *half_lives, *at)
    assert of_file.out == shell("whatif", *half_lives, *at, "--store", "archive:kept").out
    notes = [row for row in of_file.json if row["subject"][1] == "fs_write"]
    assert [row["half_life_days"] for row in notes] == [5, 30, 270]
    assert notes[0]["score"] < notes[1]["score"] < notes[2]["score"]
    law = shell("score", "fs_write", "fs_write:~/notes/*", *at).json[0]
    assert notes[1]["score"] == law["score"]
    one = shell("whatif", "fs_write", "fs_write:~/notes/*", *half_lives, *at)
    assert one.json == notes
    assert "270 days" in shell("whatif", *half_lives).out


def test_a_subject_that_is_rolled_back_whole_is_known(shell: Shell) -> None:
    """No sum is left of it, and it is told of with no samples, as `score` does."""
    story = Story()
    moment = story.clean_days(3)
    shell.ingest(*(fact.document for fact in story.facts))
    words = ("--to", "2024-01-01", "--why", "a bad release", "--by", "ann")
    assert shell("rollback", *NOTES[1:], *words).code == 0
    shell("archive", "kept")
    at = ("--at", format_instant(moment + DAY), "--json")
    for store in ((), ("--store", "archive:kept")):
        for who in (NOTES[1:], ()):
            rows = shell("whatif", *who, "--half-life", "30", *at, *store).json
            (own,) = [row for row in rows if row["subject"] == list(NOTES)]
            assert (own["n_samples"], own["score"]) == (0, 0.0)


def test_an_archive_counts_what_has_settled(shell: Shell) -> None:
    """Entries were archived beyond that moment: they count in no answer, as in `scores`."""
    log = log_of(9)
    log.settled = TIME + 40
    with open_archiver(shell.folder / "kept") as archiver:
        archiver.run(lambda _: contextlib.nullcontext(log))
    store = ("--json", "--store", "archive:kept")
    counted = [
        sum(row["n_samples"] for row in shell(*command, *store).json)
        for command in (("scores",), ("whatif", "--half-life", "30"))
    ]
    assert counted == [5, 5]
    over = shell("whatif", *SUBJECTS[0][1:], "--over-time", "--half-life", "30", *store)
    assert over.json[-1]["n_samples"] == 2
    late = shell("whatif", "--as-of", format_instant(TIME + 50), *store)
    assert late.code != 0
    assert "has settled" in late.err


def test_a_store_in_a_file_is_copied_a_few_entries_at_a_time(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few entries are in memory as objects at once, the answer is the same."""
    story = Story()
    story.clean_days(5)
    shell.ingest(*(fact.document for fact in story.facts))
    asked = ("whatif", "--half-life", "7", "--at", format_instant(START + 9 * DAY), "--json")
    whole = shell(*asked).out
    assert whole
    monkeypatch.setattr(fact_sources, "COPIED_AT_ONCE", 3)
    assert shell(*asked).out == whole


def test_a_score_over_time(shell: Shell) -> None:
    """One row a day from the first entry on, and no subject is exit 1."""
    story = Story()
    story.clean_days(3)
    shell.ingest(*(fact.document for fact in story.facts))
    over = ("--over-time", "--half-life", "30", "--json")
    made = shell("whatif", "fs_write", "fs_write:~/notes/*", *over)
    # Imported at once, all of it was known from the first moment on.
    assert [row["n_samples"] for row in made.json][-1] == 3
    assert shell("whatif", "fs_write", "fs_write:~/notes/*", "--over-time").code == 0
    assert shell("whatif", "no", "such", *over).code == 1
    assert shell("whatif", "no", "such").code == 1
    assert shell("whatif", "--over-time").code == 2
    assert shell("whatif", "only a tool").code == 2


@pytest.mark.parametrize(
    "option",
    [
        ("--half-life", "0"),
        ("--half-life", "271"),
        ("--weights", "1,1,0,0,0"),
        ("--weights", "0.5,0.5"),
        ("--weights", "a,b,c,d,e"),
        ("--weights", "2,-1,0,0,0"),
    ],
)
def test_what_is_no_half_life_or_weight_is_refused(shell: Shell, option: tuple[str, str]) -> None:
    """Outside 1 to 270 days, or not five weights that add up to 1."""
    shell.ingest(*(fact.document for fact in Story().facts))
    assert shell("whatif", *option).code == 2


def test_a_half_life_says_what_it_wants() -> None:
    """The law itself refuses what SQL could not compute."""
    with pytest.raises(ValueError, match="1 to 270 days, got 271"):
        HalfLife(271)
