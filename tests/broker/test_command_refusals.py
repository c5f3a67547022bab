"""Dead letters of a pipeline on the command line, and commands that cannot be carried out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.command_pipelines import SHELL, Pipeline, Run, configure, made, said, signal
from tests.broker.pipeline import close
from tests.broker.running import Running
from tests.cli.commands import Shell, counts
from tests.embedded.documents import event
from trustfold_schemas.instants import MINUTE
from trustfold_schemas.receipts import Document
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.lines import Source
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka import admin, publisher, visit

pytestmark = pytest.mark.broker


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
    assert letter["id"] not in [one["id"] for one in run("dead-letters", "list", "--json").json]


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
    monkeypatch.setattr(visit, "SIGN_SECONDS_MAX", 0.0)
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
    monkeypatch.setattr(publisher, "GIVE_UP_SECONDS", 2.0)
    monkeypatch.setattr(publisher, "STOP_SECONDS_MAX", 0.5)
    subject = Subject("", "lost", "invoke")

    def documents(source: Source) -> Iterator[Document]:
        yield Document(signal("l1", subject), source.name)
        process.kill()
        yield Document(signal("l2", subject), source.name)

    monkeypatch.setattr(Source, "documents", documents)
    ended = shell("ingest", "-", "--batch", "1", "--json", "--store", found.store)
    assert (ended.code, ended.json) == (3, [counts(1)])
    assert "was not acknowledged" in ended.err or "was lost" in ended.err
