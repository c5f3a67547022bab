"""The views: documented column by column, within a hair of the law, and true to a small scene."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.embedded.documents import NOTES, SHELL
from trustfold_projections.analysis import views
from trustfold_projections.analysis.as_of import sums_as_of
from trustfold_projections.analysis.views.catalogue import View, catalogue, markdown
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.opening import Archive
from trustfold_projections.laws.scoring import score_of
from trustfold_schemas.ledger import COMPONENTS
from trustfold_schemas.subject import Subject
from trustfold_streams.archiver.store import ArchiveStore

DOCS = Path(__file__).parents[2] / "docs" / "sql.md"
ULPS_MAX = 4
VIEWS = [view for view in catalogue() if view.columns]
ARGUMENTS = {"drift": "({settled} - 1, {settled})"}


def call_of(view: View, settled: int) -> str:
    """How a view or macro is asked at the settled moment."""
    if "(" not in view.call:
        return view.name
    return view.name + ARGUMENTS.get(view.name, "({settled})").format(settled=settled)


def rows(asked: duckdb.DuckDBPyConnection, query: str) -> list[dict[str, Any]]:
    """The rows of a query by column."""
    found = asked.execute(query)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_has_the_columns_that_are_documented(
    view: View, asked: duckdb.DuckDBPyConnection, scene_archive: Path
) -> None:
    """Names and order of the remarks in the file are those of the view."""
    settled = Archive.open(scene_archive).settled
    described = asked.execute(f"DESCRIBE FROM {call_of(view, settled)}").fetchall()
    assert [row[0] for row in described] == [name for name, _ in view.columns]
    assert not {"HUGEINT", "FLOAT"} & {row[1] for row in described}


def test_views_of_an_empty_archive_are_empty(tmp_path: Path) -> None:
    """An archive without a segment has every view, without a row."""
    (tmp_path / "manifest.jsonl").touch()
    with duckdb.connect() as connection:
        views.attach(connection, tmp_path)
        for view in VIEWS:
            found = connection.execute(f"FROM {call_of(view, 0)}").fetchall()
            assert not found or view.name == "mantissas", view.name


def test_the_guide_is_what_the_files_say() -> None:
    """docs/sql.md ends in what is generated from the remarks of the files."""
    assert DOCS.read_text(encoding="utf-8").endswith(markdown()), (
        "write trustfold_projections.analysis.views.catalogue.markdown() to the end of docs/sql.md"
    )


def test_scores_in_sql_are_within_four_ulp_of_the_law(
    asked: duckdb.DuckDBPyConnection, scene_archive: Path
) -> None:
    """At every moment of recording and for every subject, each double beside the law's."""
    with ArchiveStore.open(scene_archive) as store:
        moments = [row["recorded_us"] for row in rows(asked, "FROM facts")]
        for moment in sorted({*moments[::4], store.archive.settled}):
            found = rows(asked, f"FROM scores_as_of({moment}) ORDER BY subject")
            states = sorted(store.states_as_of(moment), key=lambda state: state.subject.key)
            assert [row["subject"] for row in found] == [s.subject.key.decode() for s in states]
            for row, state in zip(found, states, strict=True):
                law = score_of(state, moment)
                for name in (*COMPONENTS, "raw_score", "freshness", "score", "effective_samples"):
                    expected = getattr(law, name)
                    assert abs(row[name] - expected) <= ULPS_MAX * math.ulp(expected), name
                assert row["n_samples"] == law.n_samples
                assert row["rollbacks"] == len(state.rollbacks)
                assert row["version"] == state.version


def test_scores_beyond_the_settled_moment_are_refused(
    asked: duckdb.DuckDBPyConnection, scene_archive: Path
) -> None:
    """SQL refuses it, too: never a wrong number."""
    later = Archive.open(scene_archive).settled + 1
    with pytest.raises(duckdb.Error, match="has settled up to"):
        asked.execute(f"FROM scores_as_of({later})").fetchall()


def test_sums_are_those_of_the_fold_by_either_way(
    asked: duckdb.DuckDBPyConnection, scene_archive: Path
) -> None:
    """The macro over all files gives the rows that it gives over those that a moment needs."""
    archive = Archive.open(scene_archive)
    for row in rows(asked, "FROM facts")[::4]:
        moment = row["recorded_us"]
        every = asked.execute(f"FROM sums_as_of({moment}) ORDER BY subject, blk").fetchall()
        with in_memory() as connection:
            table, _ = sums_as_of(connection, archive, moment)
        assert [tuple(one.values()) for one in table.to_pylist()] == every


def test_what_went_wrong_after_a_promotion(asked: duckdb.DuckDBPyConnection) -> None:
    """A promoted step that failed, was undone and broke a law."""
    (one,) = rows(asked, "FROM promotions")
    assert (one["trace_id"], one["step_id"], one["decision_id"]) == ("promoted", "a", "d1")
    assert (one["failed"], one["undone"], one["denied"], one["violated"], one["went_wrong"]) == (
        True, True, False, True, True,
    )  # fmt: skip


def test_who_is_asked_and_how_often(asked: duckdb.DuckDBPyConnection) -> None:
    """Friction by effect class, and by person."""
    found = {(row["tool"], row["effect"]): row for row in rows(asked, "FROM friction")}
    notes, shell = found[NOTES.tool, NOTES.effect], found[SHELL.tool, SHELL.effect]
    assert (notes["steps"], notes["asked"], notes["granted"], notes["denied"]) == (16, 5, 4, 0)
    assert (shell["steps"], shell["asked"], shell["denied"]) == (7, 1, 1)
    (person,) = rows(asked, "FROM people")
    assert (person["answers"], person["granted"], person["denied"]) == (6, 5, 1)


def test_feedback_that_waits_for_its_trace(asked: duckdb.DuckDBPyConnection) -> None:
    """Answers and undos whose trace has not closed, by name."""
    found = [(row["trace_id"], row["type"]) for row in rows(asked, "FROM feedback_without_close")]
    assert found == [("open", "approval.decided.v1"), ("unheard-of", "undo.executed.v1")]


def test_what_else_the_scene_shows(asked: duckdb.DuckDBPyConnection) -> None:
    """Traces, steps and dead letters once each; global subjects apart from the leaderboard."""
    assert len(rows(asked, "FROM traces")) == 16
    assert len(rows(asked, "FROM steps WHERE trace_id = 'open'")) == 1
    assert [row["reason"] for row in rows(asked, "FROM dead_letters")] == ["malformed"]
    assert [row["median_usd"] for row in rows(asked, "FROM cost_medians")] != []
    tools = {row["tool"] for row in rows(asked, "FROM leaderboard")}
    assert "runtime" not in tools
    assert SHELL.tool in tools
    assert [row["outcome"] for row in rows(asked, "FROM outcomes")] == ["done"]
    prefix = rows(asked, "FROM step_prefixes WHERE length = 2 AND traces = 6")
    assert [row["prefix"] for row in prefix] == [[NOTES.tool, SHELL.tool]]


def test_score_over_time_ends_where_the_table_stands(asked: duckdb.DuckDBPyConnection) -> None:
    """The last day of every subject has its present raw_score, rollbacks respected."""
    last = {
        row["subject"]: row["raw_score"] for row in rows(asked, "FROM score_over_time ORDER BY day")
    }
    for row in rows(asked, "FROM scores WHERE n_samples > 0"):
        assert last[row["subject"]] == pytest.approx(row["raw_score"], abs=1e-12)
    assert Subject("", "web", "net:get").key.decode() in last


def test_nothing_is_downloaded_and_no_zone_matters(asked: duckdb.DuckDBPyConnection) -> None:
    """Extensions are neither installed nor loaded by themselves, and times are UTC."""
    settings = dict(
        asked.execute(
            "SELECT name, value FROM duckdb_settings() WHERE name IN ('TimeZone', "
            "'autoinstall_known_extensions', 'autoload_known_extensions')"
        ).fetchall()
    )
    assert settings == {
        "TimeZone": "UTC",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
