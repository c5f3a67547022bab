"""The policy: peeks from memory, durable decisions, memory a subject, from one run.

`pytest -s -o python_files='bench_*.py' tests/benchmarks/bench_policy.py`. TRUSTFOLD_BENCH_SUBJECTS
names the sizes (default 10000,1000000; a million takes some minutes and 3 GB of disk).
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import trustfold
from tests.benchmarks.loads import versions
from tests.benchmarks.policy_loads import NOW, documents, rules
from tests.benchmarks.policy_loads import subject as subject_of
from trustfold_projections.laws.policy import decide
from trustfold_schemas.decisions import Action
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import Document, EmbeddedStore
from trustfold_streams.embedded.policy_table import PolicyTable
from trustfold_streams.embedded.quiet import collector_off

SIZES = [int(n) for n in os.environ.get("TRUSTFOLD_BENCH_SUBJECTS", "10000,1000000").split(",")]
PEEKS, PASSES, DECISIONS, CALLERS = 100_000, 8, 1_000, 32


def test_bench_policy(tmp_path: Path) -> None:
    """Prints the figures that issue notes quote; asserts no time."""
    print(f"\npolicy; {versions()}; {PEEKS:,} random subjects")
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


def _build(path: Path, size: int) -> None:
    with EmbeddedStore.open(path, clock=ManualClock(NOW)) as store, collector_off():
        for write in rules():
            store.policy.say(write)
        store.ingest((Document(body, "bench") for body in documents(size)), batch=500)


class _Moving:
    """A clock that goes on from a moment, so that no moment is asked for twice."""

    def __init__(self) -> None:
        self._started = time.perf_counter_ns()

    def now(self) -> int:
        """The moment, in microseconds since 1970."""
        return NOW + (time.perf_counter_ns() - self._started) // 1_000


def _peeks(path: Path, size: int) -> None:
    gc.collect()
    before, started = _resident(), time.perf_counter()
    table = PolicyTable.open(path, _Moving())
    loaded = time.perf_counter() - started
    gc.collect()
    held = _resident() - before
    print(
        f"          loaded and checked in {loaded:,.1f} s ({len(table) / loaded:,.0f}/s), "
        f"{held / len(table):,.0f} bytes a subject"
    )
    chance = random.Random(7)
    asked = [subject_of(chance.randrange(size)) for _ in range(PEEKS)]
    reasons = Counter(table.peek(one, "reversible").reason.value for one in asked[:10_000])
    print("          of 100 peeks: " + ", ".join(_shares(reasons)))
    passes: list[list[int]] = []
    for _ in range(PASSES):
        table.refresh()
        passes.append(_peeked(table, asked, time.perf_counter_ns))
        _print_peeks("wall", passes[-1])
    table.refresh()
    _print_peeks("the thread's own time", _peeked(table, asked, time.thread_time_ns))
    # On a machine that others use, a pass shows their turns; each call's best shows the work.
    _print_peeks(f"each call's best of {PASSES}", list(map(min, zip(*passes, strict=True))))
    table.close()


def _peeked(table: PolicyTable, asked: Sequence[Subject], clock: Callable[[], int]) -> list[int]:
    """Nanoseconds of each peek."""
    taken: list[int] = []
    for one in asked:
        started = clock()
        table.peek(one, "reversible")
        taken.append(clock() - started)
    return taken


def _print_peeks(what: str, taken: Sequence[int]) -> None:
    ordered = sorted(taken)
    p50, p99, p999 = (ordered[int(len(ordered) * part)] / 1e3 for part in (0.5, 0.99, 0.999))
    print(f"          peek, {what}: p50 {p50:.1f} us, p99 {p99:.1f} us, p99.9 {p999:.1f} us")


def _shares(counted: Counter[str]) -> Iterator[str]:
    for name, number in counted.most_common():
        yield f"{number / counted.total():.1%} {name}"


def _decisions(path: Path, size: int) -> None:
    chance = random.Random(8)
    with EmbeddedStore.open(path, clock=ManualClock(NOW)) as store:
        numbers = iter(range(DECISIONS))

        def ask() -> None:
            number = next(numbers)
            subject = subject_of(chance.randrange(size))
            store.policy.decide(Action(subject, "reversible", f"now/{number}", "s1", "f1"))

        p50, p99, rate = _each(ask, DECISIONS)
        print(
            f"          decide, durable: p50 {p50:,.0f} us, p99 {p99:,.0f} us, {rate:,.0f}/s; of it"
        )
        policy, subject = store.policy.in_force(), subject_of(1)
        state, action = store.state(subject), Action(subject, "reversible", "t", "s")
        p50, _, _ = _each(lambda: decide(state, policy, action, NOW), 10_000)
        print(f"          the law {p50:.1f} us")
    asyncio.run(_decisions_at_once(path, size))


async def _decisions_at_once(path: Path, size: int) -> None:
    """Callers that wait for each other's disk, as those of a server do."""
    chance = random.Random(9)
    async with trustfold.open(path, clock=ManualClock(NOW)) as store:
        numbers = iter(range(DECISIONS))

        async def caller() -> None:
            for number in numbers:
                subject = subject_of(chance.randrange(size))
                await store.decide(Action(subject, "reversible", f"then/{number}", "s1", "f1"))

        started = time.perf_counter()
        await asyncio.gather(*[caller() for _ in range(CALLERS)])
        rate = DECISIONS / (time.perf_counter() - started)
        print(f"          decide, durable, {CALLERS} callers at once: {rate:,.0f}/s")


def _each(work: Callable[[], object], times: int) -> tuple[float, float, float]:
    """The median and 99th percentile of one call, in microseconds, and calls a second."""
    taken: list[float] = []
    begun = time.perf_counter()
    for _ in range(times):
        started = time.perf_counter_ns()
        work()
        taken.append((time.perf_counter_ns() - started) / 1e3)
    seconds = time.perf_counter() - begun
    taken.sort()
    return taken[len(taken) // 2], taken[int(len(taken) * 0.99)], times / seconds


def _resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
