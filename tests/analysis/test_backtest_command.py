"""`trustfold backtest`: the same counts from a file and from its archive, in every form."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from tests.analysis.backtest_logs import START, WRITE, Story
from tests.cli.commands import Shell
from trustfold_projections.analysis.backtest.history import read_history
from trustfold_projections.analysis.backtest.rules import Trust, policies, thresholds_with
from trustfold_projections.analysis.backtest.run import backtest
from trustfold_schemas.instants import DAY, HOUR, MINUTE, format_instant

DELETE = {"tool": "fs_delete", "effect": "fs_delete:~/*", "reversibility": "reversible_with_cost"}


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """An empty folder to work in."""
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.fixture
def story() -> Story:
    """A month of clean days, then one of everything that can go wrong, in two scopes."""
    made = Story()
    moment = made.clean_days(30)
    for day in range(12):
        at = START + day * DAY
        made.answer(f"team{day}", at - MINUTE, "granted", step_ids=["0"])
        made.close(f"team{day}", at, DELETE, scope="team")
    made.close("fails", moment, WRITE | {"status": "error"}, WRITE, violations=[{"law": 3}])
    made.answer("asked", moment + HOUR, "denied", step_ids=["0"])
    made.close("asked", moment + HOUR, WRITE | {"status": "not_executed"})
    made.close("last", START + 12 * DAY, DELETE | {"via": "human"}, scope="team")
    return made


def documents(story: Story) -> list[bytes]:
    """The story's events in the order of their times."""
    facts = sorted(story.facts, key=lambda fact: (fact.event.time, fact.recorded))
    return [fact.document for fact in facts]


def test_every_form_says_the_same(shell: Shell, story: Story) -> None:
    """Table, JSON, CSV and Parquet hold the counts that the library gives, and so the plot."""
    shell.ingest(*documents(story))
    compared = policies([Trust("trustfold", thresholds_with())])
    wanted = backtest(read_history(story.log, as_happened=True), compared)
    made = shell(
        "backtest", "--as-happened", "--json", "--csv", "t.csv", "--parquet", "t.parquet",
        "--plot", "t.svg",
    )  # fmt: skip
    names = ("policy", "scope", "actions", "allowed", "denied", "failed", "violated", "saved")
    rows = [{name: getattr(tally, name) for name in names} for tally in wanted]
    assert made.code == 0
    assert [{name: row[name] for name in names} for row in made.json] == rows
    strings = pc.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    for table in (
        pq.read_table(shell.folder / "t.parquet"),
        pc.read_csv(shell.folder / "t.csv", convert_options=strings),
    ):
        assert table.select(list(names)).to_pylist() == rows
    assert b"plain mean" in (shell.folder / "t.svg").read_bytes()
    text = shell("backtest", "--as-happened", "--by-scope").out
    assert "scope 'team': 13 actions, 13 questions to humans" in text
    assert made.json[0]["saved"] == 1


def test_an_archive_gives_the_same_counts(shell: Shell, story: Story) -> None:
    """What was archived is judged as the store itself, as recorded and as it happened."""
    shell.ingest(*documents(story))
    assert shell("archive", "kept").code == 0
    for options in ([], ["--as-happened"]):
        of_file = shell("backtest", "--json", *options)
        of_archive = shell("backtest", "--json", *options, "--store", "archive:kept")
        assert of_archive.out == of_file.out != ""


def test_scores_are_swept(shell: Shell, story: Story) -> None:
    """Each --min-score is a policy of its own; a score that nobody reaches allows nothing."""
    shell.ingest(*documents(story))
    made = shell("backtest", "--as-happened", "--json", "--min-score", "0.5", "--min-score", "1")
    allowed = {row["policy"]: row["allowed"] for row in made.json if row["scope"] is None}
    assert allowed["trustfold 0.5"] > 0
    assert allowed["trustfold 1"] == 0


def test_an_import_is_pointed_out(shell: Shell, story: Story) -> None:
    """A log that was recorded long after it happened is judged, with a word about the option."""
    shell.ingest(*documents(story))
    assert "--as-happened" in shell("backtest").err
    assert shell("backtest", "--as-happened").err == ""


def test_a_log_without_actions_and_wrong_use(shell: Shell) -> None:
    """No step at all is said so; a share above one, a broker and an unknown ending are refused."""
    story = Story()
    story.close("empty", START)
    shell.ingest(*documents(story))
    assert "no action yet" in shell("backtest").out
    assert shell("backtest", "--min-score", "1.5").code == 2
    assert shell("backtest", "--store", "kafka://localhost:1").code == 2
    for option in (("--csv", "no/t.csv"), ("--parquet", "no/t.parquet"), ("--plot", "no/t.png")):
        refused = shell("backtest", *option)
        assert (refused.code, f"{option[1]} cannot be" in refused.err) == (2, True)
    refused = shell("backtest", "--plot", "t.abc")
    assert (refused.code, "t.abc cannot be drawn" in refused.err) == (2, True)


def test_the_paths_are_mixed(story: Story) -> None:
    """A large log goes the fast way, its rolled back subjects the exact one: the same counts."""
    to = format_instant(START + 10 * DAY)
    story.tell(
        "subject.rolled_back",
        START + 20 * DAY,
        subject=["team", "fs_delete", "fs_delete:~/*"],
        to=to,
        by="ann",
        why="a bad release",
    )
    history = read_history(story.log)
    compared = policies([Trust("loose", thresholds_with(500_000, 3, 1, 900_000))])
    assert backtest(history, compared, exact_actions=0) == backtest(history, compared)
