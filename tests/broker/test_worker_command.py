"""`trustfold worker` against a real broker: how it starts, what it tells, and how it ends."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from compose.kafka.broker import free_port
from tests.broker.command_process import BIN, command
from tests.broker.pipeline import (
    Raw,
    close,
    complete,
    create,
    publish,
    settings_for,
    story,
    write,
)
from tests.broker.processes import until
from tests.broker.running import Running
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.table import TableReader
from trustfold_streams.kafka.worker import EXIT_RESTART

broker_test = pytest.mark.broker

SHORT = 5.0
"""Seconds of silence after which the impatient worker of these tests ends."""
IMPATIENT_MAIN = (
    f"from trustfold_streams import app; app.SILENT_SECONDS = {SHORT}; "
    "from trustfold_streams.cli.front import main; main()"
)
IMPATIENT: Sequence[str] = (sys.executable, "-c", IMPATIENT_MAIN, "worker")


@pytest.fixture
def settings(broker: Running, prefix: str) -> KafkaSettings:
    """Settings for topics that nobody else uses."""
    return settings_for(broker.bootstrap, prefix)


@broker_test
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@story
async def test_a_worker_works_until_it_is_told_to_stop(
    settings: KafkaSettings, tmp_path: Path, number: signal.Signals
) -> None:
    """It folds what is published, is healthy meanwhile, and SIGTERM or SIGINT is exit 0."""
    await create(settings)
    reader = TableReader(settings)
    await reader.start()
    try:
        with command(settings, tmp_path / "log", "--history") as worker:
            await worker.healthy()
            moment = SystemClock().now()
            await publish(settings, [close("t1"), close("t2")])
            await write(settings, [Raw("step", b"{")])
            await complete(reader, moment)
            _, numbers = await worker.get("metrics")
            assert b'trustfold_dead_letters_total{partition="",reason="malformed"' in numbers
            assert worker.end(number) == 0, worker.said()
    finally:
        await reader.stop()


@broker_test
@story
async def test_faust_starts_the_same_worker(settings: KafkaSettings, tmp_path: Path) -> None:
    """`faust -A trustfold_streams.app worker` runs the stages and the agents, and ends alike."""
    await create(settings)
    program = (str(BIN / "faust"), "-A", "trustfold_streams.app", "worker", "-l", "warn")
    with command(settings, tmp_path / "log", program=program) as worker:
        await worker.healthy()
        moment = SystemClock().now()
        reader = TableReader(settings)
        await reader.start()
        try:
            await complete(reader, moment)
        finally:
            await reader.stop()
        assert b'agent="synapse"' in (await worker.get("metrics"))[1]
        assert worker.end(signal.SIGTERM) == 0, worker.said()


@broker_test
@story
async def test_a_worker_without_agents_is_only_the_ledger(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    """--no-agents works on the stages alone; --json-logs is one object a line."""
    await create(settings)
    arguments = ("--no-agents", "--json-logs", "--slot", "one")
    with command(settings, tmp_path / "log", *arguments) as worker:
        await worker.healthy()
        assert b'agent="' not in (await worker.get("metrics"))[1]
        assert worker.end(signal.SIGTERM) == 0
        lines = [json.loads(line) for line in worker.said().splitlines()]
        assert {"timestamp", "level", "logger", "message"} <= set(lines[0])


@broker_test
def test_missing_topics_are_exit_3(settings: KafkaSettings, tmp_path: Path) -> None:
    """A worker does not start where topics are missing; it names them and what to do."""
    with command(settings, tmp_path / "log") as worker:
        assert worker.wait() == 3
        assert f"{settings.topic('ledger')}: topic is missing" in worker.said()
        assert "trustfold topics create" in worker.said()


def test_a_broker_that_is_not_there_is_exit_3(tmp_path: Path) -> None:
    """Where nobody listens, one line names the address."""
    settings = settings_for(f"127.0.0.1:{free_port()}", "p.")
    with command(settings, tmp_path / "log") as worker:
        assert worker.wait() == 3
        assert worker.said().startswith(f"trustfold: no broker answers at {settings.bootstrap}")


@broker_test
@story
async def test_a_port_that_is_taken_is_told(settings: KafkaSettings, tmp_path: Path) -> None:
    """A port that was asked for and is taken is exit 3: a worker that nobody sees is no use."""
    await create(settings)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = str(server.sockets[0].getsockname()[1])
        with command(settings, tmp_path / "log", "--metrics-port", port) as worker:
            assert await asyncio.to_thread(worker.wait) == 3
            assert f"--metrics-port {port}: " in worker.said()


@broker_test
@pytest.mark.parametrize("how", ["frozen", "killed"])
@story
async def test_an_outage_ends_the_worker(
    own_broker: Running, prefix: str, tmp_path: Path, how: str
) -> None:
    """A broker that falls silent turns health red and, after a bounded time, is exit 70.

    aiokafka reconnects in a tight loop meanwhile; the log stays short.
    """
    assert own_broker.process is not None
    settings = settings_for(own_broker.bootstrap, prefix)
    await create(settings)
    with command(settings, tmp_path / "log", program=IMPATIENT) as worker:
        await worker.healthy()
        if how == "frozen":
            own_broker.process.freeze()
        else:
            own_broker.process.kill()

        async def look() -> str | None:
            return None if worker.process.poll() is not None else worker.said()[-500:]

        await until("the worker has ended", look, 60.0)
        assert worker.wait() == EXIT_RESTART, worker.said()
        assert "must be restarted" in worker.said()
        assert len(worker.said().splitlines()) < 100
