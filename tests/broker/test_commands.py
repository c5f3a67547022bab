"""Each command with `--store kafka://...` against a real broker and a worker in its own process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import trustfold
from compose.kafka.broker import Broker
from tests.broker.command_pipelines import (
    PARTITIONS,
    SECONDS_MAX,
    SHELL,
    Pipeline,
    Run,
    configure,
    said,
    signal,
)
from tests.broker.processes import ROOT
from tests.cli.commands import Ended, Shell, counts
from tests.embedded.documents import event
from trustfold_schemas.instants import MINUTE, format_instant
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import SystemClock

pytestmark = pytest.mark.broker

WHOLE_MONTH_SECONDS_MAX = 300.0


# ---- reading -----------------------------------------------------------------------------------


def test_scores_are_those_of_the_file(run: Run, embedded: Run) -> None:
    """`scores --json` prints the subjects of the month with the digests of the embedded store."""
    ours = {tuple(one["subject"]): one["digest"] for one in run("scores", "--json").json}
    theirs = {tuple(one["subject"]): one["digest"] for one in embedded("scores", "--json").json}
    assert len(theirs) == 10
    assert theirs.items() <= ours.items()
    assert "shell:vcs_write" in run("scores").out


def test_a_score_is_that_of_the_file(run: Run, embedded: Run) -> None:
    """`score` and `score --json` print the same at the same moment, but for nothing."""
    at = ("--at", "2026-02-01")
    assert run("score", *SHELL, *at) == embedded("score", *SHELL, *at)
    assert run("score", *SHELL, *at, "--json") == embedded("score", *SHELL, *at, "--json")


def test_an_unknown_subject_is_exit_1(run: Run) -> None:
    """For `score`, `explain` and `rollback` alike, on standard error."""
    for words in (("score",), ("explain",), ("rollback", "--to", "2026-01-01", "--why", "x")):
        ended = run(words[0], "nobody", "invoke", *words[1:])
        assert (ended.code, ended.out) == (1, ""), words
        assert "nothing is known of nobody" in ended.err


def test_scores_as_of_a_moment_come_from_the_ledger(pipeline: Pipeline, run: Run) -> None:
    """Before anything there is nothing; once settled, it is the table of that moment."""
    assert run("scores", "--as-of", "2026-01-01", "--json") == Ended(0, "", "")
    assert run("score", *SHELL, "--as-of", "2026-01-01").code == 1
    moment = pipeline.settled_now()
    at = ("--at", moment, "--json")
    then = {tuple(one["subject"]): one["digest"] for one in run("scores", *at).json}
    as_of = run("scores", "--as-of", moment, *at)
    assert {tuple(one["subject"]): one["digest"] for one in as_of.json} == then
    one = said(run("score", *SHELL, "--as-of", moment, "--json"))
    assert (one["digest"], one["as_of"]) == (then[("", *SHELL)], moment)


def test_a_moment_that_has_not_settled_is_refused(run: Run) -> None:
    """The present one and one to come are wrong use; the message says what can be asked."""
    now = run("scores", "--as-of", format_instant(SystemClock().now()))
    assert (now.code, now.out) == (2, "")
    assert "the log has settled up to 20" in now.err
    later = run("score", *SHELL, "--as-of", "2099-01-01")
    assert (later.code, later.out) == (2, "")
    assert "has not come" in later.err


def test_an_explanation_is_that_of_the_file(run: Run, embedded: Run) -> None:
    """`explain --without` an event, or a trace, gives the numbers of the embedded store."""
    for name in ("jan-02-c/closed", "jan-02-c"):
        words = (
            "explain",
            *SHELL,
            "--at",
            "2026-02-01",
            "--latest",
            "99",
            "--without",
            name,
            "--json",
        )
        ours, theirs = said(run(*words)), said(embedded(*words))
        assert ours["without"] == theirs["without"]
        assert ours["terms"] == theirs["terms"]
        # They arrived in another order, which no score may depend on.
        entries = [sorted(one["entry_id"] for one in of["latest"]) for of in (ours, theirs)]
        assert entries[0] == entries[1]
    unknown = run("explain", *SHELL, "--without", "nothing")
    assert unknown.code == 2
    assert "named 'nothing'" in unknown.err


def test_status_tells_how_far_every_stage_is(pipeline: Pipeline, run: Run) -> None:
    """Topics with what they hold, every stage and partition, and as of when it is complete."""
    status = said(run("status", "--json"))
    assert (status["bootstrap"], status["prefix"]) == (
        pipeline.settings.bootstrap,
        pipeline.settings.prefix,
    )
    assert status["stale"] is False
    assert status["complete_as_of"] > "2026"
    held = {one["topic"]: one["offsets"] for one in status["topics"]}
    assert held["trace-closed"] >= 60
    assert held["facts"] >= 137
    assert held["cost-median"] == 25
    places = {(one["stage"], one["partition"]) for one in status["stages"]}
    for stage in ("correlate", "fold", "ingest/trace-closed", "ingest/rollback"):
        assert {(stage, p) for p in range(PARTITIONS)} <= places
    assert "complete as of 20" in run("status").out


def test_pending_tells_of_what_waits(pipeline: Pipeline, run: Run) -> None:
    """A trace with a step and no close is pending; `--check` is then exit 1."""
    step = {"step_id": "1", "tool": "waiting", "effect": "invoke", "status": "ok"}
    data = {"trace_id": "w1", "step": step}
    body = event("step.recorded", "w1/1", data, SystemClock().now() - MINUTE)
    assert said(run("ingest", "-", "--json", stdin=body)) == counts(1)
    pipeline.caught_up()
    ended = run("pending", "--check", "--json")
    assert ended.code == 1
    (waiting,) = [one for one in ended.json if one["trace_id"] == "w1"]
    assert (waiting["steps"], waiting["waits_for"]) == (1, "its close")
    assert "w1" in run("pending").out


# ---- writing -----------------------------------------------------------------------------------


def test_ingest_counts_what_was_acknowledged(pipeline: Pipeline, run: Run, shell: Shell) -> None:
    """Twice the same is accepted twice and folded once; what is no event is a dead letter."""
    subject = Subject("", "counted", "invoke")
    file = shell.file([signal("c1", subject), signal("c1", subject), b"no event"])
    ended = run("ingest", file, "--json", "--strict")
    assert (ended.code, ended.json) == (1, [counts(2, dead_letters=1)])
    assert "log.jsonl:3: malformed" in ended.err
    pipeline.caught_up()
    assert said(run("score", *subject[1:], "--json"))["n_samples"] == 1


def test_a_line_that_is_too_long_is_kept_in_part(
    pipeline: Pipeline, run: Run, shell: Shell
) -> None:
    """An input topic takes 2 MiB: the beginning is kept as the dead letter `too_large`."""
    ended = run("ingest", shell.file(b"x" * (5 << 20)), "--json")
    assert ended.json == [counts(0, dead_letters=1)]
    pipeline.caught_up()
    letters = run("dead-letters", "list", "--reason", "too_large", "--json").json
    assert [len(one["body"]) > 1 << 20 for one in letters] == [True]


def test_a_rollback_and_its_lifting(pipeline: Pipeline, run: Run, shell: Shell) -> None:
    """A dry run foretells what the table then shows; lifted, it is bit for bit as before."""
    subject = Subject("", "rolled", "invoke")
    words = subject[1:]
    assert run("ingest", shell.file([signal("r1", subject)])).code == 0
    pipeline.caught_up()
    then = format_instant(SystemClock().now())
    assert run("ingest", shell.file([signal("r2", subject, 0)])).code == 0
    pipeline.caught_up()
    author = ("--why", "a broken sensor", "--json")
    foretold = said(run("rollback", *words, "--to", then, "--dry-run", *author))
    assert foretold["id"] is None
    done = said(run("rollback", *words, "--to", then, *author))
    assert (done["before"], done["after"]["digest"]) == (
        {**foretold["before"], "score": done["before"]["score"]},
        foretold["after"]["digest"],
    )
    assert done["after"]["rollbacks"] == [done["id"]]
    assert said(run("score", *words, "--json"))["rollbacks"] == 1
    foretold = said(run("lift", done["id"], "--dry-run", *author))
    lifted = said(run("lift", done["id"], *author))
    assert lifted["after"]["digest"] == foretold["after"]["digest"] == done["before"]["digest"]
    again = run("lift", done["id"], *author)
    assert again.code == 2
    assert f"no rollback in force is named '{done['id']}'" in again.err


def test_a_trace_is_excluded_and_included(pipeline: Pipeline, run: Run, shell: Shell) -> None:
    """The scores follow; a trace of which no fact is known is wrong use."""
    subject = Subject("", "excluded", "invoke")
    assert run("ingest", shell.file([signal("x1", subject)])).code == 0
    pipeline.caught_up()
    for command, samples in (("exclude", 0), ("include", 1)):
        ended = run(command, "x1", "--why", "a rehearsal", "--json")
        assert said(ended) == {f"{command}d": "x1"}
        pipeline.caught_up()
        assert said(run("score", *subject[1:], "--json"))["n_samples"] == samples
    unknown = run("exclude", "x2", "--why", "a rehearsal")
    assert unknown.code == 2
    assert "named 'x2'" in unknown.err


def test_a_reader_publishes_nothing(run: Run, shell: Shell) -> None:
    """`--as reader` is wrong use for what writes, and nothing is sent."""
    file = shell.file([signal("n1", Subject("", "never", "invoke"))])
    for words in (("ingest", file), ("rollback", *SHELL, "--to", "2026-01-01", "--why", "x")):
        ended = run("--as", "reader", *words)
        assert (ended.code, ended.err.count("the role reader publishes nothing")) == (2, 1)
    assert run("--as", "reader", "score", *SHELL).code == 0


# ---- the Python API and the month as a whole ---------------------------------------------------


def test_connect_reads_and_writes(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """`trustfold.connect("host:9092")` is a TrustStore: what is published shows in a while."""
    configure(monkeypatch, pipeline)

    async def story() -> trustfold.TrustScore:
        async with trustfold.connect(pipeline.settings.bootstrap) as store:
            await store.update(("connected", "invoke"), {"tool_success": 1})
            async with asyncio.timeout(SECONDS_MAX):
                while True:
                    score = await store.get(("connected", "invoke"))
                    if score is not None:
                        return score
                    await store.table.changed(1.0)

    assert asyncio.run(story()).n_samples == 1


def test_the_first_month_on_kafka(tmp_path: Path) -> None:
    """What `make run-kafka` runs: equal digests, exit 0, and nothing of it is left running."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "first_month_on_kafka.py"), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=WHOLE_MONTH_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(
        "10 subjects, each with the content digest of the embedded store\nbroker down\n"
    )
    assert Broker(tmp_path / "run" / "broker").pid is None
