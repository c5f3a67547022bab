"""A large archive, judged as columns straight from its segments: the counts of the exact path."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from tests.analysis.backtest_logs import START, WRITE, Story, log_of
from tests.cli.commands import Shell
from tests.oracles.histories import Draft, told, wild_histories
from trustfold_projections.analysis.backtest import archived
from trustfold_projections.analysis.backtest.archived import ArchivedBacktest
from trustfold_projections.analysis.backtest.history import read_history
from trustfold_projections.analysis.backtest.rules import Elapsed, Trust, policies, thresholds_with
from trustfold_projections.analysis.backtest.run import backtest
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.rows import EntryRow, Row, table_of
from trustfold_projections.archive.schema import Place
from trustfold_projections.laws.correlation import Key, KeyState, correlate, key_of, new_state
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.events import CostMedianEvent
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import DAY, HOUR, format_instant

POLICIES = [
    policy
    for policy in policies(
        [Trust("default", thresholds_with()), Trust("loose", thresholds_with(400_000, 1, 0, 0))]
    )
    if not isinstance(policy, Elapsed)
]


def written(folder: Path, facts: list[Fact]) -> ArchivedBacktest:
    """A backtest over segments of these facts and of the ledger that they come to."""
    medians, states = MedianTable(), dict[Key, KeyState]()
    entries: list[Row] = []
    for fact in facts:
        state = states.setdefault(key_of(fact.event), new_state(key_of(fact.event)))
        made = correlate(state, fact, medians).entries
        entries += [EntryRow(len(entries) + i, entry, 0, 0, i) for i, entry in enumerate(made)]
    files: dict[str, list[str]] = {"ledger": [], "facts": []}
    kept: list[Row] = [fact for fact in facts if not isinstance(fact.event, CostMedianEvent)]
    places = ((Place("ledger", 0), entries), (Place("facts", 0), kept))
    for place, rows in places:
        name = place.topic
        if rows:
            path = folder / f"{name}.parquet"
            pq.write_table(table_of(place, rows), path)
            files[name].append(str(path))
    return ArchivedBacktest(in_memory(), files["ledger"], files["facts"], medians, 2**60)


@given(history=wild_histories())
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_columns_are_exact_on_random_logs(
    tmp_path_factory: pytest.TempPathFactory, history: list[Draft]
) -> None:
    """Whatever the history: the same counts."""
    log = log_of(told(history))
    exact = backtest(read_history(log), POLICIES)
    assert written(tmp_path_factory.mktemp("log"), log.facts).run(POLICIES) == exact


def month() -> Story:
    """Lone closes and traces with all that needs the law; one subject is rolled back."""
    story = Story()
    moment = story.clean_days(30)
    escaped = {"tool": "fs_wr\u00efte", "effect": 'say "hi"\\\n/*', "reversibility": "reversible"}
    for day in range(25):
        at = START + day * DAY + HOUR
        story.close(f"team{day}", at, escaped, WRITE | {"via": "human"}, scope="team")
        story.close(f"fails{day}", at, WRITE | {"status": "error"}, {**WRITE, "tool": "x"})
    story.close("law", moment, WRITE, violations=[{"law": 1}])
    story.close("counted", moment, WRITE, step_count=1)
    story.close("not run", moment, WRITE | {"status": "not_executed"})
    story.close("asked", moment, WRITE | {"status": "not_executed", "via": "human"})
    story.close("empty", moment)
    story.answer("later", moment + HOUR, "denied", step_ids=["0"])
    story.close("later", moment + 2 * HOUR, WRITE, escaped)
    story.close("after", moment + 3 * HOUR, WRITE, escaped, scope="team")
    step = {"step_id": "0", "status": "ok", **WRITE}
    story.tell("step.recorded", moment, trace_id="open", step=step)
    story.tell(
        "subject.rolled_back",
        moment - 5 * DAY,
        subject=["", "x", WRITE["effect"]],
        to=format_instant(START + 3 * DAY),
        by="ann",
        why="a bad release",
    )
    return story


@pytest.mark.parametrize("entries", [1, 40, 1 << 20])
def test_a_month_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    """Escapes, laws, open traces and a rollback, with the entries in ranges of any size."""
    monkeypatch.setattr(archived, "RANGE", entries)
    log = month().log
    exact = backtest(read_history(log), POLICIES)
    assert written(tmp_path, log.facts).run(POLICIES) == exact
    assert [row.saved for row in exact if (row.policy, row.scope) == ("loose", None)] > [0]


def test_the_command_takes_the_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From so many facts on an archive is judged as columns; only `elapsed/1` is then missing."""
    shell = Shell(tmp_path, capsys, monkeypatch)
    shell.ingest(*(fact.document for fact in month().log.facts))
    shell("archive", "kept")
    small = shell("backtest", "--json", "--store", "archive:kept")
    monkeypatch.setattr(archived, "LARGE_FACTS", 1)
    large = shell("backtest", "--json", "--store", "archive:kept")
    assert "without `elapsed/1`" in large.err
    assert "--as-happened" in large.err
    assert large.json == [row for row in small.json if row["policy"] != "elapsed/1"] != []
