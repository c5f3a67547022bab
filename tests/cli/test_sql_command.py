"""`trustfold sql` as a person uses it: at a prompt, with Ctrl-C, and what is no query."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.commands import LIKE_A_TERMINAL, LONG_ENOUGH, Shell
from tests.embedded.documents import closed
from trustfold_streams.archiver.store import ArchiveStore

FROM = ("--store", "archive:archive")
ENDLESS = "SELECT count(*) FROM range(1000000000000);"
"""One piece of work: DuckDB alone would look for Ctrl-C only at its end."""


@pytest.fixture
def archived(shell: Shell) -> Shell:
    """A folder with the archive of one trace."""
    shell.ingest(closed("t1"))
    assert shell("archive", "archive").code == 0
    return shell


class Prompt:
    """The prompt in a terminal of its own."""

    def __init__(self, shell: Shell) -> None:
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*LIKE_A_TERMINAL, "sql", *FROM],
            cwd=shell.folder,
            env={**os.environ, "TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, word: str) -> str:
        """What it prints up to a word, for which it is waited."""
        said = ""
        while word not in said:
            ready, _, _ = select.select([self._terminal], [], [], LONG_ENOUGH)
            assert ready, said
            said += os.read(self._terminal, 1 << 16).decode()
        return said

    def interrupt_and_ask(self) -> None:
        """Press Ctrl-C and ask something else, until that is answered.

        A signal between two looks of the terminal's library waits for the end of a line, and then
        drops that one: so it is asked again.
        """
        said = ""
        for _ in range(int(LONG_ENOUGH)):
            self.process.send_signal(signal.SIGINT)
            said += self.whatever()
            self.type("SELECT 41 + 1 AS answer;")
            said += self.whatever()
            if "42" in said:
                return
        pytest.fail(said)

    def whatever(self) -> str:
        """What it prints until it is silent for a while."""
        said = ""
        while select.select([self._terminal], [], [], 0.5)[0]:
            said += os.read(self._terminal, 1 << 16).decode()
        return said

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._terminal, line.encode() + b"\n")

    def close(self) -> None:
        """End it, however it stands."""
        self.process.kill()
        self.process.wait()
        os.close(self._terminal)


@pytest.fixture
def prompt(archived: Shell) -> Iterator[Prompt]:
    """A prompt that stands ready."""
    made = Prompt(archived)
    try:
        made.until("sql> ")
        yield made
    finally:
        made.close()


def test_ctrl_c_drops_a_line_and_stays(prompt: Prompt) -> None:
    """What was typed and not ended is forgotten; the next query is asked alone."""
    prompt.type("SELECT 'never',")
    prompt.until("  -> ")
    prompt.interrupt_and_ask()


def test_ctrl_c_ends_a_query_and_stays(prompt: Prompt) -> None:
    """A query that takes too long is given up; the prompt and its database go on."""
    prompt.type(ENDLESS)
    prompt.until(";")
    prompt.interrupt_and_ask()


def test_ctrl_c_while_another_command_computes(
    archived: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What DuckDB makes of the signal ends any command with 130, and is no traceback."""

    def interrupted(_: ArchiveStore) -> None:
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(ArchiveStore, "attach_views", interrupted)
    ended = archived("sql", "SELECT 1", *FROM)
    assert (ended.code, ended.out) == (130, "")
    assert "interrupted" in ended.err


def test_quit_leaves_the_prompt(prompt: Prompt) -> None:
    """`.quit` ends it with 0."""
    prompt.type(".quit")
    assert prompt.process.wait(LONG_ENOUGH) == 0


@pytest.mark.parametrize("nothing", ["", ";", "/* a remark */"])
def test_what_asks_nothing_is_answered_by_nothing(archived: Shell, nothing: str) -> None:
    """An empty query is no failure and has no rows."""
    assert archived("sql", nothing, *FROM) == (0, "", "")


def test_json_needs_a_name_a_column(archived: Shell) -> None:
    """Two columns of one name would lose one in an object, so they are refused."""
    ended = archived("sql", "SELECT 1 AS a, 2 AS a", "--json", *FROM)
    assert (ended.code, ended.out) == (2, "")
    assert "one name" in ended.err
    assert archived("sql", "SELECT 1 AS a, 2 AS a", "--csv", *FROM).out == "a,a\n1,2\n"


def test_the_commands_of_the_prompt_work_everywhere(archived: Shell) -> None:
    """`.views` as the query or on standard input; an unknown view or command says what there is."""
    listed = archived("sql", ".views", *FROM)
    assert listed.code == 0
    assert "leaderboard  " in listed.out
    assert archived("sql", *FROM, stdin=b".views\n").out == listed.out
    assert "effective_grants  " in archived("sql", ".views scores", *FROM).out
    assert "no view is named `nobody`" in archived("sql", ".views nobody", *FROM).err
    assert archived("sql", ".nonsense", *FROM).code == 2
