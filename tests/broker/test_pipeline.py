"""The pipeline on a real broker comes to the digests of the law, and holds each entry once.

What befalls it here is what clients and operators do; what the machines do is in test_fire.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import zlib
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete

from tests.broker.loads import START, medians, mixed
from tests.broker.pipeline import (
    SUBJECT,
    close,
    create,
    digests_in,
    foreseen,
    must_equal,
    plain_producer,
    publish,
    settings_for,
    story,
    table,
    working,
)
from tests.broker.processes import WorkerProcess, until
from tests.broker.running import Running
from tests.embedded.documents import Data, event, lifted, recorded_step, rolled_back, step
from tests.kafka.wide import answer, recorded_wide, wide_step
from trustfold_schemas.decoding import EVENT_BYTES_MAX, decode_event
from trustfold_schemas.events import STEPS_MAX
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka.publisher import topic_of
from trustfold_streams.kafka.settings import InputTopic, KafkaSettings
from trustfold_streams.kafka.worker import EXIT_RESTART

pytestmark = pytest.mark.broker

WHOLE = os.environ.get("TRUSTFOLD_FIRE") == "whole"


@pytest.fixture
def settings(broker: Running, prefix: str) -> KafkaSettings:
    """A pipeline that nobody else uses."""
    return settings_for(broker.bootstrap, prefix)


@story
async def test_a_clean_run(settings: KafkaSettings) -> None:
    """Medians, traces, feedback, self-play and syntheses: digests as foreseen, each entry once."""
    load = list(mixed(300, 1))
    await create(settings)
    async with working(settings):
        await publish(settings, medians())
        await publish(settings, load)
        ledger = await must_equal(settings, [*medians(), *load])
    kinds = {entry.kind for entry in ledger.entries}
    assert kinds == {"evidence", "correction", "brake", "self_play", "initial"}


@story
async def test_the_groups_offsets_say_where_the_tasks_were(settings: KafkaSettings) -> None:
    """Tools that watch a group's lag see each stage's position, though no transaction holds it."""
    load = list(mixed(50, 3))
    await create(settings)
    async with working(settings) as worker:
        await publish(settings, load)
        await must_equal(settings, load)
        reached = {
            manager.group: {p: at for task in manager.tasks.values() for p, at in task.next.items()}
            for manager in worker.managers
        }
    client = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap)
    await client.start()
    try:
        for group, positions in reached.items():
            told = await client.list_consumer_group_offsets(group)
            assert {place: offset for place, (offset, _) in told.items()} == positions
    finally:
        await client.close()


@story
async def test_duplicated_shuffled_and_misrouted_events(settings: KafkaSettings) -> None:
    """No order, repetition, hash of keys or number of input partitions changes anything."""
    counts: dict[InputTopic, int] = {
        "trace-closed": 5, "step": 1, "approval": 2, "undo": 7, "self-play": 4
    }  # fmt: skip
    chance = random.Random(7)
    load = list(mixed(250, 2))
    told = load + chance.sample(load, len(load) // 2)
    chance.shuffle(told)
    await create(settings, counts)
    await publish(settings, medians())
    async with working(settings), plain_producer(settings) as producer:
        for one in told:
            topic = topic_of(decode_event(one), "owner")
            count = counts.get(topic, settings.partitions)
            key = chance.choice((None, b"", one[:20], b"the same for all"))
            by_hash = zlib.crc32(key or b"") % count
            partition = chance.choice((by_hash, chance.randrange(count)))
            await producer.send(settings.topic(topic), one, key, partition=partition)
        await producer.flush()
        await must_equal(settings, [*medians(), *load])


@story
async def test_a_median_holds_for_the_closes_after_it(settings: KafkaSettings) -> None:
    """A close published after its median was acknowledged is measured by it, on every partition."""
    before = [close(f"before-{n}") for n in range(20)]
    after = [close(f"after-{n}") for n in range(20)]
    await create(settings)
    async with working(settings):
        await publish(settings, before)
        assert set(await table(settings)) >= {SUBJECT}
        await publish(settings, medians())
        await publish(settings, after)
        ledger = await must_equal(settings, [*before, *medians(), *after])
    measured = {entry.trace_id for entry in ledger.entries if entry.median_usd == 20_000}
    assert measured == {f"after-{n}" for n in range(20)}


@story
async def test_the_largest_legal_event(settings: KafkaSettings) -> None:
    """10,000 steps of 10,000 subjects in 1 MiB, and a trace told in 2,000 single steps."""
    pad = "x" * 43
    steps = [
        {"step_id": f"{n}", "tool": "t", "effect": f"{n:05}{pad}", "status": "ok"}
        for n in range(10_000)
    ]
    data: Data = {"trace_id": "large", "outcome": "completed", "steps": steps}
    large = event("trace.closed", "close/large", data, START).replace(b": ", b":")
    large = large.replace(b", ", b",")
    assert EVENT_BYTES_MAX * 0.99 < len(large) <= EVENT_BYTES_MAX
    single = [recorded_step("long", step(str(n), SUBJECT)) for n in range(2_000)]
    data = {"trace_id": "long", "outcome": "completed", "steps": [], "step_count": 2_000}
    load = [*single[:1_000], event("trace.closed", "close/long", data, START), *single[1_000:]]
    await create(settings)
    async with working(settings):
        await publish(settings, [large, *load])
        ledger = await must_equal(settings, [large, *load])
    assert sum(entry.trace_id == "large" for entry in ledger.entries) == 10_001
    assert sum(entry.trace_id == "long" for entry in ledger.entries) == 2


@story
async def test_a_trace_that_fits_no_record(settings: KafkaSettings, tmp_path: Path) -> None:
    """Single steps and answers with wide names, over 8 MiB of state, killed in between."""
    steps = STEPS_MAX if WHOLE else 2_500
    load = [recorded_wide("wide", n, many=n % 10 == 0) for n in range(steps)]
    load += [answer(n, [wide_step(n * 9 + k)["step_id"] for k in range(600)]) for n in range(10)]
    data: Data = {"trace_id": "wide", "outcome": "completed", "steps": [], "step_count": steps}
    load.append(event("trace.closed", "close/wide", data, START))
    await create(settings)
    worker = WorkerProcess(settings, tmp_path / "log")
    try:
        await worker.ready()
        await publish(settings, load[: steps // 2])
        assert await table(settings) == {}
        worker.signal(signal.SIGKILL)
        await worker.gone()
        worker.end()
        worker = WorkerProcess(settings, tmp_path / "log")
        await worker.ready()
        await publish(settings, load[steps // 2 :])
        await must_equal(settings, load)
        assert worker.exit_code is None, worker.last_words()
    finally:
        worker.end()


@pytest.mark.parametrize("topic", ["facts", "trace-closed"])
@story
async def test_what_is_gone_before_it_was_read_is_told(
    settings: KafkaSettings, tmp_path: Path, topic: str
) -> None:
    """Records that are deleted under a running worker end it: exit 70, and what is missing."""
    await create(settings)
    await publish(settings, [close("before")])
    worker = WorkerProcess(settings, tmp_path / "log")
    try:
        await worker.ready()
        assert await table(settings) != {}
        worker.signal(signal.SIGSTOP)
        # What it had asked for is answered by now, so that it does not get what is written next.
        await asyncio.sleep(1.0)
        place = TopicPartition(settings.topic(topic), 0)
        async with plain_producer(settings) as producer:
            sent = await producer.send_and_wait(place.topic, b"{}", b"k", partition=0)
        client = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap)
        await client.start()
        try:
            await client.delete_records({place: RecordsToDelete(sent.offset + 1)})
        finally:
            await client.close()
        worker.signal(signal.SIGCONT)
        assert await worker.gone() == EXIT_RESTART, worker.last_words()
        assert f"{place.topic}/0: expected offset" in worker.said()
        assert "are gone before they were read" in worker.said()
    finally:
        worker.end()


@story
async def test_a_rollback_and_its_lift(settings: KafkaSettings) -> None:
    """A rollback published as a fact gives the sums as of then, and its lift gives them back."""
    first, second = ([close(f"{name}-{n}") for n in range(50)] for name in ("first", "second"))
    clock = SystemClock()
    await create(settings)
    async with working(settings):
        await publish(settings, first)
        as_of_then = await table(settings)
        to = clock.now() // 1_000 * 1_000 + 1_000

        async def look() -> str | None:
            return None if clock.now() > to + 2_000 else "the same millisecond"

        await until("the clock of the log has moved on", look, 5.0)
        await publish(settings, second)
        whole = await table(settings)
        back = rolled_back(SUBJECT, to)
        await publish(settings, [back])
        run = foreseen(first, to - 10_000)
        run = foreseen([*second, back], to + 10_000, run)
        rolled = await table(settings)
        assert rolled == digests_in(run)
        assert rolled[SUBJECT] == as_of_then[SUBJECT] != whole[SUBJECT]
        lift = lifted(SUBJECT)
        await publish(settings, [lift])
        assert await table(settings) == digests_in(foreseen([lift], to + 20_000, run)) == whole


@story
async def test_workers_join_and_leave(settings: KafkaSettings, tmp_path: Path) -> None:
    """While events flow a second worker takes its share, then the first leaves: each entry once."""
    load = list(mixed(400, 3))
    fed = asyncio.Event()

    async def feed() -> None:
        for start in range(0, len(load), 10):
            await publish(settings, load[start : start + 10])
            if start == 50:
                fed.set()

    await create(settings)
    await publish(settings, medians())
    first = WorkerProcess(settings, tmp_path / "first.log")
    second: WorkerProcess | None = None
    try:
        await first.ready()
        feeding = asyncio.create_task(feed())
        await fed.wait()
        second = WorkerProcess(settings, tmp_path / "second.log")
        await second.ready()
        await second.has_partitions()
        await first.leave()
        await feeding
        await must_equal(settings, [*medians(), *load])
        assert second.exit_code is None, second.last_words()
    finally:
        first.end()
        if second is not None:
            second.end()
