"""Workers as child processes: started, killed, frozen, thawed, and kept alive by a supervisor.

Only processes that were started here are ever signalled, each by its own id.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from tests.broker.worker_process import Orders, Trap
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.worker import EXIT_RESTART

ROOT = Path(__file__).resolve().parents[2]
LOOK_SECONDS = 0.05
START_SECONDS_MAX = 120.0
END_SECONDS_MAX = 90.0
BACKOFF_SECONDS = (0.3, 3.0)
"""The least and the most between two starts: it doubles while a worker does not get ready."""


async def until(told: str, look: Callable[[], Awaitable[str | None]], seconds: float) -> None:
    """Wait until there is nothing left to see; when the time is up, say what was seen last."""
    end = time.monotonic() + seconds
    while (seen := await look()) is not None:
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s until {told}; the last seen: {seen}")
        await asyncio.sleep(LOOK_SECONDS)


class WorkerProcess:
    """A worker in a process of its own, with its log in a file."""

    def __init__(
        self,
        settings: KafkaSettings,
        log: Path,
        *,
        history: bool = True,
        traps: Sequence[Trap] = (),
    ) -> None:
        self.log = log
        orders = msgspec.json.encode(Orders(settings, history, list(traps))).decode()
        with log.open("ab") as output:
            self._from = output.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.broker.worker_process", orders],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, a signal as its negative number; None while it is there."""
        return self._process.poll()

    def said(self) -> str:
        """What it logged."""
        return self.log.read_bytes()[self._from :].decode(errors="replace")

    def last_words(self) -> str:
        """How it stands and the end of its log, for messages."""
        return f"worker {self.pid}, exit {self.exit_code}: ...{self.said()[-1500:]}"

    def set_traps(self, *traps: Trap) -> None:
        """Set these in place of those that stand; one that is gone cannot be told any more."""
        pipe = self._process.stdin
        assert pipe is not None
        if pipe.closed:  # by `end`
            return
        with contextlib.suppress(BrokenPipeError):
            pipe.write(msgspec.json.encode(traps) + b"\n")
            pipe.flush()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing if it has ended."""
        self._process.send_signal(number)

    @property
    def frozen(self) -> bool:
        """Whether it stands still after a SIGSTOP."""
        with contextlib.suppress(OSError):
            stat = (Path("/proc") / str(self.pid) / "stat").read_text(encoding="ascii")
            return stat.rpartition(")")[2].split()[0] == "T"
        return False

    async def ready(self) -> None:
        """Wait until it has joined its groups."""

        async def look() -> str | None:
            assert self.exit_code is None, self.last_words()
            return None if "ready\n" in self.said() else self.last_words()

        await until("a worker is ready", look, START_SECONDS_MAX)

    async def has_partitions(self) -> None:
        """Wait until both stages with states have given it some of their partitions."""

        async def look() -> str | None:
            assert self.exit_code is None, self.last_words()
            missing = [
                s for s in ("correlate", "fold") if f"{s} has partitions [" not in self.said()
            ]
            return f"none of {missing}; {self.last_words()}" if missing else None

        await until("a worker has partitions", look, START_SECONDS_MAX)

    async def gone(self, seconds: float = END_SECONDS_MAX) -> int:
        """Wait until it has ended; its exit code."""

        async def look() -> str | None:
            return self.last_words() if self.exit_code is None else None

        await until("a worker has ended", look, seconds)
        assert self.exit_code is not None
        return self.exit_code

    async def leave(self) -> None:
        """Ask it to leave in order, and wait until it has."""
        self.signal(signal.SIGTERM)
        assert await self.gone() == 0, self.last_words()

    def end(self) -> None:
        """Whatever it does, it is gone after this."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(END_SECONDS_MAX)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()


class Supervisor:
    """Keeps one worker running, as `restart: unless-stopped` does: the product relies on one."""

    def __init__(self, settings: KafkaSettings, log: Path) -> None:
        self.settings = settings
        self.log = log
        self.starts = 0
        self.asked_for_restart = 0
        self.next_traps: list[Trap] = []
        self.worker = self._start()

    async def running(self) -> WorkerProcess:
        """Its worker, once there is one: the last may have ended just now, the next not begun."""

        async def look() -> str | None:
            return None if self.worker.exit_code is None else self.worker.last_words()

        await until("the supervisor has a worker", look, START_SECONDS_MAX)
        return self.worker

    def _start(self) -> WorkerProcess:
        traps, self.next_traps = self.next_traps, []
        self.starts += 1
        return WorkerProcess(self.settings, self.log, traps=traps)

    async def keep(self) -> None:
        """Start it again whenever it was killed or asked for it; any other end is a failure."""
        least, most = BACKOFF_SECONDS
        backoff = least
        while True:
            code = self.worker.exit_code
            if code in (EXIT_RESTART, -signal.SIGKILL):
                self.asked_for_restart += code == EXIT_RESTART
                self.worker.end()
                backoff = least if "ready\n" in self.worker.said() else min(2 * backoff, most)
                await asyncio.sleep(backoff)
                self.worker = self._start()
            elif code is not None:
                raise AssertionError(f"a worker ended as none may: {self.worker.last_words()}")
            await asyncio.sleep(LOOK_SECONDS)


@contextlib.asynccontextmanager
async def supervised(
    every: Sequence[KafkaSettings], folder: Path
) -> AsyncGenerator[list[Supervisor]]:
    """A supervised worker for each of these settings."""
    made: list[Supervisor] = []
    keeping: list[asyncio.Task[None]] = []
    try:
        for number, settings in enumerate(every):
            made.append(Supervisor(settings, folder / f"worker-{number}.log"))
            keeping.append(asyncio.create_task(made[-1].keep()))
        yield made
        for task in keeping:
            if task.done():
                task.result()
    finally:
        for task in keeping:
            task.cancel()
        await asyncio.wait(keeping)
        for supervisor in made:
            supervisor.worker.end()
