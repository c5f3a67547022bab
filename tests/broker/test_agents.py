"""The Faust agents against a real broker: killed, joined, fed poison and aborted transactions."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.broker.command_process import BIN, WorkerCommand, command
from tests.broker.pipeline import create, plain_producer, publish, settings_for, story
from tests.broker.processes import until
from tests.broker.running import Running
from tests.embedded.documents import event
from trustfold_projections.laws.self_play import Synapse, Weights, play
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.events import SelfPlayCompletedEvent
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.agents.rebuild import CHANGELOG
from trustfold_streams.agents.synapse import SynapseRecord
from trustfold_streams.agents.watch import WatchRecord
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka.clients import PartitionReader, new_producer
from trustfold_streams.kafka.records import partition_of
from trustfold_streams.kafka.score_records import Position, pack_score
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record

pytestmark = pytest.mark.broker

DONE_SECONDS_MAX = 150.0
SUBJECT = Subject("", "shell", "exec")


@pytest.fixture
def settings(broker: Running, prefix: str) -> KafkaSettings:
    """Settings for topics that nobody else uses."""
    return settings_for(broker.bootstrap, prefix)


async def records(settings: KafkaSettings, topic: str) -> list[Record]:
    """All committed records of a topic, partition by partition."""
    reader = PartitionReader(settings, "test")
    try:
        return [
            record
            for partition in range(settings.partitions)
            async for record in reader.records(settings.topic(topic), partition)
        ]
    finally:
        await reader.stop()


# ---- synapse -----------------------------------------------------------------------------------


def plays(first: int, end: int) -> list[bytes]:
    """Self-plays of five contexts and two scopes; every third is sent twice."""
    now = SystemClock().now()
    made: list[bytes] = []
    for n in range(first, end):
        data = {
            "context": f"context {n % 5}",
            "scope": "s" if n % 2 else "",
            "winner": f"neuron {n * n % 4}",
            "loser": f"neuron {(n * n + 1) % 4}",
            "critic": "judge",
            "verdict": "why",
            "critic_cost_usd": 0.001,
        }
        document = event("selfplay.completed", f"play/{n}", data, now - n)
        made += [document] * (2 if n % 3 == 0 else 1)
    return made


Contexts = dict[str, tuple[int, dict[str, Weights]]]


async def by_the_law(settings: KafkaSettings) -> Contexts:
    """What the law makes of the log of facts as it stands: plays and weights by context."""
    states: dict[str, Synapse] = defaultdict(Synapse)
    for record in await records(settings, "facts"):
        found = decode_event(record.value or b"")
        assert isinstance(found, SelfPlayCompletedEvent)
        fact = Fact(record.offset, record.timestamp * 1_000, OWNER, found, record.value or b"")
        play(states[found.data.context], fact)
    return {context: (state.plays, state.weights) for context, state in states.items()}


async def on_the_topic(settings: KafkaSettings) -> Contexts:
    """The topic `synapse` after compaction."""
    last = {record.key: record.value or b"" for record in await records(settings, "synapse")}
    made = [msgspec.json.decode(value, type=SynapseRecord) for value in last.values()]
    return {one.context: (one.plays, one.weights) for one in made}


async def counted(settings: KafkaSettings, total: int) -> None:
    """Wait until the topic holds so many self-plays or more."""

    async def look() -> str | None:
        found = sum(times for times, _ in (await on_the_topic(settings)).values())
        return None if found >= total else f"{found} of {total} self-plays"

    await until(f"{total} self-plays are counted", look, DONE_SECONDS_MAX)


@story
async def test_the_weights_are_those_of_the_law_whatever_befalls_the_workers(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    """After kill -9 under load, a join and a leave the topic is the law's fold of the facts."""
    await create(settings)
    with command(settings, tmp_path / "one", "--slot", "one") as one:
        await one.healthy()
        publishing = asyncio.create_task(publish(settings, plays(0, 200)))
        await counted(settings, 20)
        one.end(signal.SIGKILL)
        await publishing
    with command(settings, tmp_path / "again", "--slot", "one") as again:
        await counted(settings, 200)
        with command(settings, tmp_path / "two", "--slot", "two") as two:
            publishing = asyncio.create_task(publish(settings, plays(200, 400)))
            await two.healthy()
            await publishing
            assert again.end(signal.SIGTERM) == 0, again.said()
            await publish(settings, plays(400, 420))
            await counted(settings, 420)
            assert await on_the_topic(settings) == await by_the_law(settings)
            assert sum(times for times, _ in (await on_the_topic(settings)).values()) == 420


@story
async def test_the_table_is_restored_from_its_changelog(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    """A worker that comes after another goes on from its rows; a repetition is still known."""
    await create(settings)
    with command(settings, tmp_path / "one") as one:
        await publish(settings, plays(0, 30))
        await counted(settings, 30)
        assert one.end(signal.SIGTERM) == 0
    with command(settings, tmp_path / "two") as two:
        await publish(settings, plays(0, 31))  # 30 of them again
        await counted(settings, 31)
        assert two.end(signal.SIGTERM) == 0
    assert await on_the_topic(settings) == await by_the_law(settings)


@story
async def test_weights_are_made_anew_from_the_facts(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    """A changelog with an old row gives wrong weights; --rebuild-synapse gives the law's."""
    await create(settings)
    with command(settings, tmp_path / "one") as one:
        await publish(settings, plays(0, 30))
        await counted(settings, 30)
        refused = WorkerCommand(
            settings,
            tmp_path / "refused",
            ["--rebuild-synapse"],
            [str(BIN / "trustfold"), "worker"],
        )
        assert refused.wait() == 2
        assert "stop every worker" in refused.said()
        assert one.end(signal.SIGTERM) == 0
    changelog = await records(settings, CHANGELOG)
    first = {record.key: record for record in reversed(changelog)}
    async with plain_producer(settings) as producer:
        for old in first.values():
            await producer.send_and_wait(old.topic, old.value, old.key, partition=old.partition)
    with command(settings, tmp_path / "two", "--rebuild-synapse"):
        await publish(settings, plays(30, 40))
        await counted(settings, 40)
    assert await on_the_topic(settings) == await by_the_law(settings)


# ---- watch -------------------------------------------------------------------------------------


def score(version: int, *, good: bool, subject: Subject = SUBJECT) -> State:
    """A subject's state: 0.775 when all is good, else 0.475."""
    weight = 1 << 100
    tool = 10**6 if good else 0
    return State(
        subject=subject,
        num=[tool * weight, 0, 0, 10**6 * weight, 0],
        den=[weight, 0, 0, weight, weight],
        n_samples=version,
        last_updated=SystemClock().now(),
        version=version,
    )


async def write_scores(
    settings: KafkaSettings, rows: list[tuple[bytes, bytes]], *, commit: bool = True
) -> None:
    """Write rows to `scores` in one transaction, and commit it or not."""
    producer = new_producer(settings, "test", f"{settings.prefix}test")
    await producer.start()
    try:
        await producer.begin_transaction()
        for key, value in rows:
            place = partition_of(SUBJECT.key, settings.partitions)
            await producer.send_and_wait(settings.topic("scores"), value, key, place)
        await (producer.commit_transaction() if commit else producer.abort_transaction())
    finally:
        await producer.stop()


def row(version: int, *, good: bool) -> tuple[bytes, bytes]:
    """A row of `scores`."""
    return SUBJECT.key, pack_score(score(version, good=good), Position(version, 0))


async def found(settings: KafkaSettings) -> list[WatchRecord]:
    """What the topic `watch` holds of the subject here."""
    values = [record.value or b"" for record in await records(settings, "watch")]
    made = [msgspec.json.decode(value, type=WatchRecord) for value in values]
    return [one for one in made if one.subject == SUBJECT]


async def told_of(settings: KafkaSettings, version: int, count: int) -> list[WatchRecord]:
    """Wait for so many findings about a version of the score; all that were found."""
    made: list[WatchRecord] = []

    async def look() -> str | None:
        made[:] = await found(settings)
        return None if sum(one.version == version for one in made) >= count else f"{made}"

    await until(f"version {version} was seen", look, DONE_SECONDS_MAX)
    return made


async def looked_at(worker: WorkerCommand, count: int) -> None:
    """Wait until the agent `watch` has counted so many scores."""
    line = f'trustfold_agent_records_total{{agent="watch",result="counted"}} {count}.0'

    async def look() -> str | None:
        _, text = await worker.get("metrics")
        agents = [one for one in text.decode().splitlines() if 'agent="watch"' in one]
        return None if line in agents else f"{agents}"

    await until(f"{count} scores were looked at", look, DONE_SECONDS_MAX)


@story
async def test_crossings_are_told_and_poison_is_passed_over(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    """A corrupt record in `scores` is counted; the score behind it crosses three thresholds."""
    await create(settings)
    with command(settings, tmp_path / "log") as worker:
        await worker.healthy()
        await write_scores(settings, [row(1, good=False)])
        await looked_at(worker, 1)
        await write_scores(settings, [(b"poison", b"{}"), row(2, good=True)])
        crossed = await told_of(settings, 2, 3)
        assert [(one.threshold, one.direction) for one in crossed] == [
            (level, "up") for level in (0.5, 0.65, 0.75)
        ]
        poison = b'trustfold_agent_records_total{agent="watch",result="poison"} 1.0'
        assert poison in (await worker.get("metrics"))[1]
        assert "cannot be read and is passed over" in worker.said()


@story
async def test_a_crossing_that_returns_within_a_fetch_is_told(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    """Scores that supersede each other before anybody reads them are all told of."""
    await create(settings)
    goods = [False, True, True, False, True, False]
    await write_scores(settings, [row(n + 1, good=good) for n, good in enumerate(goods)])
    with command(settings, tmp_path / "log"):
        crossed = await told_of(settings, 6, 3)
    assert [(one.version, one.direction) for one in crossed] == [
        (version, direction)
        for version, direction in ((2, "up"), (4, "down"), (5, "up"), (6, "down"))
        for _ in range(3)
    ]


HANGING = (
    "import asyncio; from trustfold_streams import app; "
    "from trustfold_streams.agents import synapse; app.STILL_SECONDS = 2.0; "
    "synapse.SynapseAgent.take = lambda self, message: asyncio.sleep(3_600); "
    "from trustfold_streams.cli.front import main; main()"
)


@story
async def test_an_agent_that_hangs_turns_health_red(
    settings: KafkaSettings, tmp_path: Path
) -> None:
    """The ledger goes on, and /health names the agent that holds a record in hand."""
    await create(settings)
    program = (sys.executable, "-c", HANGING, "worker")
    with command(settings, tmp_path / "log", program=program) as worker:
        await worker.healthy()
        await publish(settings, plays(0, 1))

        async def look() -> str | None:
            status, body = await worker.health()
            return None if status == 503 and b'"stage":"agent synapse"' in body else f"{body!r}"

        await until("health is red", look, DONE_SECONDS_MAX)


@story
async def test_what_was_aborted_is_not_seen(settings: KafkaSettings, tmp_path: Path) -> None:
    """A score of an aborted transaction crosses nothing, though its offset is long gone by."""
    await create(settings)
    with command(settings, tmp_path / "log") as worker:
        await worker.healthy()
        await write_scores(settings, [row(1, good=False)])
        await looked_at(worker, 1)
        await write_scores(settings, [row(2, good=True)], commit=False)
        await write_scores(settings, [row(2, good=False)])
        await looked_at(worker, 2)
        await write_scores(settings, [row(3, good=True)])
        assert {one.version for one in await told_of(settings, 3, 3)} == {3}


@story
async def test_a_pipelines_own_scores_are_watched(settings: KafkaSettings, tmp_path: Path) -> None:
    """Failing traces after good ones are told as crossings of their subject, over a restart."""
    await create(settings)

    def trace(n: int, status: str) -> bytes:
        step: dict[str, Any] = {"step_id": "a", "tool": "shell", "effect": "exec", "status": status}
        data = {"trace_id": f"t{n}", "outcome": "done", "steps": [step]}
        return event("trace.closed", f"close/{n}", data, SystemClock().now())

    with command(settings, tmp_path / "one") as one:
        await one.healthy()
        await publish(settings, [trace(0, "ok")])
        await looked_at(one, 2)  # the subject's score, and the global one
        one.end(signal.SIGKILL)
    with command(settings, tmp_path / "two"):
        await publish(settings, [trace(1, "error")])
        down = await told_of(settings, 2, 2)
        assert [(one.threshold, one.direction) for one in down] == [
            (0.65, "down"), (0.75, "down")
        ]  # fmt: skip
