"""Dead letters and what is pending: looked at, mended, taken in after all, finished."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.commands import LONG_ENOUGH, TRUSTFOLD, Shell
from tests.embedded.documents import (
    DAY,
    NOTES,
    closed,
    decided,
    numbered,
    recorded_step,
    step,
)
from tests.embedded.feeding import query
from tests.oracles.histories import RECORDED_FROM
from trustfold_schemas.facts import Stamp
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore

BAD = b'{"half": \xff \x1b[2J'
TOO_SOON = closed("later", time=RECORDED_FROM + DAY)
HUMAN = decided("t1")


@pytest.fixture
def letters(shell: Shell) -> Shell:
    """A store with one trace and three dead letters: malformed, future, not_human."""
    with EmbeddedStore.open(shell.store, clock=ManualClock(RECORDED_FROM)) as store:
        store.ingest(numbered([closed("t1"), BAD, TOO_SOON], "log.jsonl"))
        store.ingest(numbered([HUMAN], "robot.jsonl"), Stamp("runtime"))
        assert [one.reason for one in store.dead_letters()] == ["malformed", "future", "not_human"]
    return shell


def grants(shell: Shell) -> object:
    """The notes' rate of grants."""
    (line,) = shell("score", NOTES.tool, NOTES.effect, "--json").json
    return line["human_approval_rate"]


# ---- list and show -----------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("list",)])
def test_dead_letters_are_listed(letters: Shell, arguments: tuple[str, ...]) -> None:
    """With or without `list`: each with number, reason, origin and what was wanted."""
    ended = letters("dead-letters", *arguments)
    assert (ended.code, ended.err) == (0, "")
    for word in ("malformed", "future", "not_human", "log.jsonl:2", "robot.jsonl:1"):
        assert word in ended.out
    lines = letters("dead-letters", *arguments, "--json").json
    assert [(line["id"], line["reason"], line["role"]) for line in lines] == [
        (1, "malformed", "owner"),
        (2, "future", "owner"),
        (3, "not_human", "runtime"),
    ]
    assert lines[1]["body"].encode() == TOO_SOON


def test_dead_letters_are_listed_by_reason(letters: Shell) -> None:
    """`--reason` may be given more than once; one that does not exist is wrong use."""
    arguments = ("dead-letters", "list", "--json", "--reason", "future", "--reason", "malformed")
    assert [line["id"] for line in letters(*arguments).json] == [1, 2]
    assert letters("dead-letters", "list", "--json", "--reason", "conflict").out == ""
    assert letters("dead-letters", "list", "--reason", "bad").code == 2


@pytest.mark.parametrize("arguments", [("--check",), ("list", "--check")])
def test_check_is_exit_1_while_there_are_any(letters: Shell, arguments: tuple[str, ...]) -> None:
    """For a timer or a pipeline: 1 with dead letters, 0 without."""
    assert letters("dead-letters", *arguments).code == 1
    letters.ingest()
    empty = ("--store", "empty.db")
    letters("ingest", letters.file(b""), *empty)
    ended = letters("dead-letters", *arguments, *empty)
    assert (ended.code, ended.out) == (0, "no dead letters\n")


def test_check_looks_at_the_reasons_asked_for(letters: Shell) -> None:
    """Other reasons do not count."""
    assert letters("dead-letters", "list", "--check", "--reason", "conflict").code == 0
    assert letters("dead-letters", "list", "--check", "--reason", "future").code == 1


@pytest.mark.parametrize("option", ["--check", "--json"])
def test_options_of_list_stand_after_the_sub_command(letters: Shell, option: str) -> None:
    """Before another sub-command they would mean nothing, so they are wrong use."""
    ended = letters("dead-letters", option, "show", "1")
    assert (ended.code, ended.out) == (2, "")
    assert option in ended.err


def test_one_dead_letter_is_shown_whole(letters: Shell) -> None:
    """All that is known of it, and its bytes made harmless for a terminal."""
    ended = letters("dead-letters", "show", "1")
    assert ended.code == 0
    for word in ("malformed", "log.jsonl:2", "owner", r"\x1b[2J"):
        assert word in ended.out
    assert "\x1b" not in ended.out
    (line,) = letters("dead-letters", "show", "3", "--json").json
    assert (line["id"], line["body"].encode()) == (3, HUMAN)


def test_the_bytes_of_a_dead_letter_are_given_back_unchanged(letters: Shell) -> None:
    """`show --body` writes just the bytes that came, whatever they were."""
    done = subprocess.run(
        [TRUSTFOLD, "dead-letters", "show", "1", "--body"],
        cwd=letters.folder,
        capture_output=True,
        timeout=LONG_ENOUGH,
        check=True,
    )
    assert (done.stdout, done.stderr) == (BAD, b"")


@pytest.mark.parametrize(
    "arguments", [("show", "9"), ("replay", "9"), ("replay", "1", "9"), ("replay",), ("show", "x")]
)
def test_a_dead_letter_that_does_not_exist_is_exit_2(
    letters: Shell, arguments: tuple[str, ...]
) -> None:
    """And nothing is replayed, not even the others that were named."""
    ended = letters("dead-letters", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert len(letters("dead-letters", "--json").json) == 3


# ---- replay ------------------------------------------------------------------------------------


def test_a_replay_of_unchanged_bytes_goes_under_their_own_id(letters: Shell) -> None:
    """What came too soon is taken in later, once; the letter is then out of the way."""
    assert letters("dead-letters", "replay", "2") == (0, "dead letter 2: accepted\n", "")
    assert query(letters.store, "SELECT body FROM facts WHERE body LIKE '%later%'") == [
        (TOO_SOON.decode(),)
    ]
    assert [line["id"] for line in letters("dead-letters", "--json").json] == [1, 3]
    all_of_them = letters("dead-letters", "list", "--all", "--json").json
    assert [line["replayed_as"] for line in all_of_them] == [None, "close/later", None]
    assert "future (replayed)" in letters("dead-letters", "list", "--all").out
    (again,) = letters("dead-letters", "replay", "2", "--json").json
    assert (again["result"], again["reason"]) == ("duplicates", None)
    assert letters("verify").code == 0


def test_a_replay_of_what_is_still_wrong_is_exit_1(letters: Shell) -> None:
    """The same refusal again, said again; of several the good ones are taken in."""
    ended = letters("dead-letters", "replay", "1", "2")
    assert ended.code == 1
    assert "dead letter 1: dead_letters: malformed" in ended.out
    assert "dead letter 2: accepted" in ended.out
    (first, _) = letters("dead-letters", "--json").json
    assert (first["id"], first["times"]) == (1, 2)


def test_a_repaired_dead_letter_goes_under_an_id_that_names_it(letters: Shell) -> None:
    """`--body FILE` is what was mended; once it is in, the letter is marked with its new id."""
    mended = letters.file(closed("mended"), "mended.json")
    ended = letters("dead-letters", "replay", "1", "--body", mended)
    assert ended == (0, "dead letter 1: accepted\n", "")
    ((event_id,),) = query(
        letters.store, "SELECT json_extract(body, '$.id') FROM facts WHERE body LIKE '%mended%'"
    )
    assert event_id.startswith("dead-letter/1/")
    (first, *_) = letters("dead-letters", "list", "--all", "--json").json
    assert first["replayed_as"] == event_id
    assert first["body"] == BAD.decode(errors="backslashreplace")
    again = letters("dead-letters", "replay", "1", "--body", mended)
    assert again.out == "dead letter 1: duplicates\n"
    assert letters("verify").code == 0


def test_a_dead_letter_saved_and_not_mended_goes_under_its_own_id(letters: Shell) -> None:
    """Bytes that were saved with `show --body` and left alone are unchanged bytes."""
    saved = letters.file(letters("dead-letters", "show", "2", "--body").out.encode() + b"\n")
    assert letters("dead-letters", "replay", "2", "--body", saved).code == 0
    (line,) = letters("dead-letters", "list", "--all", "--reason", "future", "--json").json
    assert line["replayed_as"] == "close/later"


@pytest.mark.parametrize(
    ("arguments", "content"),
    [(("1", "2"), closed("x")), (("1",), b"still no JSON"), (("1",), b"[1]")],
    ids=["two letters", "no JSON", "no object"],
)
def test_a_repair_that_can_be_none_is_exit_2(
    letters: Shell, arguments: tuple[str, ...], content: bytes
) -> None:
    """One file mends one letter, and has to be a JSON object; nothing is taken in."""
    mended = letters.file(content, "mended.json")
    ended = letters("dead-letters", "replay", *arguments, "--body", mended)
    assert (ended.code, ended.out) == (2, "")
    assert query(letters.store, "SELECT count(*) FROM facts") == [(1,)]


def test_a_runtimes_word_for_a_human_stays_refused(letters: Shell) -> None:
    """A replay speaks in the role of the first publisher: not_human again, and no grant."""
    ended = letters("dead-letters", "replay", "3")
    assert ended.code == 1
    assert "not_human" in ended.out
    assert grants(letters) == 0.5


def test_a_human_may_take_over_a_runtimes_word(letters: Shell) -> None:
    """With `--as human` it is said by a human, and counts."""
    ended = letters("--as", "human", "dead-letters", "replay", "3", "--json")
    assert ended.code == 0
    assert ended.json == [{"id": 3, "result": "accepted", "reason": None, "detail": None}]
    assert grants(letters) == 1.0
    rows = query(letters.store, "SELECT role FROM facts ORDER BY recorded")
    assert [role for (role,) in rows] == ["owner", "human"]


# ---- pending and sweep -------------------------------------------------------------------------


@pytest.fixture
def unfinished(shell: Shell) -> Shell:
    """A store with traces that wait since long ago: for a close, for steps, with feedback only."""
    with EmbeddedStore.open(shell.store, clock=ManualClock(RECORDED_FROM)) as store:
        said = [
            closed("done"),
            recorded_step("open", step()),
            closed("short", step(), step_count=3),
            decided("unheard of", "denied", subjects=[NOTES]),
        ]
        assert store.ingest(numbered(said)).accepted == 4
    return shell


def test_what_is_pending_is_listed_with_what_it_waits_for(unfinished: Shell) -> None:
    """The oldest first, with age; feedback without a close for 7 days is named as such."""
    ended = unfinished("pending")
    assert ended.code == 0
    for word in ("open", "short", "unheard of", "its close", "2 more steps", "trace_never_closed"):
        assert word in ended.out
    lines = unfinished("pending", "--json").json
    assert [(line["trace_id"], line["waits_for"], line["reason"]) for line in lines] == [
        ("open", "its close", None),
        ("short", "2 more steps", None),
        ("unheard of", "its close", "trace_never_closed"),
    ]
    assert all(line["age_seconds"] > 7 * 86_400 for line in lines)


def test_pending_check_is_exit_1_while_anything_waits(shell: Shell, unfinished: Shell) -> None:
    """1 with something pending, also as JSON; 0 and a sentence with nothing."""
    assert unfinished("pending", "--check").code == 1
    assert unfinished("pending", "--check", "--json").code == 1
    unfinished("ingest", unfinished.file([closed("t")]), "--store", "other.db")
    ended = unfinished("pending", "--check", "--store", "other.db")
    assert (ended.code, ended.out) == (0, "nothing is pending\n")


def test_sweep_closes_what_nobody_finished(unfinished: Shell) -> None:
    """Traces with steps are closed as abandoned, those that wait for steps fold; feedback waits."""
    assert unfinished("sweep", "--json").json == [{"abandoned": 2}]
    left = unfinished("pending", "--json").json
    assert [line["trace_id"] for line in left] == ["unheard of"]
    outcomes = query(unfinished.store, "SELECT trace_id, outcome FROM traces ORDER BY trace_id")
    assert outcomes == [
        ("done", "done"),
        ("open", "abandoned"),
        ("short", "done"),
        ("unheard of", None),
    ]
    bodies = query(unfinished.store, "SELECT body FROM facts ORDER BY recorded DESC LIMIT 2")
    closes = [json.loads(body) for (body,) in bodies]
    assert {(one["source"], one["id"]) for one in closes} == {
        ("trustfold", "abandoned/open"),
        ("trustfold", "abandoned/short"),
    }
    assert unfinished("sweep").out == "0 traces closed as abandoned\n"
    assert unfinished("verify").code == 0


def test_what_is_not_overdue_is_not_swept(shell: Shell) -> None:
    """A trace that began just now waits on."""
    shell.ingest(recorded_step("open", step()))
    assert shell("sweep", "--json").json == [{"abandoned": 0}]
    assert len(shell("pending", "--json").json) == 1
