"""The policy: peeks from memory, durable decisions, memory a subject, from one run.

`pytest -s -o python_files='bench_*.py' tests/benchmarks/bench_policy.py`. TRUSTFOLD_BENCH_SUBJECTS
names the sizes (default 10000,1000000; a million takes some minutes and 3 GB of disk).
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tests.benchmarks.loads import START, versions
from trustfold_projections.laws.policy import decide
from trustfold_schemas import actions
from trustfold_schemas.decisions import Action
from trustfold_schemas.instants import DAY, SECOND, format_instant
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import Document, EmbeddedStore
from trustfold_streams.embedded.policy_table import PolicyTable
from trustfold_streams.embedded.quiet import collector_off

SIZES = [int(n) for n in os.environ.get("TRUSTFOLD_BENCH_SUBJECTS", "10000,1000000").split(",")]
STEPS = 50
"""Steps a trace, each of another subject, so that a million subjects are soon there."""
NOW = START + 30 * DAY
PEEKS, DECISIONS = 200_000, 1_000


def test_bench_policy(tmp_path: Path) -> None:
    """Prints the figures that issue notes quote; asserts no time."""
    print(f"\npolicy; {versions()}; 39 declarations, peeks of random subjects")
    for size in SIZES:
        path = tmp_path / f"{size}.db"
        # In a process of its own, so that what ingest holds is no part of the memory measured.
        building = multiprocessing.get_context("spawn").Process(target=_build, args=(path, size))
        started = time.perf_counter()
        building.start()
        building.join()
        assert building.exitcode == 0
        print(f"{size:>9,} subjects: built in {time.perf_counter() - started:,.0f} s")
        _peeks(path, size)
        _decisions(path, size)


def _subject(number: int) -> Subject:
    return Subject("", f"tool{number % 20}", f"fs_write:~/project{number}/*")


def _build(path: Path, size: int) -> None:
    with EmbeddedStore.open(path, clock=ManualClock(NOW)) as store, collector_off():
        say = store.policy.say
        say(lambda one: actions.policy_mode(one, "enforce", "bench", "bench", 0))
        for number in range(38):
            glob = f"fs_write:~/other{number}/*"
            say(lambda one: actions.effect_declared(one, glob, "reversible", "bench", "bench"))  # noqa: B023
        say(lambda one: actions.effect_declared(one, "fs_*", "reversible", "bench", "bench"))
        store.ingest(_closes(size), batch=500)


def _closes(size: int) -> Iterator[Document]:
    for number in range(0, size, STEPS):
        steps = [
            {
                "step_id": str(i),
                "tool": _subject(i).tool,
                "effect": _subject(i).effect,
                "status": "error" if i % 10 == 0 else "ok",
            }
            for i in range(number, min(size, number + STEPS))
        ]
        event = {
            "specversion": "1.0",
            "id": f"close-{number}",
            "source": "/bench",
            "type": "trustfold.trace.closed.v1",
            "time": format_instant(START + number * SECOND // STEPS),
            "data": {"trace_id": f"trace-{number}", "outcome": "done", "steps": steps},
        }
        yield Document(msgspec.json.encode(event), "bench")


def _peeks(path: Path, size: int) -> None:
    gc.collect()
    before, started = _resident(), time.perf_counter()
    table = PolicyTable.open(path, ManualClock(NOW))
    loaded = time.perf_counter() - started
    gc.collect()
    held = _resident() - before
    assert len(table) == size + 1
    print(
        f"          loaded and checked in {loaded:,.1f} s ({size / loaded:,.0f}/s), "
        f"{held / size:,.0f} bytes a subject"
    )
    chance = random.Random(7)
    asked = [_subject(chance.randrange(size)) for _ in range(PEEKS)]
    subjects = iter(asked)
    p50, p99, rate = _each(lambda: table.peek(next(subjects), "reversible"), PEEKS)
    print(f"          peek p50 {p50:.1f} us, p99 {p99:.1f} us, {rate:,.0f}/s in one thread")
    subjects = iter(asked)
    # On a machine that others use, the wall's p99 is how long they had the core.
    p50, p99, _ = _each(
        lambda: table.peek(next(subjects), "reversible"), PEEKS, time.thread_time_ns
    )
    print(f"          peek by the thread's own CPU: p50 {p50:.1f} us, p99 {p99:.1f} us")
    table.close()


def _decisions(path: Path, size: int) -> None:
    chance = random.Random(8)
    with EmbeddedStore.open(path, clock=ManualClock(NOW)) as store:
        numbers = iter(range(DECISIONS))

        def ask() -> None:
            number = next(numbers)
            subject = _subject(chance.randrange(size))
            store.policy.decide(Action(subject, "reversible", f"now/{number}", "s1", "f1"))

        p50, p99, rate = _each(ask, DECISIONS)
        print(
            f"          decide, durable: p50 {p50:,.0f} us, p99 {p99:,.0f} us, {rate:,.0f}/s; of it"
        )
        policy, subject = store.policy.in_force(), _subject(1)
        state, action = store.state(subject), Action(subject, "reversible", "t", "s")
        p50, _, _ = _each(lambda: decide(state, policy, action, NOW), 10_000)
        print(f"          the law {p50:.1f} us")


def _each(
    work: Callable[[], object], times: int, clock: Callable[[], int] = time.perf_counter_ns
) -> tuple[float, float, float]:
    """The median and 99th percentile of one call, in microseconds, and calls a second."""
    taken: list[float] = []
    begun = time.perf_counter()
    for _ in range(times):
        started = clock()
        work()
        taken.append((clock() - started) / 1e3)
    seconds = time.perf_counter() - begun
    taken.sort()
    return taken[len(taken) // 2], taken[int(len(taken) * 0.99)], times / seconds


def _resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
