"""`trustfold export`: what came of every step, curated, in two formats and from two stores."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.analysis.backtest_logs import START, WRITE, Story
from tests.cli.commands import Shell
from trustfold_projections.analysis.export import SCHEMA
from trustfold_schemas.instants import DAY, HOUR, MINUTE

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "export.md"
READ = {"tool": "fs_read", "effect": "fs_read:~/*"}


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """An empty folder to work in."""
    return Shell(tmp_path, capsys, monkeypatch)


@pytest.fixture
def story() -> Story:
    """Traces of every fate."""
    made = Story()
    by = {"kind": "human", "id": "ann"}
    denied = WRITE | {"status": "not_executed", "error": "denied_by_user"}
    made.answer("mixed", START - MINUTE, "granted", step_ids=["0"])
    made.answer("mixed", START - MINUTE, "denied", step_ids=["1"])
    made.answer("mixed", START - MINUTE, "expired", step_ids=["2"])
    made.answer("mixed", START - MINUTE, "granted", step_ids=["nowhere"])
    asked = WRITE | {"via": "human", "args_fingerprint": "f00", "decision_id": "d1"}
    made.close(
        "mixed",
        START,
        asked,
        denied,
        READ | {"status": "error", "error": "timeout"},
        scope="team",
        session="s1",
        agent="a1",
        cost_usd=0.0125,
        violations=[{"law": 1, "step_id": "2"}, {"law": 3}],
    )
    made.tell("undo.executed", START + HOUR, trace_id="mixed", by=by, step_ids=["0"])
    made.close("excluded", START + DAY, WRITE)
    made.tell("trace.excluded", START + DAY + HOUR, trace_id="excluded", by="ops", why="a test")
    made.tell(
        "step.recorded", START, trace_id="open", step={"step_id": "0", "status": "ok", **READ}
    )
    subject = ["", "cron", "invoke"]
    made.tell("signals.reported", START, trace_id="signals", subject=subject, tool_success=1)
    made.close("later", START + 2 * DAY, READ)
    return made


def rows_of(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows by trace and step."""
    rows = [json.loads(line) for line in text.splitlines()]
    return {(row["trace_id"], row["step_id"]): row for row in rows}


def ingest(shell: Shell, story: Story) -> None:
    """Ingest the story; one answer names a step that is not there, so there is a dead letter."""
    assert shell("ingest", shell.file([fact.document for fact in story.facts])).code == 0


def test_a_row_says_what_came_of_its_step(shell: Shell, story: Story) -> None:
    """Status, answers, undo, laws, cost and references, each of the step it belongs to."""
    ingest(shell, story)
    made = shell("export", "-")
    rows = rows_of(made.out)
    assert set(rows) == {("mixed", "0"), ("mixed", "1"), ("mixed", "2"), ("later", "0")}
    first, second, third = (rows["mixed", str(number)] for number in range(3))
    assert list(first) == SCHEMA.names
    assert first | {"feedback": None} == {
        "trace_id": "mixed",
        "step_id": "0",
        "position": 0,
        "steps": 3,
        "scope": "team",
        "session": "s1",
        "agent": "a1",
        "source": "story",
        "outcome": "completed",
        "closed_us": START,
        "tool": "fs_write",
        "effect": "fs_write:~/notes/*",
        "reversibility": "reversible",
        "args_fingerprint": "f00",
        "via": "human",
        "decision_id": "d1",
        "status": "ok",
        "error": None,
        "success": True,
        "granted": True,
        "undone": True,
        "laws": [3],
        "cost_usd_micro": 12_500,
        "cost_efficiency_ppm": None,
        "feedback": None,
        "excluded": False,
    }
    assert first["feedback"] == ["e0", "e5"]
    assert (second["granted"], second["undone"], second["success"]) == (False, None, None)
    assert (third["granted"], third["success"], third["laws"]) == (None, False, [1, 3])
    assert "4 steps of 3 traces; left out: 1 excluded traces, 1 not closed; 1 answers" in made.err


def test_both_formats_and_both_stores_say_the_same(shell: Shell, story: Story) -> None:
    """JSON Lines, Parquet and the archive's rows are equal, types as documented."""
    ingest(shell, story)
    shell("archive", "kept")
    wanted = rows_of(shell("export", "-").out)
    counts = shell("export", "steps.jsonl", "--json").json
    assert counts == [{"traces": 3, "steps": 4, "excluded": 1, "open": 1, "unmatched": 1}]
    assert shell("export", "steps.parquet", "--store", "archive:kept").code == 0
    assert rows_of((shell.folder / "steps.jsonl").read_text(encoding="utf-8")) == wanted
    table = pq.read_table(shell.folder / "steps.parquet")
    assert table.schema.equals(SCHEMA)
    assert {(row["trace_id"], row["step_id"]): row for row in table.to_pylist()} == wanted


def test_it_is_curated(shell: Shell, story: Story) -> None:
    """By scope, by the time of the close, and by exclusion, which can be kept and is marked."""
    ingest(shell, story)

    def traces(*options: str) -> set[str]:
        return {trace for trace, _ in rows_of(shell("export", "-", *options).out)}

    assert traces("--scope", "team") == {"mixed"}
    assert traces("--since", "2026-01-06") == {"later"}
    assert traces("--until", "2026-01-06") == {"mixed"}
    assert traces("--with-excluded") == {"mixed", "excluded", "later"}
    kept = rows_of(shell("export", "-", "--with-excluded").out)
    assert [kept[key]["excluded"] for key in (("excluded", "0"), ("later", "0"))] == [True, False]


def test_an_empty_log_and_wrong_use(shell: Shell) -> None:
    """No step is an empty file with all columns; another ending is refused before it is made."""
    shell.ingest(*(fact.document for fact in Story().facts))
    assert shell("export", "none.parquet").code == 0
    assert pq.read_table(shell.folder / "none.parquet").schema.equals(SCHEMA)
    refused = shell("export", "steps.xlsx")
    assert (refused.code, (shell.folder / "steps.xlsx").exists()) == (2, False)


def typed(field: pa.Field) -> str:
    """A column's type as the guide writes it."""
    kind = re.sub(r"^list<element: (\w+) not null>$", r"list<\1>", str(field.type))
    return kind + ("?" if field.nullable else "")


def test_the_guide_names_every_column() -> None:
    """docs/export.md has the columns of the schema, with their types and what they hold."""
    rows = re.findall(r"^\| (\w+) \| (\S+) \| (.+?) \|$", GUIDE.read_text("utf-8"), re.MULTILINE)
    rows = [row for row in rows if row[0] != "column"]
    assert rows == [
        (field.name, typed(field), (field.metadata or {})[b"about"].decode()) for field in SCHEMA
    ]
