"""The embedded store: ingest, fold, lookups and size, from one run (`make bench`).

TRUSTFOLD_BENCH_EVENTS names the sizes (default 10000,100000,1000000).
"""

from __future__ import annotations

import gc
import os
import random
import resource
import time
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from pathlib import Path

from tests.benchmarks.loads import closes, trace_of, versions
from tests.oracles.seed_snippet import SeedStore
from trustfold_projections.laws.admission import admit
from trustfold_projections.laws.correlation import TraceState, correlate_trace, lone_close
from trustfold_projections.laws.fold import fold
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.instants import datetime_of
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import Document, EmbeddedStore
from trustfold_streams.embedded.quiet import collector_off

SIZES = [
    int(n) for n in os.environ.get("TRUSTFOLD_BENCH_EVENTS", "10000,100000,1000000").split(",")
]


def test_bench_embedded(tmp_path: Path) -> None:
    """Prints the figures that issue notes quote; asserts no time."""
    print(f"\nembedded store; {versions()}; five steps an event, 200 subjects")
    _durability(tmp_path)
    _where_the_time_goes()
    _folding()
    for size in SIZES:
        _ingest(tmp_path / f"{size}.db", size)


def _durability(folder: Path) -> None:
    for batch, number in ((1, 1_000), (100, 5_000), (1_000, 20_000), (4_000, 20_000)):
        documents = [Document(body, "bench") for body in closes(number)]
        with EmbeddedStore.open(folder / f"batch-{batch}.db") as store, collector_off():
            seconds = _timed(lambda: store.ingest(documents, batch=batch))  # noqa: B023
        print(f"ingest, durable, transactions of {batch:>5,}: {number / seconds:>8,.0f} events/s")


def _where_the_time_goes() -> None:
    bodies = list(closes(10_000))
    medians = MedianTable()
    with collector_off():
        started = time.perf_counter()
        events = [admit(body, OWNER) for body in bodies]
        decoded = time.perf_counter()
        facts = [
            Fact(event.time + i, event.time + i, OWNER, event, body)
            for i, (event, body) in enumerate(zip(events, bodies, strict=True))
        ]
        made = time.perf_counter()
        entries: list[Entry] = []
        for fact in facts:
            entries += lone_close(fact, medians) or ()
        correlated = time.perf_counter()
        for fact in facts:
            state = TraceState(trace_id=trace_of(fact.event))
            correlate_trace(state, fact, medians)
        by_the_whole_law = time.perf_counter()
        _fold(entries)
        folded = time.perf_counter()
    for name, seconds in (
        ("decode and check", decoded - started),
        ("correlate", correlated - made),
        ("the whole law", by_the_whole_law - correlated),
        ("fold", folded - by_the_whole_law),
    ):
        print(f"  of an event, {name:<17}{seconds / len(bodies) * 1e6:>6.1f} us")


def _fold(entries: list[Entry]) -> dict[Subject, State]:
    states: dict[Subject, State] = {}
    for entry in entries:
        state = states.get(entry.subject)
        if state is None:
            state = states[entry.subject] = State(subject=entry.subject)
        fold(state, entry)
    return states


def _folding() -> None:
    """Entries folded a second beside the seed's snippet as a per-event Python fold."""
    entries = [entry for entry in _entries(20_000) if not entry.subject.is_global]
    with collector_off():
        ours = _timed(lambda: _fold(entries))
        calls = _calls(entries)
        theirs = _timed(lambda: _snippet(calls))
    print(
        f"fold: {len(entries) / ours:,.0f} entries/s exact, seed's snippet "
        f"{len(entries) / theirs:,.0f}/s: {theirs / ours:.2f} times as fast"
    )


def _entries(number: int) -> list[Entry]:
    medians = MedianTable()
    made: list[Entry] = []
    for i, body in enumerate(closes(number)):
        event = admit(body, OWNER)
        state = TraceState(trace_id=trace_of(event))
        moment = event.time + i
        made += correlate_trace(state, Fact(moment, moment, OWNER, event, body), medians).entries
    return made


def _snippet(calls: list[tuple[Subject, dict[str, float], datetime]]) -> None:
    store = SeedStore()
    for subject, signals, now in calls:
        store.update(subject, signals, now)


def _calls(entries: list[Entry]) -> list[tuple[Subject, dict[str, float], datetime]]:
    """What the seed's `update` would be called with."""
    return [
        (
            entry.subject,
            {
                "tool_success": entry.amounts[0] / 1e6,
                "human_approval_delta": 0.5,
                "cost_efficiency": 0.5,
                "constitution_clean": entry.amounts[3] / 1e6,
                "undo_flag": entry.amounts[4] / 1e6,
            },
            datetime_of(entry.occurred),
        )
        for entry in entries
    ]


def _ingest(path: Path, size: int) -> None:
    """One size: rate by tenths, memory, bytes, lookups, as-of and refold of one subject."""
    documents = (Document(body, "bench") for body in closes(size))
    rates: list[float] = []
    with EmbeddedStore.open(path) as store, collector_off():
        tenth = max(1_000, size // 10)
        while some := list(islice(documents, tenth)):
            seconds = _timed(lambda: store.ingest(some))
            rates.append(len(some) / seconds)
        rare = _rare_subject(store, size)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    status = path.stat().st_size
    print(
        f"{size:>9,} events: first tenth {rates[0]:,.0f}/s, last {rates[-1]:,.0f}/s, "
        f"peak memory {memory:,.0f} MiB, {status / size:,.0f} bytes a trace"
    )
    with EmbeddedStore.open(path) as store:
        states = store.states()
        subjects = [state.subject for state in states]
        chance = random.Random(2)
        lookups = _each(lambda: store.get(chance.choice(subjects)), 2_000)
        print(f"          get p50 {lookups[0]:.0f} us, p99 {lookups[1]:.0f} us")
        settled = store.status().last_recorded or 0
        as_of = _each(lambda: store.state_as_of(rare, settled), 20)
        entries = len(store.entries(rare))
        print(
            f"          as-of of a subject with {entries:,} entries: p50 {as_of[0] / 1000:.1f} ms"
        )


def _rare_subject(store: EmbeddedStore, size: int) -> Subject:
    """A subject with 500 entries, spread over the whole log, that no other load touches."""
    bodies = [
        body.replace(b'"close-', b'"rare-').replace(b'"trace-', b'"rare-')
        for body in closes(500, subjects=1, steps=1, seed=size)
    ]
    bodies = [body.replace(b"project0", b"rare") for body in bodies]
    store.ingest(Document(body, "bench") for body in bodies)
    return Subject("", "tool0", "fs_write:~/rare/*")


def _timed(work: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _each(work: Callable[[], object], times: int) -> tuple[float, float]:
    """The median and the 99th percentile of one call, in microseconds."""
    taken: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1e6)
    taken.sort()
    return taken[len(taken) // 2], taken[int(len(taken) * 0.99)]
