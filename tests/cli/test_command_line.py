"""The command line as a whole: front page, help, options, exit codes, what an error looks like."""

from __future__ import annotations

import shlex
import sqlite3
from contextlib import closing

import pytest

from tests.cli.commands import Shell
from tests.embedded.documents import NOTES, closed, decided, step
from tests.embedded.tampering import tamper
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.front import cli

READING = [
    ["scores"],
    ["score", "fs_write", "fs_write:~/notes/*"],
    ["verify"],
    ["status"],
    ["scores", "--as-of", "2026-01-01"],
]


# ---- front page and help ---------------------------------------------------------------------


def test_the_front_page_shows_what_a_newcomer_needs(shell: Shell) -> None:
    """`trustfold` alone names the first commands and the store, and makes none."""
    ended = shell()
    assert ended.code == 0
    for word in ("trustfold ingest", "trustfold scores", "trustfold verify", "trust.db"):
        assert word in ended.out
    assert not shell.store.exists()


@pytest.mark.parametrize("name", sorted(cli.commands))
def test_every_command_has_help(shell: Shell, name: str) -> None:
    """`--help` and `-h` say how a command is called and what it does, and do nothing."""
    ended = shell(name, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: trustfold {name} ")
    assert cli.commands[name].get_short_help_str()
    assert shell(name, "-h") == ended
    assert list(shell.folder.iterdir()) == []


EXAMPLES = [
    command.epilog.removeprefix("Example: trustfold ")
    for command in cli.commands.values()
    if command.epilog
]


def test_there_are_examples() -> None:
    """The test below would pass without any."""
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_in_a_help_is_a_call(example: str) -> None:
    """Arguments and options of the example are such that the command would take them."""
    context = cli.make_context("trustfold", shlex.split(example))
    name, command, arguments = cli.resolve_command(context, context._protected_args + context.args)
    assert command is not None
    command.make_context(name, arguments, parent=context)  # raises UsageError


def test_help_lists_every_command(shell: Shell) -> None:
    """`trustfold --help` names all commands and the exit codes."""
    ended = shell("--help")
    assert ended.code == 0
    assert "Exit codes" in ended.out
    for name in cli.commands:
        assert f"\n  {name} " in ended.out


def test_the_version_is_told(shell: Shell) -> None:
    """`--version` prints name and version on a line."""
    ended = shell.installed("--version")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("trustfold")


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["scores", "--nonsense"], ["ingest"], ["score", "shell"], ["scores", "--top=0"]],
)
def test_wrong_use_is_exit_2(shell: Shell, arguments: list[str]) -> None:
    """Unknown commands, options and missing arguments say how it is done, on standard error."""
    ended = shell(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Usage: trustfold" in ended.err
    assert not shell.store.exists()


# ---- the store -------------------------------------------------------------------------------


def test_the_store_is_named_before_or_after_the_command(shell: Shell) -> None:
    """`--store` means the same in both places; the nearer one wins."""
    log = shell.file([closed("t1")])
    assert shell("--store", "one.db", "ingest", log).code == 0
    assert shell("ingest", log, "--store", "two.db").code == 0
    assert shell("--store", "no.db", "ingest", log, "--store", "three.db").code == 0
    assert sorted(path.name for path in shell.folder.glob("*.db")) == [
        "one.db",
        "three.db",
        "two.db",
    ]
    before, after = shell("--store", "one.db", "scores"), shell("scores", "--store", "one.db")
    assert before.code == after.code == 0
    assert "fs_write" in before.out
    assert "fs_write" in after.out


@pytest.mark.parametrize("arguments", READING)
def test_reading_makes_no_store(shell: Shell, arguments: list[str]) -> None:
    """Without a store, reading is exit 2, names the path and the way out, and makes no file."""
    ended = shell(*arguments, "--store", "gone.db")
    assert (ended.code, ended.out) == (2, "")
    assert "gone.db" in ended.err
    assert "trustfold ingest" in ended.err
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize("arguments", [*READING, ["ingest", "log.jsonl"]])
def test_a_foreign_file_is_exit_3(shell: Shell, arguments: list[str]) -> None:
    """A file of another program is refused in one sentence and stays as it was."""
    shell.file([closed("t1")])
    with closing(sqlite3.connect(shell.store)) as other, other:
        other.execute("CREATE TABLE users (name TEXT)")
    content = shell.store.read_bytes()
    ended = shell(*arguments)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("trustfold: trust.db is a SQLite file of another program")
    assert shell.store.read_bytes() == content


def test_a_missing_folder_is_exit_2(shell: Shell) -> None:
    """A store in a folder that is not there is wrong use."""
    ended = shell("ingest", shell.file([closed("t1")]), "--store", "no/such/trust.db")
    assert ended.code == 2
    assert "no/such" in ended.err


def test_a_store_of_another_kind_is_exit_2(shell: Shell) -> None:
    """A scheme that names no store here is refused, and no file of that name is made."""
    assert shell("scores", "--store", "ftp://somewhere/trust.db").code == 2
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["scores", "--store", ""], "--store names nothing"),
        (["scores", "--store", "archive:"], "names no folder"),
        (["scores", "--store", "archive:log.jsonl"], "log.jsonl is a file"),
        (["sql", "SELECT 1"], "trustfold archive DIR"),
        (["mode", "--store", "archive:here"], "the store that the archive was made from"),
        (["sweep", "--store", "kafka://127.0.0.1:1"], "the workers sweep"),
    ],
)
def test_a_store_that_does_not_fit_is_exit_2(shell: Shell, arguments: list[str], word: str) -> None:
    """What a command cannot work on is refused with the way out, and nothing is made."""
    shell.file([closed("t1")])
    ended = shell(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert word in ended.err
    assert [path.name for path in shell.folder.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_role_is_named_before_or_after_the_command(shell: Shell, place: str) -> None:
    """`--as` narrows what a command may do, in both places; a reader writes nothing."""
    log, role = shell.file([closed("t1")]), ["--as", "reader"]
    assert shell("ingest", log).code == 0
    exclude = ["exclude", "t1", "--why", "a test"]
    refused = shell(*role, *exclude) if place == "before" else shell(*exclude, *role)
    assert (refused.code, refused.out) == (2, "")
    assert "the role reader writes nothing" in refused.err
    assert shell(*role, "scores").code == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_a_letter_gets_its_number(shell: Shell, encoding: str) -> None:
    """A name that standard output cannot encode is escaped, and the rest is printed."""
    shell.ingest(closed("t1", step("s1", Subject("", "команда", "fs_write:~/notes/*"))))
    ended = shell.installed("scores", environment={"PYTHONIOENCODING": encoding})
    assert (ended.code, ended.err) == (0, "")
    assert "\\u043a" in ended.out
    assert "fs_write:~/notes/*" in ended.out


def test_a_narrow_terminal_breaks_lines_and_no_words(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table is as wide as it needs up to 80 columns, however narrow the terminal is."""
    shell.ingest(closed("t1"))
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    ended = shell("scores")
    assert ended.code == 0
    assert "fs_write" in ended.out


# ---- verify and status -----------------------------------------------------------------------


def test_verify_is_exit_0_when_all_is_well(shell: Shell) -> None:
    """It says what was proven, how much of it, and the head of the chain."""
    shell.ingest(closed("t1"), decided("t1"))
    ended = shell("verify")
    assert ended.code == 0
    for proof in ("facts", "ledger", "traces", "table", "dead letters"):
        assert proof in ended.out
    assert "2 facts" in ended.out
    assert "4 entries" in ended.out
    (report,) = shell("verify", "--json").json
    assert report["ok"] is True
    assert (report["facts"], report["findings"]) == (2, [])
    assert f"head {report['head']}" in ended.out


def test_verify_is_exit_1_and_names_what_differs(shell: Shell) -> None:
    """Every difference is a line; the JSON names proof, place and difference."""
    shell.ingest(closed("t1"))
    tamper(shell.store, "UPDATE scores SET digest = zeroblob(32)")
    ended = shell("verify")
    assert ended.code == 1
    assert ended.out.count("difference in table: score of") == 2
    json_ended = shell("verify", "--json")
    assert json_ended.code == 1
    (report,) = json_ended.json
    assert report["ok"] is False
    assert {finding["proof"] for finding in report["findings"]} == {"table"}
    assert all(finding["where"] and finding["difference"] for finding in report["findings"])


def test_verify_with_an_anchor(shell: Shell) -> None:
    """An earlier head of this log is accepted; another one is a difference."""
    shell.ingest(closed("t1"))
    (before,) = shell("status", "--json").json
    shell.ingest(closed("t2"))
    assert shell("verify", "--anchor", before["head"]).code == 0
    ended = shell("verify", "--anchor", "ab" * 32)
    assert ended.code == 1
    assert "ab" * 32 in ended.out


@pytest.mark.parametrize("anchor", ["", "ab", "xy" * 32, "AB" * 33])
def test_a_bad_anchor_is_exit_2(shell: Shell, anchor: str) -> None:
    """What cannot be a head is wrong use, and the message says what one looks like."""
    shell.ingest(closed("t1"))
    ended = shell("verify", "--anchor", anchor)
    assert ended.code == 2
    assert "64 hexadecimal digits" in ended.err


def test_status_counts_what_the_store_holds(shell: Shell) -> None:
    """For people and as JSON: facts by type, entries, subjects, traces, dead letters, the head."""
    shell("ingest", shell.file([closed("t1"), decided("t1"), closed("t2"), b"x"]))
    (known,) = shell("status", "--json").json
    assert known["facts"] == 3
    assert known["facts_by_type"] == {"approval.decided.v1": 1, "trace.closed.v1": 2}
    assert (known["entries"], known["subjects"], known["traces"]) == (6, 2, 2)
    assert known["dead_letters_by_reason"] == {"malformed": 1}
    assert known["first_recorded"].endswith("Z")
    ended = shell("status")
    assert ended.code == 0
    for word in ("approval.decided", "malformed", known["head"]):
        assert word in ended.out


def test_a_corrupt_score_is_exit_3_and_never_shown(shell: Shell) -> None:
    """A damaged record is said to be no trust; the other subjects are shown all the same."""
    shell.ingest(closed("t1"))
    tamper(shell.store, "UPDATE scores SET digest = zeroblob(32) WHERE subject_id = 1")
    ended = shell("scores", "--json")
    assert ended.code == 3
    assert [("corrupt" in line) for line in ended.json] == [False, True]
    assert shell("score", NOTES.tool, NOTES.effect).code == 3


# ---- the installed command -------------------------------------------------------------------


def test_the_installed_command_does_it_all(shell: Shell) -> None:
    """From an empty folder to a proven score, in processes of their own."""
    log = b"".join(closed(f"t{number}") + b"\n" for number in range(3))
    assert shell.installed("ingest", "-", stdin=log).out == (
        "3 accepted, 0 duplicates, 0 conflicts, 0 dead letters\n"
    )
    assert "fs_write" in shell.installed("scores").out
    assert shell.installed("score", NOTES.tool, NOTES.effect).code == 0
    verified = shell.installed("verify")
    assert (verified.code, verified.err) == (0, "")
