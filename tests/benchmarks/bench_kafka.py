"""The pipeline on one broker, beside a plain Faust agent and Quix Streams (`make bench-kafka`).

TRUSTFOLD_BENCH_EVENTS: events (default 40000). TRUSTFOLD_QUIX_PYTHON: an interpreter of an own
environment with quixstreams and msgspec; without it that line says how to get one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from compose.kafka.broker import Broker, free_port
from tests.benchmarks.loads import START, closes, trace_of, versions
from tests.benchmarks.policy_loads import rules
from trustfold_schemas.decisions import ReasonCode
from trustfold_schemas.documents import document
from trustfold_schemas.instants import SECOND
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.kafka.apart import APART
from trustfold_streams.kafka.clients import new_producer, send
from trustfold_streams.kafka.fold import FoldStage
from trustfold_streams.kafka.policy import KafkaPolicy
from trustfold_streams.kafka.process import collect_rarely, new_event_loop
from trustfold_streams.kafka.publisher import Publisher
from trustfold_streams.kafka.records import Output, Progress, partition_of
from trustfold_streams.kafka.score_records import Position, pack_score
from trustfold_streams.kafka.settings import INPUT_TOPICS, KafkaSettings
from trustfold_streams.kafka.store import AsyncKafkaStore
from trustfold_streams.kafka.table import TableReader
from trustfold_streams.kafka.task import PartitionTask
from trustfold_streams.kafka.topics import create
from trustfold_streams.kafka.worker import Worker

Item = TypeVar("Item")

EVENTS = int(os.environ.get("TRUSTFOLD_BENCH_EVENTS", "40000"))
SUBJECTS = int(os.environ.get("TRUSTFOLD_BENCH_SUBJECTS", "1000000"))
PARTITIONS = 4
ROOT = Path(__file__).resolve().parents[2]
UNCOUNTED = 2_000
"""Events before those whose latency is told."""
GIVE_UP_SECONDS = 900


def test_bench_kafka() -> None:
    """Prints rates and ratios from one run on one broker; asserts no time."""
    collect_rarely()  # as a worker does
    logging.disable(logging.ERROR)  # a new topic's first seconds are noisy
    print(f"\n{versions()}; one broker, {PARTITIONS} partitions, {EVENTS:,} events of 5 steps")
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder) / "broker", free_port())
        broker.start()
        try:
            _run(_pipeline(broker.bootstrap))  # uncounted: whoever is first meets a cold broker
            ours = _run(_pipeline(broker.bootstrap))
            print(f"{'this pipeline':<18}{EVENTS / ours:>9,.0f} events/s, one worker")
            theirs = _child(broker.bootstrap, folder, "faust")
            if theirs is not None:
                _print("Faust agent", theirs, ours)
            quix = _child(broker.bootstrap, folder, "quix")
            if quix is not None:
                _print("Quix Streams", quix, ours)
            _run(_latency(broker.bootstrap))
            _run(_restore(broker.bootstrap))
        finally:
            broker.stop()


def _run(work: Coroutine[Any, Any, Item]) -> Item:
    """Run on the event loop of a worker."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def _print(name: str, theirs: float, ours: float) -> None:
    rate = EVENTS / theirs
    print(f"{name:<18}{rate:>9,.0f} events/s: the pipeline is {theirs / ours:.1f} times as fast")


def _settings(bootstrap: str) -> KafkaSettings:
    prefix = f"bench-{uuid.uuid4().hex[:8]}."
    return KafkaSettings(bootstrap=bootstrap, prefix=prefix, partitions=PARTITIONS)


async def _publish(settings: KafkaSettings) -> None:
    await create(settings)
    async with Publisher(settings) as publisher:
        for some in _chunks(list(closes(EVENTS)), 5_000):
            await asyncio.gather(*(publisher.publish(body) for body in some))


async def _pipeline(bootstrap: str) -> float:
    """Seconds from the first record that ingest read to the last entry folded, one worker."""
    settings = _settings(bootstrap)
    await _publish(settings)
    gc.collect()  # what the publisher left behind is no worker's
    worker = Worker(settings, history=True)
    await worker.start()
    running = asyncio.create_task(worker.run())
    started, correlated = 0.0, 0
    try:
        while True:
            await asyncio.sleep(0.02)
            if running.done():
                running.result()
            assert worker.ingest is not None
            if not started and worker.ingest.records:
                started = time.monotonic()
            correlate, fold = worker.managers
            records = sum(task.counters.records for task in correlate.tasks.values())
            if records < EVENTS:
                continue
            correlated = correlated or worker.clock.now()
            folded = await fold.progress()
            if len(folded) == PARTITIONS and all(p.caught_up >= correlated for p in folded):
                return time.monotonic() - started
    finally:
        running.cancel()
        await worker.stop()


def _child(bootstrap: str, folder: str, what: str) -> float | None:
    """Seconds that a competitor took for the same events, or None where it cannot be run."""
    python = sys.executable if what == "faust" else os.environ.get("TRUSTFOLD_QUIX_PYTHON", "")
    if not python:
        print(
            "Quix Streams      not run: python3 -m venv quix; quix/bin/pip install quixstreams "
            "msgspec; TRUSTFOLD_QUIX_PYTHON=quix/bin/python make bench-kafka"
        )
        return None
    settings = _settings(bootstrap)
    _run(_publish(settings))
    paths = [ROOT, ROOT / "schemas", ROOT / "projections", ROOT / "streams"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(path) for path in paths),
        "BENCH_PREFIX": settings.prefix,
        "BENCH_BROKER": bootstrap,
        "BENCH_EVENTS": str(EVENTS),
        "BENCH_ENTRIES": str(_entries()),
        "BENCH_PARTITIONS": str(PARTITIONS),
        "BENCH_DATA": f"{folder}/{what}",
    }
    Path(environment["BENCH_DATA"]).mkdir()
    command = (
        [python, "-m", "tests.benchmarks.faust_agent", "worker", "-l", "error"]
        if what == "faust"
        else [python, str(ROOT / "tests/benchmarks/quix_app.py")]
    )
    log = Path(folder) / f"{what}.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child,
    ):
        try:
            assert child.stdout is not None
            deadline = time.monotonic() + GIVE_UP_SECONDS
            for line in child.stdout:
                if line.startswith("done "):
                    return float(line.split()[1])
                if time.monotonic() > deadline:
                    break
        finally:
            child.kill()
    print(f"{what} ended before it had seen all events:\n{log.read_text()[-2_000:]}")
    return None


def _entries() -> int:
    from trustfold_projections.laws.correlation import TraceState, correlate_trace
    from trustfold_projections.laws.medians import MedianTable
    from trustfold_schemas.decoding import decode_event
    from trustfold_schemas.facts import OWNER, Fact

    medians, made = MedianTable(), 0
    for body in closes(EVENTS):
        event = decode_event(body)
        state = TraceState(trace_id=trace_of(event))
        fact = Fact(0, event.time + 1, OWNER, event, body)
        made += len(correlate_trace(state, fact, medians).entries)
    return made


async def _latency(bootstrap: str) -> None:
    """From the call of publish to the score being visible in a table reader, at 100 events/s.

    Of a pipeline that runs: a broker takes small transactions slowly until it has compiled them.
    """
    settings = _settings(bootstrap)
    await create(settings)
    worker = Worker(settings, history=True)
    await worker.start()
    running = asyncio.create_task(worker.run())
    table = TableReader(settings)
    await table.start()
    taken: list[float] = []

    async def one(publisher: Publisher, i: int) -> None:
        subject = Subject("", "bench", f"latency:{i}")
        body = document(
            "trustfold.signals.reported.v1",
            f"latency-{i}",
            "/bench",
            START + i * SECOND,
            {"trace_id": f"latency-{i}", "subject": subject, "tool_success": 1},
        )
        started = time.monotonic()
        await publisher.publish(body)
        while table.state(subject) is None:
            await table.changed(1.0)
        taken.append((time.monotonic() - started) * 1000)

    try:
        async with Publisher(settings) as publisher:
            waiting = []
            for i in range(UNCOUNTED + 1_000):
                waiting.append(asyncio.create_task(one(publisher, i)))
                await asyncio.sleep(0.01)
            await asyncio.gather(*waiting)
            del taken[:UNCOUNTED]
    finally:
        await table.stop()
        running.cancel()
        await worker.stop()
    taken.sort()
    p50, p99 = taken[len(taken) // 2], taken[int(len(taken) * 0.99)]
    print(
        f"publish to visible at 100 events/s, after {UNCOUNTED:,}: "
        f"p50 {p50:.0f} ms, p99 {p99:.0f} ms"
    )


async def _restore(bootstrap: str) -> None:
    """How long fold tasks take to restore their subjects."""
    settings = _settings(bootstrap)
    await create(settings)
    producer = new_producer(settings, "bench-restore")
    await producer.start()
    topic = settings.topic("scores")
    try:
        for some in _chunks(list(range(SUBJECTS)), 20_000):
            outputs = []
            for i in some:
                subject = _restored(i)
                value = pack_score(State(subject=subject, n_samples=1), Position(i, 0))
                partition = partition_of(subject.key, PARTITIONS)
                outputs.append(Output(topic, partition, subject.key, value))
            await asyncio.gather(*await send(producer, outputs))
    finally:
        await producer.stop()
    tasks = [PartitionTask(settings, FoldStage(settings.topic), p) for p in range(PARTITIONS)]
    started = time.monotonic()
    await asyncio.gather(*(task._restore() for task in tasks))
    seconds = time.monotonic() - started
    rows = sum(task.counters.restored for task in tasks)
    print(
        f"restore of {rows:,} subjects over {PARTITIONS} partitions: {seconds:.1f} s, "
        f"{rows / seconds:,.0f} rows/s"
    )
    for task in tasks:
        await task.close()
    del tasks
    gc.collect()
    await _peeks(settings)


async def _peeks(settings: KafkaSettings) -> None:
    """What a policy beside its table takes for a peek: a subject's first, and the next ones."""
    started = time.monotonic()
    async with AsyncKafkaStore(settings) as store, KafkaPolicy.of(store) as policy:
        print(f"a policy's table of them is there after {time.monotonic() - started:.1f} s")
        for write in rules():
            await policy.say(write)
        stages = [f"ingest/{topic}" for topic in INPUT_TOPICS if topic not in APART]
        for stage in (*stages, "correlate", "fold"):  # no worker is there to say so
            for partition in range(PARTITIONS):
                now = store.clock.now()
                store.table.take_progress(
                    Progress(
                        stage=stage,
                        partition=partition,
                        positions={},
                        caught_up=now,
                        recorded=now,
                        written=now,
                    )
                )
        chance = random.Random(7)
        asked = [_restored(chance.randrange(SUBJECTS)) for _ in range(20_000)]
        for what in ("first", "next"):
            taken: list[int] = []
            for subject in asked:
                before = time.perf_counter_ns()
                verdict = await policy.peek(subject, "reversible")
                taken.append(time.perf_counter_ns() - before)
                assert ReasonCode.STALE not in verdict.reasons
            taken.sort()
            p50, p99 = (taken[int(len(taken) * part)] / 1e3 for part in (0.5, 0.99))
            print(f"peek, a subject's {what}: p50 {p50:.1f} us, p99 {p99:.1f} us")


def _restored(number: int) -> Subject:
    return Subject("", f"tool{number % 97}", f"fs_read:{number}")


def _chunks(items: list[Item], size: int) -> list[list[Item]]:
    return [items[i : i + size] for i in range(0, len(items), size)]
