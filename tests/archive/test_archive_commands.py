"""`trustfold archive`, and the commands that read an archive, as a person types them."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.archive.logs import held, orphans
from tests.cli.commands import LONG_ENOUGH, TRUSTFOLD, Shell
from tests.embedded.documents import (
    NOTES,
    SHELL,
    closed,
    decided,
    median,
    rolled_back,
    step,
    synthesized,
)
from tests.embedded.feeding import query
from tests.oracles.histories import RECORDED_FROM
from trustfold_projections.archive.errors import ArchiveBusyError
from trustfold_schemas.subject import Subject
from trustfold_streams.archiver import extra
from trustfold_streams.archiver.locks import writing
from trustfold_streams.archiver.store import verify_archive

FROM = ("--store", "archive:archive")
KILLS = 3


def filled(shell: Shell, traces: int = 5) -> None:
    """A store with a few traces, feedback and a rollback, and its archive."""
    events = [median()]
    for n in range(traces):
        events += [closed(f"t{n}", step("a", NOTES), step("b", SHELL)), decided(f"t{n}")]
    shell.ingest(*events, rolled_back(SHELL, RECORDED_FROM))
    assert shell("archive", "archive").code == 0


def test_scores_from_an_archive_are_those_of_the_store(shell: Shell) -> None:
    """All, one, as of a moment, and taken apart: the same lines."""
    filled(shell)
    at = ("--at", "2027-01-01", "--json")
    for words in (
        ("scores", *at),
        ("score", *NOTES[1:], *at),
        ("explain", *NOTES[1:], *at),
        ("explain", *NOTES[1:], "--without", "t1", *at),
        ("explain", *NOTES[1:], "--without", "granted/t1", *at),
    ):
        assert shell(*words, *FROM) == shell(*words), words
    for (recorded,) in query(shell.store, "SELECT recorded FROM facts WHERE recorded % 3 = 0"):
        moment = shell("sql", f"SELECT make_timestamp({recorded}) AS t", "--json", *FROM).json
        words = ("scores", "--as-of", moment[0]["t"], "--json")
        assert shell(*words, *FROM) == shell(*words)


def test_the_board_of_an_archive_is_that_of_the_store(shell: Shell) -> None:
    """To the letter, however few are shown; equals by name, which is not the order of keys."""
    tools = ["a", "a b", "a!", 'a"', "a,", "b", "\u00e9", "runtimes"]
    odd = [Subject("", tool, effect) for tool in tools for effect in ("x", "x y", "runtime")]
    shell.ingest(
        *(closed(f"t{n}", *(step(f"s{i}", one) for i, one in enumerate(odd))) for n in range(2)),
        *(closed(f"of{n}", step("a", NOTES), outcome=f"done {n}", scope="s") for n in range(4)),
        decided("t0", "denied", step_ids=["s3"]),
    )
    assert shell("archive", "archive").code == 0
    for top in ("1", "2", "3", "7", "23", "100"):
        words = ("scores", "--top", top, "--at", "2027-01-01")
        assert shell(*words, *FROM) == shell(*words), top


def test_a_moment_beyond_what_has_settled_is_wrong_use(shell: Shell) -> None:
    """Exit 2, and up to when it can be asked."""
    filled(shell)
    ended = shell("scores", "--as-of", "2100-01-01", *FROM)
    assert (ended.code, ended.out) == (2, "")
    assert "this archive has settled up to 20" in ended.err


def test_verify_an_archive(shell: Shell) -> None:
    """Exit 0 and the proofs; exit 1 and the difference by name; an anchor of another archive."""
    filled(shell)
    head = json.loads(shell("archive", "archive", "--json").out)["head"]
    assert shell("verify", "--anchor", head, *FROM).code == 0
    assert "the anchor is a head of this archive" in shell("verify", "--anchor", head, *FROM).out
    assert shell("verify", "--anchor", "0" * 63 + "1", *FROM).code == 1
    (shell.folder / "archive" / "segments" / "stranger").touch()
    ended = shell("verify", *FROM)
    assert ended.code == 1
    assert "difference in archive: file segments/stranger" in ended.out
    assert shell("verify", "--repair", *FROM).code == 2


def test_what_an_archive_cannot_do_is_refused(shell: Shell) -> None:
    """What changes a log or asks of its present goes to the log itself."""
    filled(shell)
    for words in (
        ("ingest", "log.jsonl"),
        ("status",),
        ("pending",),
        ("dead-letters",),
        ("rollback", *NOTES[1:], "--to", "2026-01-01", "--why", "x"),
        ("exclude", "t1", "--why", "x"),
    ):
        ended = shell(*words, *FROM)
        assert ended.code == 2, (words, ended)
    assert shell("archive", "other", *FROM).code == 2
    assert "--store archive:DIR" in shell("sql", "SELECT 1").err


def test_sql(shell: Shell) -> None:
    """A table, JSON with instants in RFC 3339 and wide integers as text, CSV, and what is wrong."""
    filled(shell)
    assert "fs_write" in shell("sql", "FROM leaderboard", *FROM).out
    asked = "SELECT recorded, 2::HUGEINT ** 60 AS wide, [1, NULL] AS some FROM facts LIMIT 1"
    (row,) = shell("sql", "--json", asked, *FROM).json
    assert row["recorded"].endswith("Z")
    assert row["some"] == [1, None]
    lines = shell("sql", "--csv", "SELECT 1 AS a, 'x,y' AS b, NULL AS c", *FROM).out
    assert lines == 'a,b,c\n1,"x,y",\n'
    two = shell("sql", "--json", *FROM, stdin=b"SELECT 1 AS a;\nSELECT\n2 AS a;\n.views people\n")
    assert two.out.splitlines()[:2] == ['{"a":1}', '{"a":2}']
    wrong = shell("sql", "SELEC", *FROM)
    assert (wrong.code, wrong.out) == (2, "")
    assert "SELEC" in wrong.err


def test_without_the_extra_the_commands_say_its_name(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What DuckDB is needed for is refused with the line that installs it."""
    filled(shell)
    monkeypatch.setattr(extra, "find_spec", lambda _: None)
    for words in (("archive", "archive"), ("scores", *FROM), ("sql", "SELECT 1", *FROM)):
        ended = shell(*words)
        assert (ended.code, ended.out) == (2, "")
        assert "pip install 'trustfold[duckdb]'" in ended.err
    assert shell("scores").code == 0


def test_the_command_line_starts_without_the_extra() -> None:
    """No command imports DuckDB, pyarrow or numpy before it needs them."""
    program = (
        "import sys, trustfold_streams.cli.front; "
        "print(sorted({'duckdb', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"


def test_decisions_are_archived(shell: Shell) -> None:
    """Each verdict as it was given, with its grounds, and again only once."""
    filled(shell)
    words = ("decide", *NOTES[1:], "--trace", "t9", "--step", "a", "--reversibility", "reversible")
    (made,) = shell(*words, "--json").json
    for _ in range(2):
        assert shell("archive", "archive").code == 0
    (row,) = shell("sql", "--json", "FROM decisions", *FROM).json
    assert (row["decision_id"], row["verdict"]) == (made["decision_id"], made["verdict"])
    assert (row["trace_id"], row["step_id"]) == ("t9", "a")
    assert json.loads(row["grounds"])["reason"] == row["reason"]
    assert shell("verify", *FROM).code == 0


def test_only_new_rows_are_archived(shell: Shell) -> None:
    """A second run writes nothing, a third what came meanwhile."""
    filled(shell)
    assert json.loads(shell("archive", "archive", "--json").out)["rows"] == 0
    shell.ingest(closed("later"))
    assert json.loads(shell("archive", "archive", "--json").out)["rows"] == 3
    assert verify_archive(shell.folder / "archive").ok


def test_odd_names_are_archived_as_they_are(shell: Shell) -> None:
    """NUL, quotes and other alphabets in names; and a field `trace_id` where it means nothing."""
    odd = Subject("", "t\x00ool'\"", "e\x00ff 😀")
    rolled = json.loads(rolled_back(odd, RECORDED_FROM))
    rolled["data"]["trace_id"] = "no trace of it"
    shell.ingest(
        closed("tr\x00ace", step("a", odd)),
        decided("tr\x00ace", step_ids=["a"]),
        synthesized("n\x00"),
        json.dumps(rolled).encode(),
    )
    assert shell("archive", "archive").code == 0
    assert shell("verify", *FROM).code == 0, shell("verify", *FROM)
    traces = shell("sql", "--json", "SELECT DISTINCT trace_id AS t FROM ledger", *FROM).json
    assert {row["t"] for row in traces} == {"tr\x00ace", None}


def test_an_archiver_that_is_really_killed(shell: Shell) -> None:
    """Kill -9 at moments of chance while the store grows: what the next one makes is whole."""
    chance = random.Random(11)
    subjects = [Subject("", f"tool{n}", "invoke") for n in range(40)]
    folder = shell.folder / "archive"
    for number in range(KILLS):
        events = [
            closed(f"t{number}-{n}", *(step(str(k), subjects[(n + k) % 40]) for k in range(5)))
            for n in range(150)
        ]
        shell.ingest(*events)
        with subprocess.Popen(
            [TRUSTFOLD, "archive", str(folder), "--follow", "--every", "0.1"], cwd=shell.folder
        ) as child:
            _until_it_writes(folder, child)
            time.sleep(chance.random() / 10)
            child.send_signal(signal.SIGKILL)
    assert shell("archive", "archive").code == 0
    report = verify_archive(folder)
    assert report.ok, report.findings
    assert not list(orphans(folder))
    rows = held(folder)
    for topic, table in (("facts", "facts"), ("ledger", "ledger")):
        (count,) = query(shell.store, f"SELECT count(*) FROM {table}")[0]
        assert len(rows[topic]) == count  # type: ignore[index]


def _until_it_writes(folder: Path, child: subprocess.Popen[bytes]) -> None:
    """Wait until the archiver has begun to write something that was not there."""
    known = set((folder / "segments").glob("*")) if folder.exists() else set()
    deadline = time.monotonic() + LONG_ENOUGH
    while time.monotonic() < deadline and child.poll() is None:
        if set((folder / "segments").glob("*")) - known:
            return
        time.sleep(0.001)
    pytest.fail("the archiver wrote nothing")


def test_following_ends_when_it_is_told_to(shell: Shell) -> None:
    """SIGTERM ends it between two passes, with exit 0."""
    filled(shell)
    with subprocess.Popen(
        [TRUSTFOLD, "archive", "archive", "--follow", "--every", "30"],
        cwd=shell.folder,
        stdout=subprocess.PIPE,
    ) as child:
        deadline = time.monotonic() + LONG_ENOUGH
        while time.monotonic() < deadline and not _is_held(shell.folder / "archive"):
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        assert child.wait(LONG_ENOUGH) == 0


def _is_held(folder: Path) -> bool:
    try:
        with writing(folder):
            return False
    except ArchiveBusyError:
        return True
