"""Each command with `--store kafka://...` against a real broker and a worker in its own process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import trustfold
from compose.kafka.broker import Broker
from tests.broker.pipeline import close, table
from tests.broker.processes import ROOT, WorkerProcess
from tests.broker.running import Running
from tests.cli.commands import TRUSTFOLD, Ended, Shell, counts
from tests.embedded.documents import event
from trustfold_schemas.instants import MINUTE, format_instant
from trustfold_schemas.receipts import Document
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.lines import Source
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka import admin, topics
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.standing import Standing

pytestmark = pytest.mark.broker

PARTITIONS = 2
EVENTS = ROOT / "examples" / "first_month.jsonl"
SHELL = ("shell", "shell:vcs_write")
SECONDS_MAX = 60.0
WHOLE_MONTH_SECONDS_MAX = 300.0


class Pipeline(NamedTuple):
    """Topics, and what a test wants of them."""

    settings: KafkaSettings

    @property
    def store(self) -> str:
        """As `--store` names it."""
        return f"kafka://{self.settings.bootstrap}"

    def caught_up(self) -> None:
        """Wait until everything published before this call is in the table."""
        asyncio.run(table(self.settings))

    def settled_now(self) -> str:
        """The present moment, once the log has settled by then."""
        moment = SystemClock().now()

        async def settled() -> None:
            async with asyncio.timeout(SECONDS_MAX):
                while True:
                    found = await Standing.read(self.settings, SystemClock())
                    if found.settled_up_to() >= moment:
                        return
                    await asyncio.sleep(0.2)

        asyncio.run(settled())
        return format_instant(moment)


def made(bootstrap: str) -> Pipeline:
    """A pipeline with topics and nobody at work."""
    settings = KafkaSettings(bootstrap, f"t{uuid.uuid4().hex[:12]}.", PARTITIONS)
    asyncio.run(topics.create(settings))
    return Pipeline(settings)


@pytest.fixture(scope="module")
def pipeline(broker: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """A pipeline with a worker that has folded an agent's first month; tests take other names."""
    found = made(broker.bootstrap)
    worker = WorkerProcess(found.settings, tmp_path_factory.mktemp("worker") / "log")
    try:
        asyncio.run(worker.ready())
        with pytest.MonkeyPatch.context() as patch:
            configure(patch, found)
            words = ("--store", found.store, "ingest", "--medians-first", "--json", str(EVENTS))
            done = subprocess.run(
                [TRUSTFOLD, *words], capture_output=True, timeout=SECONDS_MAX, check=True
            )
        assert json.loads(done.stdout) == {**counts(137), "medians": counts(25)}
        found.caught_up()
        yield found
    finally:
        worker.end()


@pytest.fixture
def idle(broker: Running) -> Pipeline:
    """A pipeline on which nobody works."""
    return made(broker.bootstrap)


def configure(patch: pytest.MonkeyPatch, pipeline: Pipeline) -> None:
    """Name its topics in the environment, as a user does."""
    patch.setenv("TRUSTFOLD_TOPIC_PREFIX", pipeline.settings.prefix)
    patch.setenv("TRUSTFOLD_TOPIC_PARTITIONS", str(pipeline.settings.partitions))


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    """A folder in which commands are run."""
    return Shell(tmp_path, capsys, monkeypatch)


Run = Callable[..., Ended]


@pytest.fixture
def run(pipeline: Pipeline, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command on the pipeline."""
    configure(monkeypatch, pipeline)
    return lambda *arguments, **more: shell(*arguments, "--store", pipeline.store, **more)


@pytest.fixture
def embedded(shell: Shell) -> Run:
    """Runs a command on a file that holds the same month."""
    assert shell("ingest", "--medians-first", str(EVENTS)).code == 0
    return shell


def signal(name: str, subject: Subject, value: float = 1, minute: int = 0) -> bytes:
    """Ready-made evidence of a trace of this name."""
    data = {"trace_id": name, "subject": subject, "tool_success": value}
    moment = SystemClock().now() // MINUTE * MINUTE - 60 * MINUTE
    return event("signals.reported", name, data, moment + minute * MINUTE)


def said(ended: Ended) -> dict[str, Any]:
    """The one object that a command printed."""
    assert ended.code == 0, ended
    (value,) = ended.json
    return dict(value)


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
        words = ("explain", *SHELL, "--at", "2026-02-01", "--without", name, "--json")
        ours, theirs = said(run(*words)), said(embedded(*words))
        assert ours["without"] == theirs["without"]
        assert ours["terms"] == theirs["terms"]
        assert [one["event_id"] for one in ours["latest"]] == [
            one["event_id"] for one in theirs["latest"]
        ]
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


# ---- dead letters ------------------------------------------------------------------------------


def letter_of(run: Run, trace_id: str, *more: str) -> dict[str, Any]:
    """The only dead letter that names a trace."""
    letters = run("dead-letters", "list", "--json", *more).json
    (found,) = [one for one in letters if f'"{trace_id}"' in one["body"]]
    return dict(found)


def test_a_dead_letter_is_repaired_and_replayed(pipeline: Pipeline, run: Run, shell: Shell) -> None:
    """Its bytes are saved, mended and sent to the topic it came from, under an id naming it."""
    subject = Subject("", "repaired", "invoke")
    bad = signal("d1", subject, 1.5)
    assert run("ingest", shell.file([bad])).code == 0
    pipeline.caught_up()
    letter = letter_of(run, "d1")
    number = str(letter["id"])
    assert (letter["reason"], letter["role"], letter["times"]) == ("invalid", "operator", 1)
    assert letter["origin"].startswith(f"{pipeline.settings.prefix}signals/")
    assert run("dead-letters", "--check").code == 1
    assert "tool_success" in run("dead-letters", "show", number).out
    assert run("dead-letters", "show", number, "--json").json == [letter]
    assert json.loads(letter["body"]) == json.loads(bad)

    unchanged = run("dead-letters", "replay", number, "--json")
    assert (unchanged.code, unchanged.json[0]["reason"]) == (1, "invalid")
    mended = shell.file(bad.replace(b"1.5", b"1"), "mended.json")
    done = said(run("dead-letters", "replay", number, "--body", mended, "--json"))
    assert done["result"] == "accepted"
    pipeline.caught_up()
    assert said(run("score", *subject[1:], "--json"))["n_samples"] == 1
    replayed = letter_of(run, "d1", "--all")
    assert replayed["replayed_as"].startswith(f"dead-letter/{number}/")
    assert "d1" not in run("dead-letters", "list", "--json").out


def test_a_dead_letter_is_replayed_as_it_is(pipeline: Pipeline, run: Run, shell: Shell) -> None:
    """Refused by correlation again, it is a dead letter again and no replayed one."""
    lines = [close("again", Subject("", "again", "invoke"))]
    lines.append(lines[0].replace(b"close/again", b"another id"))
    assert run("ingest", shell.file(lines)).code == 0
    pipeline.caught_up()
    letter = letter_of(run, "again")
    assert letter["reason"] == "already_closed"
    assert said(run("dead-letters", "replay", str(letter["id"]), "--json"))["result"] == "accepted"
    pipeline.caught_up()
    found = letter_of(run, "again")
    assert (found["id"], found["times"], found["replayed"]) == (letter["id"], 2, None)


def test_a_dead_letter_is_replayed_in_another_role(
    pipeline: Pipeline, run: Run, shell: Shell
) -> None:
    """A human's word that a runtime sent counts once a human sends it: to the topic of humans."""
    subject = Subject("", "spoken", "invoke")
    by = {"decision": "granted", "decided_by": {"kind": "human", "id": "ann"}}
    moment = SystemClock().now() - MINUTE
    word = event("approval.decided", "spoken/granted", {"trace_id": "spoken", **by}, moment)
    assert run("ingest", shell.file([close("spoken", subject)])).code == 0
    assert run("--as", "runtime", "ingest", shell.file([word]), "--strict").code == 1
    pipeline.caught_up()
    letter = letter_of(run, "spoken")
    assert letter["reason"] == "not_human"
    number = str(letter["id"])
    assert run("dead-letters", "replay", number).code == 1
    assert run("--as", "human", "dead-letters", "replay", number).code == 0
    pipeline.caught_up()
    assert said(run("score", *subject[1:], "--json"))["human_approval_rate"] == 1
    assert letter_of(run, "spoken", "--all")["replayed_as"] == "spoken/granted"


# ---- when it cannot be ---------------------------------------------------------------------------


def test_without_a_worker_scores_are_refused(
    idle: Pipeline, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 3 for all that rests on the table; the topics can be written and looked at."""
    configure(monkeypatch, idle)
    store = ("--store", idle.store)
    for words in (
        ["scores"],
        ["score", *SHELL],
        ["explain", *SHELL],
        ["pending"],
        ["rollback", *SHELL, "--to", "2026-01-01", "--why", "x"],
    ):
        ended = shell(*words, *store)
        assert (ended.code, ended.out) == (3, ""), words
        assert "is a worker running?" in ended.err
    as_of = shell("scores", "--as-of", "2026-01-01", *store)
    assert (as_of.code, "is one running?" in as_of.err) == (2, True)
    file = shell.file([signal("i1", Subject("", "idle", "invoke"))])
    assert said(shell("ingest", file, "--json", *store)) == counts(1)
    assert shell("dead-letters", "--check", *store).code == 0
    status = said(shell("status", "--json", *store))
    assert (status["stale"], status["complete_as_of"], status["stages"]) == (True, None, [])
    assert "readers refuse it" in shell("status", *store).out


def test_missing_topics_are_named(
    broker: Running, shell: Shell, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    """Exit 3, and how to make them; nothing is waited for."""
    monkeypatch.setenv("TRUSTFOLD_TOPIC_PREFIX", prefix)
    for words in (["scores"], ["status"], ["ingest", shell.file([b"{}"])], ["dead-letters"]):
        ended = shell(*words, "--store", broker.store)
        assert ended.code == 3, words
        assert f"{prefix}" in ended.err
        assert "trustfold topics create" in ended.err


def test_another_number_of_partitions_is_refused(
    idle: Pipeline, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subject would be looked for where it is not: exit 3, and what to set."""
    configure(monkeypatch, idle)
    monkeypatch.setenv("TRUSTFOLD_TOPIC_PARTITIONS", "7")
    ended = shell("scores", "--store", idle.store)
    assert (ended.code, ended.out) == (3, "")
    assert "TRUSTFOLD_TOPIC_PARTITIONS" in ended.err


def test_a_frozen_broker_is_exit_3(
    own_broker: Running, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not answer is given up after the bounded wait, in one line."""
    assert own_broker.process is not None
    monkeypatch.setattr(admin, "REQUEST_TIMEOUT_MS", 500)
    own_broker.process.freeze()
    ended = shell("scores", "--store", own_broker.store)
    assert (ended.code, ended.out, ended.err.count("\n")) == (3, "", 1)
    assert f"no broker answers at {own_broker.bootstrap}" in ended.err


def test_a_broker_that_dies_on_the_way_is_exit_3(
    own_broker: Running, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was acknowledged before is counted, and the command ends within its bounded wait."""
    assert own_broker.process is not None
    process = own_broker.process
    found = made(own_broker.bootstrap)
    configure(monkeypatch, found)
    monkeypatch.setattr("trustfold_streams.kafka.publisher.GIVE_UP_SECONDS", 1.0)
    subject = Subject("", "lost", "invoke")

    def documents(source: Source) -> Iterator[Document]:
        yield Document(signal("l1", subject), source.name)
        process.kill()
        yield Document(signal("l2", subject), source.name)

    monkeypatch.setattr(Source, "documents", documents)
    ended = shell("ingest", "-", "--batch", "1", "--json", "--store", found.store)
    assert (ended.code, ended.json) == (3, [counts(1)])
    assert "was not acknowledged" in ended.err or "was lost" in ended.err


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
