"""Nightly medians: DuckDB's integers are the law's, published once and from any store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.backtest_logs import WRITE, Story
from tests.cli.commands import Shell
from trustfold_projections.analysis.medians import due, medians_of_costs
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.laws.medians import Cost, medians_at
from trustfold_schemas.instants import DAY, HOUR, parse_instant
from trustfold_streams.archiver.locks import writing
from trustfold_streams.cli.medians import NightlyMedians
from trustfold_streams.cli.options import Settings

MIDNIGHT = parse_instant("2026-02-01T00:00:00Z")
END = MIDNIGHT - DAY
FIRST = END - 30 * DAY


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


TIMES = st.sampled_from((FIRST - 1, FIRST, END - DAY, END - 1, END))
COSTS = st.builds(
    Cost,
    st.sampled_from(("", "team")),
    st.sampled_from(("a", "b")),
    TIMES,
    st.integers(0, 5) | st.sampled_from((10**18, 10**18 - 1)),
)


@given(st.lists(COSTS, max_size=150))
@settings(max_examples=40, deadline=None)
def test_duckdb_gives_the_medians_of_the_law(
    database: duckdb.DuckDBPyConnection, costs: list[Cost]
) -> None:
    """The window, the middle of even numbers and the 20 traces are the law's, to the integer."""
    assert medians_of_costs(database, costs, MIDNIGHT) == medians_at(costs, MIDNIGHT)


def test_medians_are_those_of_a_textbook(database: duckdb.DuckDBPyConnection) -> None:
    """Nineteen traces give none, twenty the mean of the middle two, rounded down."""
    costs = [Cost("", "e", FIRST + i, cost) for i, cost in enumerate((7, 1, 4, 9, 2) * 4)]
    wanted = int(median(cost.cost_usd for cost in costs))
    assert medians_of_costs(database, costs, MIDNIGHT) == {("", "e"): (wanted, 20)}
    assert medians_of_costs(database, costs[1:], MIDNIGHT) == {}


def test_they_are_due_once_a_day_from_three() -> None:
    """At two nothing is due, at three the next midnight, and it once only."""
    assert due(MIDNIGHT + 2 * HOUR, None) is None
    assert due(MIDNIGHT + 3 * HOUR, None) == MIDNIGHT + DAY
    assert due(MIDNIGHT + 23 * HOUR, MIDNIGHT + DAY) is None
    assert due(MIDNIGHT + 27 * HOUR, MIDNIGHT + DAY) == MIDNIGHT + 2 * DAY


def month(shell: Shell) -> None:
    """A month of one priced trace a day, some told step by step, and a close told twice."""
    story = Story()
    for day in range(30):
        moment, trace = FIRST + day * DAY + HOUR, f"t{day}"
        if day % 3:
            story.close(trace, moment, WRITE, cost_usd=0.01 * (day + 1))
        else:
            step = {"step_id": "0", "status": "ok", **WRITE}
            story.tell("step.recorded", moment, trace_id=trace, step=step)
            story.close(trace, moment + 1, cost_usd=0.01 * (day + 1), step_count=1)
    story.close("no cost", FIRST, WRITE)
    shell.ingest(*(fact.document for fact in story.facts))


AT = ("--effective-at", "2026-02-01")


def test_published_once_and_measured_by(shell: Shell) -> None:
    """What is published is what a dry run says; again it is nothing, and it measures traces."""
    month(shell)
    dry = shell("medians", *AT, "--dry-run", "--json")
    assert [(row["median_usd"], row["samples"]) for row in dry.json] == [("0.155", 30)]
    assert shell("medians", *AT, "--json").json == dry.json
    assert shell("medians", *AT, "--json").json == []
    assert "0 medians published" in shell("medians", *AT).out
    story = Story()
    story.facts = [None] * 100  # type: ignore[list-item] # other event ids
    story.close("later", MIDNIGHT + HOUR, WRITE, cost_usd=0.031)
    shell.ingest(story.facts[-1].document)
    score = shell("score", "fs_write", "fs_write:~/notes/*", "--json").json[0]
    assert score["cost_efficiency"] == pytest.approx(0.8)


def test_an_archive_gives_the_same_and_publishes_elsewhere(shell: Shell) -> None:
    """An archive is read; its medians go to the store that is named, and to none unasked."""
    month(shell)
    shell("archive", "kept")
    archive = ("--store", "archive:kept")
    of_file = shell("medians", *AT, "--dry-run", "--json")
    assert shell("medians", *AT, "--dry-run", "--json", *archive).json == of_file.json != []
    refused = shell("medians", *AT, *archive)
    assert (refused.code, "--to STORE" in refused.err) == (2, True)
    assert shell("medians", *AT, "--to", "trust.db", "--json", *archive).json == of_file.json
    assert shell("medians", *AT, "--json").json == []
    assert shell("medians", "--effective-at", "2026-02-01T01:00:00Z").code == 2


def test_the_timer_publishes_once_a_night(shell: Shell) -> None:
    """Looked at every hour of two days, by the archiver itself, it publishes when they are due."""
    month(shell)
    shell("archive", "kept")
    nightly = NightlyMedians(Settings("archive:kept"), Settings("trust.db"))
    with writing(shell.folder / "kept"):
        ticks = [nightly.tick(END + hour * HOUR) for hour in range(48)]
    accepted = {hour: made.accepted for hour, made in enumerate(ticks) if made is not None}
    assert accepted == {3: 1, 27: 1}
    again = NightlyMedians(Settings("trust.db"), Settings("trust.db")).tick(END + 4 * HOUR)
    assert again is not None
    assert again.total == 0
