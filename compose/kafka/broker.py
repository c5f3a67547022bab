"""Apache Kafka without Docker: one node on 127.0.0.1, from jars that Maven fetches once.

Here: fetching, formatting, starting and ending one broker process, for the command (`__main__`)
and for tests, which also freeze and kill it. Its settings are in `settings`. Not here: topics
(`trustfold topics`), and the broker in Docker, which is ../compose.yaml; what both must have in
common is held together by tests/compose.

Standard library only, so that it runs before anything is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from compose.kafka.settings import HOST, cluster_id, server_properties

HERE = Path(__file__).resolve().parent
KEPT = HERE.parents[1] / ".broker"
"""Ignored by git: jars, and the data of `make broker-up`."""

DEFAULT_PORT = 9092
JAVA_MIN = 17
HEAP = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:-UsePerfData")

FETCH_SECONDS_MAX = 540.0
FORMAT_SECONDS_MAX = 60.0
START_SECONDS_MAX = 90.0
STOP_SECONDS_MAX = 30.0
ANSWER_SECONDS_MAX = 2.0
LOOK_SECONDS = 0.05

# Below the ports that systems hand to outgoing connections: a client that keeps calling a broker
# that is down could otherwise be given the broker's own port and be connected with itself.
FREE_PORTS = range(20_000, 32_000)


class BrokerError(Exception):
    """The broker could not be started, found or ended; the text says what to do."""


class Broker:
    """One broker: its data folder, its port, and its process while it runs.

    The object may be made anew at any time: a running broker is found by its data folder.
    """

    def __init__(self, data: Path, port: int = DEFAULT_PORT, *, jars: Path | None = None) -> None:
        self.data = data.resolve()
        self.port = port
        self._jars = jars
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """`host:port`, as clients want it."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """What the broker said, warnings and worse."""
        return self.data / "broker.log"

    @property
    def _properties(self) -> Path:
        return self.data / "server.properties"

    @property
    def pid(self) -> int | None:
        """The process that serves this data folder, or None.

        A number left behind by a crash may belong to somebody else by now, so the command line
        of the process must name our settings.
        """
        number = number_in(self.data / "broker.pid")
        if number is None or str(self._properties) not in _command_of(number):
            return None
        return number

    def start(self) -> None:
        """Start it and wait until it answers. On failure nothing of it runs on."""
        self.data.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(self.data):
            if (pid := self.pid) is not None:
                port = number_in(self.data / "broker.port")
                raise BrokerError(f"it runs already: {HOST}:{port}, pid {pid}, data {self.data}")
            java = find_java()
            controller_port = self._controller_port()
            for port in (self.port, controller_port):
                must_be_free(port)
            jars = self._jars or fetch_jars()
            settings = server_properties(self.data / "log", self.port, controller_port)
            self._properties.write_text(
                "".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8"
            )
            self._format(java, jars)
            self._run(java, jars)

    def stop(self) -> None:
        """End it as an operator does, with SIGTERM, and wait until it is gone."""
        pid = self._need_pid()
        self._signal(pid, signal.SIGTERM)
        self._signal(pid, signal.SIGCONT)  # a frozen process takes its SIGTERM only when it thaws
        if not self._gone(pid, STOP_SECONDS_MAX):
            self.kill()
            raise BrokerError(
                f"broker {pid} did not end {STOP_SECONDS_MAX:.0f} s after SIGTERM and was killed: "
                f"see {self.log}"
            )

    def kill(self) -> None:
        """End it as a power cut does, with SIGKILL."""
        pid = self._need_pid()
        self._signal(pid, signal.SIGKILL)
        if not self._gone(pid, STOP_SECONDS_MAX):
            raise BrokerError(f"broker {pid} is still there after SIGKILL")

    def restart(self) -> None:
        """SIGTERM, then start again on the same port and data."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Hold the process (SIGSTOP): its connections stay open and nothing answers."""
        self._signal(self._need_pid(), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on (SIGCONT)."""
        self._signal(self._need_pid(), signal.SIGCONT)

    def _controller_port(self) -> int:
        """The second port, chosen once: the quorum's log names it, so it may not change."""
        kept = self.data / "controller.port"
        number = number_in(kept)
        if number is None:
            number = free_port(but=self.port)
            kept.write_text(f"{number}\n", encoding="ascii")
        return number

    def _format(self, java: str, jars: Path) -> None:
        if (self.data / "log" / "meta.properties").exists():
            return
        tool = ["kafka.tools.StorageTool", "format", "--standalone", "--ignore-formatted"]
        tool += ["--cluster-id", cluster_id(), "--config", str(self._properties)]
        done = _captured([*_java_command(java, jars), *tool], FORMAT_SECONDS_MAX)
        if done.returncode != 0:
            raise BrokerError(f"formatting {self.data / 'log'} failed:\n{done.stdout.strip()}")

    def _run(self, java: str, jars: Path) -> None:
        command = [*_java_command(java, jars), "kafka.Kafka", str(self._properties)]
        with self.log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._process = process
        try:
            (self.data / "broker.pid").write_text(f"{process.pid}\n", encoding="ascii")
            (self.data / "broker.port").write_text(f"{self.port}\n", encoding="ascii")
            self._wait_for_an_answer(process)
        except BaseException:
            process.kill()
            process.wait()
            raise

    def _wait_for_an_answer(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + START_SECONDS_MAX
        while not answers(self.port):
            if process.poll() is not None:
                raise BrokerError(f"the broker ended while starting:\n{self._last_words()}")
            if time.monotonic() > end:
                raise BrokerError(
                    f"the broker did not answer on {self.bootstrap} within "
                    f"{START_SECONDS_MAX:.0f} s:\n{self._last_words()}"
                )
            time.sleep(LOOK_SECONDS)

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        told = [line for line in lines if not line.startswith("\tat ")]
        return "\n".join([*told[-15:], f"(the end of {self.log}, without its stack traces)"])

    def _need_pid(self) -> int:
        if (pid := self.pid) is None:
            raise BrokerError(f"no broker runs on the data in {self.data}")
        return pid

    @staticmethod
    def _signal(pid: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def _gone(self, pid: int, seconds: float) -> bool:
        if self._process is not None and self._process.pid == pid:
            # A child stays in the process table until somebody waits for it.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return self._process.returncode is not None
        end = time.monotonic() + seconds
        while self.pid == pid and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        return self.pid != pid


# ---- what must be there ----------------------------------------------------------------------


def find_java() -> str:
    """The `java` to run, of JAVA_HOME or of PATH, if it is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME ({home})" if home else "PATH"
        raise BrokerError(f"there is no java in {where}: install Java {JAVA_MIN} or newer")
    said = _captured([java, "-version"], FORMAT_SECONDS_MAX).stdout
    version = java_version(said)
    if version is None:
        raise BrokerError(f"{java} -version says no version that is understood:\n{said.strip()}")
    if version < JAVA_MIN:
        raise BrokerError(
            f"{java} is Java {version}: Kafka needs {JAVA_MIN} or newer (JAVA_HOME names another)"
        )
    return java


def java_version(said: str) -> int | None:
    """The major version in what `java -version` prints: 17 for "17.0.15", 8 for "1.8.0_412"."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else None


def fetch_jars(kept: Path = KEPT) -> Path:
    """The folder with the jars of pom.xml; downloads them if this pom.xml has none yet."""
    pom = HERE / "pom.xml"
    jars = kept / "jars" / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    if jars.is_dir():
        return jars
    mvn = shutil.which("mvn")
    if mvn is None:
        raise BrokerError("there is no mvn in PATH: install Maven, which fetches Kafka's jars once")
    jars.parent.mkdir(parents=True, exist_ok=True)
    # Into a folder of our own and then in one step into place: another session may do the same.
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="fetching-") as scratch:
        made = Path(scratch) / "jars"
        command = [mvn, "-q", "-B", "-Dstyle.color=never", "-f", str(pom)]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={made}"]
        done = _captured(command, FETCH_SECONDS_MAX)
        if done.returncode != 0 or not made.is_dir():
            raise BrokerError(f"mvn could not fetch Kafka's jars:\n{done.stdout.strip()}")
        try:
            made.rename(jars)
        except OSError:
            if not jars.is_dir():
                raise
    return jars


def must_be_free(port: int) -> None:
    """Refuse a port that somebody listens on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise BrokerError(
                f"port {port} cannot be had ({error.strerror}): name another with --port, "
                "or let --free-port find one"
            ) from None


def free_port(but: int = 0) -> int:
    """A port that nobody listens on just now, other than `but`."""
    for port in random.sample(FREE_PORTS, 200):
        with contextlib.suppress(BrokerError):
            must_be_free(port)
            if port != but:
                return port
    raise BrokerError(f"no free port among 200 tried of {FREE_PORTS[0]} to {FREE_PORTS[-1]}")


def answers(port: int) -> bool:
    """Whether a broker answers a request (ApiVersions 0): an open port alone comes too early."""
    body = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection((HOST, port), timeout=ANSWER_SECONDS_MAX) as connection:
            connection.settimeout(ANSWER_SECONDS_MAX)
            connection.sendall(struct.pack(">i", len(body)) + body)
            return len(connection.recv(4)) > 0
    except OSError:
        return False


# ---- processes -------------------------------------------------------------------------------


def _java_command(java: str, jars: Path) -> list[str]:
    settings = f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}"
    return [java, *HEAP, settings, "-cp", f"{jars}/*"]


def _captured(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; both its outputs as one text."""
    try:
        return subprocess.run(  # noqa: S603 - our own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BrokerError(f"{command[0]} did not end within {seconds:.0f} s") from None


def _command_of(pid: int) -> str:
    """The command line of a process; empty if there is none, or if it has ended."""
    line = Path("/proc") / str(pid) / "cmdline"
    if Path("/proc/self").exists():
        try:
            return line.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    return _captured(["ps", "-ww", "-o", "command=", "-p", str(pid)], ANSWER_SECONDS_MAX).stdout


def number_in(path: Path) -> int | None:
    """The number that a file holds, if it holds one."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None


@contextlib.contextmanager
def _one_at_a_time(data: Path) -> Iterator[None]:
    with (data / "lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BrokerError(f"another `up` is at work on the data in {data}") from None
        yield
