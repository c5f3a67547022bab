"""What readers are told: nothing while the table may be incomplete, and never a damaged score."""

from __future__ import annotations

import asyncio

import pytest

from tests.broker.loads import START, medians, mixed
from tests.broker.pipeline import (
    SUBJECT,
    close,
    complete,
    create,
    digests_in,
    digests_of,
    foreseen,
    must_equal,
    plain_producer,
    publish,
    settings_for,
    story,
    table,
    working,
)
from tests.broker.processes import until
from tests.broker.running import Running
from tests.embedded.documents import event, recorded_step, step
from trustfold_projections.laws.correlation.abandoned import PATIENCE, abandoned_id
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.instants import SECOND, datetime_of
from trustfold_schemas.scores import TrustScore, content_digest
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock, SystemClock
from trustfold_streams.kafka.apart import APART
from trustfold_streams.kafka.errors import StaleTableError
from trustfold_streams.kafka.records import Progress, partition_of
from trustfold_streams.kafka.settings import INPUT_TOPICS, KafkaSettings
from trustfold_streams.kafka.store import AsyncKafkaStore
from trustfold_streams.kafka.table import STALE_SECONDS, TableReader

broker_test = pytest.mark.broker

OTHER = Subject("", "tool1", "fs_write:~/project1/*")


@pytest.fixture
def settings(broker: Running, prefix: str) -> KafkaSettings:
    """A pipeline that nobody else uses."""
    return settings_for(broker.bootstrap, prefix)


@broker_test
@story
async def test_readers_say_stale_until_a_backlog_is_worked_off(settings: KafkaSettings) -> None:
    """Without a worker, and behind a backlog, reading is refused; the first answer is complete."""
    load = list(mixed(1_500, 5))
    await create(settings)
    await publish(settings, [*medians(), *load])
    # So late that the table must be complete as of now to be read.
    clock = ManualClock(SystemClock().now() + STALE_SECONDS * SECOND)
    reader = TableReader(settings, clock)
    await reader.start()
    refusals = 0

    async def look() -> str | None:
        nonlocal refusals
        try:
            reader.refuse_if_stale()
        except StaleTableError as stale:
            refusals += 1
            return str(stale)
        return None

    try:
        with pytest.raises(StaleTableError, match="is a worker running"):
            reader.refuse_if_stale()
        async with working(settings):
            await until("the backlog is worked off", look, 120.0)
            assert digests_of(reader) == digests_in(foreseen([*medians(), *load]))
        assert refusals > 3
        # The worker is gone: what was complete as of then grows old.
        clock.advance(STALE_SECONDS * SECOND)
        with pytest.raises(StaleTableError, match="the slowest stage had caught up as of 20"):
            reader.refuse_if_stale()
    finally:
        await reader.stop()


@broker_test
@story
async def test_a_corrupt_score_is_no_trust_and_is_mended(settings: KafkaSettings) -> None:
    """A damaged record answers score 0, the others theirs; the next worker refolds the subject."""
    load = [close(f"t{n}", SUBJECT, OTHER) for n in range(5)]
    now = datetime_of(START)
    await create(settings)
    async with working(settings):
        await publish(settings, load)
        await must_equal(settings, load)
        reader = TableReader(settings)
        await reader.start()
        good = reader._packed[SUBJECT.key]
        await reader.stop()
    partition = partition_of(SUBJECT.key, settings.partitions)
    damaged = good.replace(b'"n_samples":"5"', b'"n_samples":"6"')
    async with plain_producer(settings) as producer:
        await producer.send_and_wait(
            settings.topic("scores"), damaged, SUBJECT.key, partition=partition
        )
    async with working(settings):
        async with AsyncKafkaStore(settings) as store:
            await complete(store.table)
            with pytest.raises(TrustCorruptionError, match="checksum"):
                store.table.state(SUBJECT)
            assert await store.get(SUBJECT, now) == TrustScore.empty(SUBJECT)
            other = await store.get(OTHER, now)
            assert other is not None
            assert other.n_samples == 5
            assert (await store.snapshot(now))[SUBJECT].score == 0
        more = close("t5", SUBJECT, OTHER)
        await publish(settings, [more])
        await must_equal(settings, [*load, more])


@broker_test
@story
async def test_an_abandoned_trace_is_closed_by_the_service(settings: KafkaSettings) -> None:
    """After a day without its close a trace with steps is folded, by an event like any other."""
    steps = [recorded_step("left", step("a", SUBJECT)), recorded_step("left", step("b", SUBJECT))]
    data = {"trace_id": "waits", "outcome": "completed", "step_count": 3}
    waiting = event("trace.closed", "close/waits", data, START)
    one = recorded_step("waits", step("a", SUBJECT))
    await create(settings)
    async with working(settings) as worker:
        await publish(settings, [*steps, waiting, one])
        assert await table(settings) == {}
        # The timers that a worker looks at every minute, a day later and twice.
        worker.clock = ManualClock(SystemClock().now() + PATIENCE - 60 * SECOND)
        await worker._timers()
        assert await table(settings) == {}
        worker.clock = ManualClock(SystemClock().now() + PATIENCE)
        await asyncio.gather(worker._timers(), worker._timers())
        found = await table(settings)
        time = decode_event(steps[0]).time
        data = {"trace_id": "left", "scope": "", "outcome": "abandoned", "steps": []}
        left = data | {"step_count": 2, "violations": []}
        waits = left | {"trace_id": "waits", "step_count": 1}
        service = [
            event("trace.closed", abandoned_id(str(one["trace_id"])), one, at, "trustfold")
            for one, at in ((left, time), (waits, START))
        ]
        assert found == digests_in(foreseen([*steps, waiting, one, *service]))
        assert Subject("", "runtime", "abandoned") in found


@broker_test
@story
async def test_a_reader_follows(settings: KafkaSettings) -> None:
    """A reader that was there before the events has them once it says so, without a new start."""
    await create(settings)
    reader = TableReader(settings)
    async with working(settings):
        await reader.start()
        try:
            for number in range(3):
                await publish(settings, [close(f"t{number}")])
                await complete(reader)
                state = reader.state(SUBJECT)
                assert state is not None
                assert state.n_samples == number + 1
                run = foreseen(close(f"t{n}") for n in range(number + 1))
                assert content_digest(state) == digests_in(run)[SUBJECT]
        finally:
            await reader.stop()


def test_a_stage_is_believed_only_as_of_what_stood_before_it() -> None:
    """What `fold` caught up with counts as of what `correlate`, and it `ingest`, had by then."""
    reader = TableReader(KafkaSettings("nowhere:1", partitions=1))

    def says(stage: str, caught_up: int, written: int) -> int:
        reader.take_progress(
            Progress(
                stage=stage,
                partition=0,
                positions={},
                caught_up=caught_up,
                recorded=0,
                written=written,
            )
        )
        return reader.complete_as_of()

    inputs = [topic for topic in INPUT_TOPICS if topic not in APART]
    for topic in inputs:
        assert says(f"ingest/{topic}", 100, 150) == 0
    assert says("correlate", 140, 160) == 0
    assert says("fold", 170, 180) == 0  # correlate had not caught up with what came by 150
    assert says("correlate", 155, 190) == 0  # and fold not with that
    assert says("fold", 190, 200) == 100
    for topic in inputs[1:]:
        says(f"ingest/{topic}", 300, 300)
    says("correlate", 310, 320)
    assert says("fold", 330, 340) == 100  # one input is still behind
    says(f"ingest/{inputs[0]}", 305, 350)
    assert says("correlate", 0, 360) == 100  # a new owner that has not caught up yet takes nothing
    says("correlate", 370, 380)
    assert says("fold", 390, 400) == 300
