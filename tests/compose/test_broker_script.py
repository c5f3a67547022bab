"""The parts of compose/kafka that need no broker: settings, refusals, its pid file.

A broker that really runs is in tests/broker/test_broker.py.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose.kafka import broker
from compose.kafka.__main__ import main
from compose.kafka.broker import Broker, BrokerError
from compose.kafka.settings import HOST, cluster_id, server_properties

ROOT = Path(__file__).parents[2]
NEW_JAVA = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2"
OLD_JAVA = "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, and no JAVA_HOME."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


@pytest.fixture
def listener() -> Iterator[int]:
    """A port of this machine that somebody listens on."""
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


def program(folder: Path, name: str, script: str) -> None:
    """Make a program of this name that runs a shell script."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)


def refusal(*arguments: str, capture: pytest.CaptureFixture[str]) -> str:
    """What the command prints when it refuses."""
    assert main(arguments) == 1
    out, err = capture.readouterr()
    assert out == ""
    assert err.startswith("broker: ")
    return err


# ---- settings --------------------------------------------------------------------------------


def test_the_broker_is_for_this_machine_only() -> None:
    """Every address that it listens on or advertises is 127.0.0.1."""
    made = server_properties(Path("/data/log"), 9092, 9093)
    for key in ("listeners", "advertised.listeners", "controller.quorum.bootstrap.servers"):
        for address in made[key].split(","):
            assert address.rpartition("/")[2].startswith("127.0.0.1:"), address
    assert made["log.dirs"] == "/data/log"


def test_a_cluster_id_is_16_bytes_that_no_option_parser_mistakes() -> None:
    """Ids are what Kafka reads: 22 characters of URL-safe base64 that begin with no dash."""
    for _ in range(500):
        made = cluster_id()
        assert len(base64.urlsafe_b64decode(made + "==")) == 16
        assert not made.startswith("-")


def test_free_ports_are_none_that_a_client_could_be_given() -> None:
    """A free port lies below those of outgoing connections, is free, and not the other one."""
    for _ in range(20):
        port = broker.free_port(but=broker.FREE_PORTS[0])
        assert port in broker.FREE_PORTS
        assert port != broker.FREE_PORTS[0]
        broker.must_be_free(port)
    assert broker.FREE_PORTS[-1] < 32_768


def test_the_second_port_is_chosen_once(tmp_path: Path) -> None:
    """The controller's port stays with the data, since the quorum's log names it."""
    chosen = Broker(tmp_path)._controller_port()
    assert Broker(tmp_path, 9999)._controller_port() == chosen


# ---- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ("no such thing", None),
    ],
)
def test_versions_of_java_are_read(said: str, version: int | None) -> None:
    """The major version is found in what any Java prints."""
    assert broker.java_version(said) == version


@pytest.mark.usefixtures("path")
def test_no_java_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without Java, `up` says what to install."""
    told = refusal("up", "--free-port", "--data", str(tmp_path / "d"), capture=capsys)
    assert "no java in PATH: install Java 17 or newer" in told


def test_an_old_java_is_told(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Java older than 17 is named with its version."""
    program(path, "java", OLD_JAVA)
    told = refusal("up", "--free-port", "--data", str(tmp_path / "d"), capture=capsys)
    assert "is Java 11: Kafka needs 17 or newer" in told


def test_java_home_goes_first(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME decides, as for every Java program; one without a java is an error."""
    program(path, "java", NEW_JAVA)
    assert broker.find_java() == str(path / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(BrokerError, match="no java in JAVA_HOME"):
        broker.find_java()


def test_no_maven_is_told(path: Path, tmp_path: Path) -> None:
    """Without Maven the jars cannot be fetched, and the message says that it is for once."""
    program(path, "java", NEW_JAVA)
    with pytest.raises(BrokerError, match="no mvn in PATH: install Maven"):
        broker.fetch_jars(tmp_path)


def test_a_failing_maven_is_told_and_leaves_nothing(path: Path, tmp_path: Path) -> None:
    """What Maven printed is shown, and no half-filled folder is taken for the jars later."""
    program(path, "mvn", "echo 'the network is gone'; exit 1")
    with pytest.raises(BrokerError, match="the network is gone"):
        broker.fetch_jars(tmp_path)
    assert list((tmp_path / "jars").iterdir()) == []


def test_jars_are_fetched_once(path: Path, tmp_path: Path) -> None:
    """A second call finds the jars of the same pom.xml and needs no Maven."""
    script = (
        'for word; do case $word in -DoutputDirectory=*) PATH=/bin:/usr/bin mkdir "${word#*=}";; '
    )
    program(path, "mvn", script + "esac; done")
    jars = broker.fetch_jars(tmp_path)
    (path / "mvn").unlink()
    assert broker.fetch_jars(tmp_path) == jars
    assert jars.is_dir()


def test_a_taken_port_is_told(
    path: Path, tmp_path: Path, listener: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """`up` on a port that somebody listens on names it and the way out, and starts nothing."""
    program(path, "java", NEW_JAVA)
    arguments = ("up", "--port", str(listener), "--data", str(tmp_path / "d"))
    told = refusal(*arguments, capture=capsys)
    assert f"port {listener} cannot be had" in told
    assert "--free-port" in told
    assert not (tmp_path / "d" / "broker.pid").exists()


@pytest.mark.parametrize("command", ["down", "status"])
def test_nothing_runs(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`down` and `status` without a broker say so and exit 1."""
    assert "no broker runs" in refusal(command, "--data", str(tmp_path / "d"), capture=capsys)


def test_wrong_use_is_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    """A port and a free one at once is wrong use."""
    with pytest.raises(SystemExit, match="2"):
        main(["up", "--port", "9092", "--free-port"])
    assert "usage:" in capsys.readouterr().err


# ---- whose process it is ---------------------------------------------------------------------


def test_a_number_that_belongs_to_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """A pid file that outlived its broker names a stranger: nobody sends that one a signal."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        (tmp_path / "broker.pid").write_text(f"{stranger.pid}\n", encoding="ascii")
        assert Broker(tmp_path).pid is None
        with pytest.raises(BrokerError, match="no broker runs"):
            Broker(tmp_path).kill()
        assert stranger.poll() is None
        stranger.communicate(b"\n", timeout=60)
    assert stranger.returncode == 0


def test_a_second_up_says_that_it_runs_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`up` on data that a process serves names its port and pid; `status` tells of it, too."""
    settings = str(tmp_path.resolve() / "server.properties")
    # The settings' name in the command line is what a broker is known by.
    command = [sys.executable, "-c", "print(flush=True); input()", settings]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.readline()  # until then it may still be a copy of ourselves
        port = broker.free_port()
        (tmp_path / "broker.pid").write_text(f"{running.pid}\n", encoding="ascii")
        (tmp_path / "broker.port").write_text(f"{port}\n", encoding="ascii")
        told = refusal("up", "--data", str(tmp_path), capture=capsys)
        assert f"it runs already: 127.0.0.1:{port}, pid {running.pid}" in told
        assert main(["status", "--data", str(tmp_path)]) == 0
        assert f"does not answer on 127.0.0.1:{port}" in capsys.readouterr().out
        Broker(tmp_path).stop()
        assert running.wait(timeout=60) < 0


def test_a_broken_pid_file_is_no_broker(tmp_path: Path) -> None:
    """A pid file of anything but a number, as a full disk leaves it, names nobody."""
    (tmp_path / "broker.pid").write_text("", encoding="ascii")
    assert Broker(tmp_path).pid is None


def test_an_open_port_alone_is_no_answer(listener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What accepts connections and says nothing is not up."""
    monkeypatch.setattr(broker, "ANSWER_SECONDS_MAX", 0.05)
    assert not broker.answers(listener)


def test_the_command_needs_nothing_but_python() -> None:
    """It runs with the standard library alone, before anything is installed."""
    done = subprocess.run(
        [sys.executable, "-E", "-s", "-S", "-m", "compose.kafka", "--help"],
        cwd=ROOT,
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "up" in done.stdout
