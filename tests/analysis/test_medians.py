"""Nightly medians: DuckDB's integers are the law's, published once and from any store."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.backtest_logs import WRITE, Story
from tests.cli.commands import Shell
from trustfold_projections.analysis.medians import due, medians_of_costs
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.laws.medians import Cost, medians_at
from trustfold_schemas.events import CostMedian
from trustfold_schemas.instants import DAY, HOUR, parse_instant
from trustfold_streams.archiver.locks import writing
from trustfold_streams.cli import archive, medians
from trustfold_streams.cli.fact_sources import open_facts
from trustfold_streams.cli.medians import NightlyMedians, compute
from trustfold_streams.cli.options import Settings
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded.errors import StoreBusyError

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


class Nights(ManualClock):
    """Moves on by four hours whenever it is asked, and at its end asks the process to end."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(first - 4 * HOUR)
        self._last = last

    def now(self) -> int:
        """The next moment."""
        self.advance(4 * HOUR)
        if self.moment >= self._last:
            os.kill(os.getpid(), signal.SIGTERM)
        return self.moment


@pytest.fixture
def handlers() -> Iterator[None]:
    """What signals did before stays what they do after."""
    known = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in known.items():
        signal.signal(number, handler)


FOLLOW = ("archive", "kept", "--follow", "--every", "0.1", "--medians")


@pytest.mark.usefixtures("handlers")
def test_the_archiver_publishes_once_a_night(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two nights pass by its clock: each has its medians, which the next pass archives."""
    month(shell)
    monkeypatch.setattr(archive, "SystemClock", lambda: Nights(END, END + 28 * HOUR))
    ended = shell(*FOLLOW)
    published = [line for line in ended.out.splitlines() if "medians published" in line]
    assert (ended.code, published) == (0, ["1 medians published, 0 were already"] * 2)
    with open_facts(Settings("archive:kept")) as facts:
        # Those of the second night came after the last pass.
        assert len(list(facts.medians())) == 1
    assert shell("medians", *AT, "--json").json == []


@pytest.mark.usefixtures("handlers")
def test_the_archiver_ends_when_it_is_told_to_while_it_publishes(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM comes amid the medians: they are published whole, then it ends with exit 0."""
    month(shell)
    monkeypatch.setattr(archive, "SystemClock", lambda: ManualClock(END + 3 * HOUR))

    def told_to_end(*arguments: Any) -> list[CostMedian]:
        os.kill(os.getpid(), signal.SIGTERM)
        return compute(*arguments)

    monkeypatch.setattr(medians, "compute", told_to_end)
    ended = shell(*FOLLOW, "--json")
    assert (ended.code, len(ended.json)) == (0, 1)
    assert "1 medians published" in ended.err
    assert shell("verify").code == shell("verify", "--store", "archive:kept").code == 0
    assert shell("medians", *AT, "--json").json == []


@pytest.mark.usefixtures("handlers")
def test_a_busy_store_is_asked_again_after_the_next_pass(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer costs the archiver a pass, and not its life."""
    month(shell)
    monkeypatch.setattr(archive, "SystemClock", lambda: Nights(END + 4 * HOUR, END + 8 * HOUR))
    answers = iter([StoreBusyError("another process is writing"), None])

    def busy_once(*arguments: Any) -> list[CostMedian]:
        refusal = next(answers)
        if refusal is not None:
            raise refusal
        return compute(*arguments)

    monkeypatch.setattr(medians, "compute", busy_once)
    ended = shell(*FOLLOW)
    assert (ended.code, "1 medians published" in ended.out) == (0, True)
    assert "wait for the next pass: another process is writing" in ended.err


def test_one_pass_publishes_what_is_due(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --follow: at two nothing, at three the medians, at four they are there already."""
    month(shell)
    said: list[str] = []
    for hour in (2, 3, 4):
        moment = END + hour * HOUR
        monkeypatch.setattr(archive, "SystemClock", lambda moment=moment: ManualClock(moment))
        ended = shell("archive", "kept", "--medians")
        assert ended.code == 0
        said.append(ended.out.splitlines()[-1])
    assert said[0].startswith("no medians are due: they are from 03:00 UTC on")
    assert said[1:] == [f"{n} medians published, 0 were already" for n in (1, 0)]


def test_on_a_broker_the_archive_is_read_and_the_topic_written() -> None:
    """The archiver computes over what it has archived; over a file, over the file itself."""
    kept = Path("kept")
    broker = Settings("kafka://somewhere:9092", "operator")
    nightly = NightlyMedians.of_archiver(broker, kept)
    assert (nightly.read, nightly.write) == (Settings("archive:kept", "operator"), broker)
    nightly = NightlyMedians.of_archiver(Settings(), kept)
    assert (nightly.read, nightly.write) == (Settings(), Settings())


def test_medians_of_an_archive_wait_until_it_has_settled(shell: Shell) -> None:
    """While traces of the window may be missing nothing is published; a moment later it is."""
    month(shell)
    shell("archive", "kept")
    nightly = NightlyMedians(Settings("archive:kept"), Settings("trust.db"))
    assert nightly.tick(END + 3 * HOUR, END - 1) is None
    made = nightly.tick(END + 3 * HOUR, END)
    assert made is not None
    assert made.accepted == 1
