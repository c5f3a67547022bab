"""`trustfold worker`, or `faust worker`, as a child process with its log in a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import aiohttp

from compose.kafka.broker import free_port
from tests.broker.processes import ROOT, until
from trustfold_streams.kafka.settings import KafkaSettings

BIN = Path(sys.executable).parent
START_SECONDS_MAX = 120.0
END_SECONDS_MAX = 90.0


class WorkerCommand:
    """A worker that was started as a user starts it, with its health on a free port."""

    def __init__(
        self, settings: KafkaSettings, log: Path, arguments: Sequence[str], program: Sequence[str]
    ) -> None:
        self.log = log
        self.port = free_port()
        environment = {
            **os.environ,
            "TRUSTFOLD_KAFKA_BOOTSTRAP": settings.bootstrap,
            "TRUSTFOLD_TOPIC_PREFIX": settings.prefix,
            "TRUSTFOLD_TOPIC_PARTITIONS": str(settings.partitions),
            "TRUSTFOLD_SESSION_TIMEOUT_MS": str(settings.session_timeout_ms),
            "TRUSTFOLD_METRICS_PORT": str(self.port),
        }
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*program, *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def said(self) -> str:
        """What it logged."""
        return self.log.read_text(errors="replace")

    async def health(self) -> tuple[int, bytes]:
        """What /health answers; status 0 while nobody answers."""
        return await self.get("health")

    async def get(self, path: str) -> tuple[int, bytes]:
        """Status and body of a page of its server."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self.port}/{path}") as answer,
            ):
                return answer.status, await answer.read()
        except aiohttp.ClientError as error:
            return 0, str(error).encode()

    async def healthy(self) -> None:
        """Wait until all its partitions move or are caught up."""

        async def look() -> str | None:
            assert self.process.poll() is None, f"exit {self.process.poll()}: {self.said()}"
            status, body = await self.health()
            # Nothing stands still before there is anything: wait for partitions, too.
            ready = status == 200 and b'"partitions":0' not in body
            return None if ready else f"{status} {body!r}: {self.said()[-500:]}"

        await until("a worker is healthy", look, START_SECONDS_MAX)

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self, seconds: float = END_SECONDS_MAX) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(seconds)


@contextmanager
def command(
    settings: KafkaSettings,
    log: Path,
    *arguments: str,
    program: Sequence[str] | None = None,
) -> Generator[WorkerCommand]:
    """Start `trustfold worker` with these arguments, or another program; gone afterwards."""
    words = (str(BIN / "trustfold"), "worker") if program is None else program
    made = WorkerCommand(settings, log, arguments, words)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()
