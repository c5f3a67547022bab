"""`--store kafka://...` without a broker: how it is named, what is missing, what is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compose.kafka.broker import free_port
from tests.cli.commands import LONG_ENOUGH, Shell
from trustfold_streams.cli.options import Settings

SUBJECT = ("shell", "invoke")
ON_A_BROKER = [
    ["ingest", "-"],
    ["scores"],
    ["scores", "--as-of", "2026-01-01"],
    ["score", *SUBJECT],
    ["explain", *SUBJECT],
    ["rollback", *SUBJECT, "--to", "2026-01-01", "--why", "a test"],
    ["lift", "r1", "--why", "a test"],
    ["exclude", "t1", "--why", "a test"],
    ["include", "t1", "--why", "a test"],
    ["dead-letters"],
    ["dead-letters", "show", "1"],
    ["dead-letters", "replay", "1"],
    ["pending"],
    ["status"],
    ["verify"],
    ["archive", "archive"],
]
"""Every command that works on a broker, too."""


def nobody() -> str:
    """A store at an address where nobody listens."""
    return f"kafka://127.0.0.1:{free_port()}"


def named(arguments: list[str]) -> str:
    """The name of a case."""
    return " ".join(arguments[:2])


def without(*modules: str) -> str:
    """The beginning of a program in which these modules cannot be imported."""
    return f"import sys\nfor name in {modules!r}: sys.modules[name] = None\n"


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
        check=False,
    )


# ---- naming ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "store", ["kafka://", "kafka://host", "kafka://host:1,host", "kafka:host:1"]
)
@pytest.mark.parametrize("command", [["scores"], ["ingest", "-"]], ids=named)
def test_a_broker_that_is_named_wrongly_is_wrong_use(
    shell: Shell, command: list[str], store: str
) -> None:
    """Exit 2, and the message says how a broker is named; no file of that name is made."""
    ended = shell("--store", store, *command)
    assert (ended.code, ended.out) == (2, "")
    assert "kafka://HOST:PORT[,HOST:PORT]" in ended.err
    assert list(shell.folder.iterdir()) == []


def test_the_store_may_stand_before_or_after_the_command(shell: Shell) -> None:
    """Both name the same place, and so does the configuration."""
    store = nobody()
    before, after = shell("--store", store, "scores"), shell("scores", "--store", store)
    assert before == after
    assert before.code == 3


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_the_configuration_is_read_from_a_file(shell: Shell, first: bool) -> None:
    """`--config FILE` before or after the command; a wrong key is named, with the file."""
    Path("kafka.toml").write_text("[kafka]\nprefix = 7\n", encoding="utf-8")
    config = ("--config", "kafka.toml")
    store = ("--store", nobody())
    ended = shell(*config, *store, "scores") if first else shell("scores", *store, *config)
    assert (ended.code, ended.out) == (2, "")
    assert "kafka.toml: kafka.prefix" in ended.err


def test_a_store_is_on_kafka_by_its_scheme_alone() -> None:
    """A file may be called anything else."""
    assert Settings("kafka://h:1").on_kafka
    assert not Settings("kafka.db").on_kafka
    assert not Settings(None).on_kafka


# ---- what is missing ---------------------------------------------------------------------------


@pytest.mark.parametrize("command", ON_A_BROKER, ids=named)
def test_a_broker_that_is_not_there_is_exit_3(shell: Shell, command: list[str]) -> None:
    """One line names the address and the reason; nothing waits for long, nothing is printed."""
    store = nobody()
    ended = shell("--store", store, *command)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.count("\n") == 1
    address = store.removeprefix("kafka://")
    assert ended.err.startswith(f"trustfold: no broker answers at {address} (PLAINTEXT): ")


@pytest.mark.parametrize("command", [["verify", "--repair"], ["sweep"]], ids=named)
def test_what_only_a_file_can_do_is_wrong_use_on_a_broker(shell: Shell, command: list[str]) -> None:
    """Exit 2 before anybody is called."""
    ended = shell("--store", nobody(), *command)
    assert (ended.code, ended.out) == (2, "")
    assert "a store in a file" in ended.err


def test_the_command_line_does_not_need_the_extra() -> None:
    """Everything on a file works, and imports nothing of Kafka, where the extra is missing."""
    done = python(
        without("aiokafka", "faust", "mode", "tenacity", "cramjam", "uvloop")
        + "from trustfold_streams.cli.front import run\n"
        + "assert run(['--help']) == 0\n"
        + "assert run(['status', '--store', 'no.db']) == 2\n"
        + "import trustfold\n"
        + "assert trustfold.connect\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [["scores"], ["status"], ["ingest", "-"]], ids=named)
def test_without_the_extra_a_broker_is_wrong_use(command: list[str]) -> None:
    """Exit 2, and the message says what to install."""
    arguments = ["--store", "kafka://127.0.0.1:9", *command]
    done = python(
        without("aiokafka")
        + "from trustfold_streams.cli.front import run\n"
        + f"sys.exit(run({arguments!r}))"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'trustfold[streams]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_connect_without_the_extra_says_what_to_install() -> None:
    """`trustfold.connect` can be named, and refuses to be called."""
    done = python(
        without("aiokafka")
        + "import trustfold\n"
        + "try: trustfold.connect('127.0.0.1:9')\n"
        + "except trustfold.TrustfoldError as error: print(error)"
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'trustfold[streams]'" in done.stdout
