"""Health and metrics of a worker that is told what it looks like: no broker."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from compose.kafka.broker import free_port
from trustfold_streams.clock import ManualClock
from trustfold_streams.kafka import health
from trustfold_streams.kafka.correlate import CorrelateStage, CorrelateTask
from trustfold_streams.kafka.fold import FoldStage, FoldTask
from trustfold_streams.kafka.health import STILL_SECONDS, Movement, Observer
from trustfold_streams.kafka.metrics import MetricsServer, WorkerCollector
from trustfold_streams.kafka.records import Progress
from trustfold_streams.kafka.stage import Record
from trustfold_streams.kafka.task import Counters

T = 1_780_012_800_000_000
SECOND = 1_000_000


def report(
    stage: str = "fold", partition: int = 0, *, at: int = 0, caught_up: int = T, **more: Any
) -> Progress:
    """A stage's word on a partition."""
    return Progress(
        stage=stage,
        partition=partition,
        positions={f"p.ledger/{partition}": at},
        caught_up=caught_up,
        recorded=T,
        **{"written": T, **more},
    )


# ---- who stands still --------------------------------------------------------------------------


def still(*rounds: tuple[float, Progress]) -> list[tuple[str, int]]:
    """Which partitions stand still at the end of these rounds of one report each."""
    movement = Movement()
    for moment, one in rounds:
        movement.see([one], moment)
    moment, one = rounds[-1]
    return [(found.stage, found.partition) for found in movement.standing_still([one], moment)]


LATER = T + 100 * SECOND


def test_an_idle_partition_that_is_caught_up_is_fine() -> None:
    """Where nothing comes in, nothing has to move."""
    assert still(*((float(s), report(caught_up=T + s * SECOND)) for s in range(100))) == []


def test_a_partition_that_is_behind_and_moves_is_fine() -> None:
    """A backlog is worked off for as long as it takes."""
    told = [(float(s), report(at=s, caught_up=T, written=T + s * SECOND)) for s in range(100)]
    assert still(*told) == []


def test_a_partition_that_is_behind_and_does_not_move_is_named() -> None:
    """After the bound, and not before, stage and partition are named."""
    first = (0.0, report("correlate", 3, caught_up=T))
    late = report("correlate", 3, caught_up=T, written=LATER)
    assert still(first, (STILL_SECONDS - 1, late)) == []
    assert still(first, (STILL_SECONDS, late)) == [("correlate", 3)]


def test_a_partition_that_never_caught_up_is_named() -> None:
    """Zero is no moment that it was caught up with."""
    assert still((0.0, report(caught_up=0)), (60.0, report(caught_up=0))) == [("fold", 0)]


def test_one_that_refolds_is_at_work() -> None:
    """Rereading a ledger takes its time; the worker's own watchdog bounds it."""
    told = report(caught_up=0, state="refolding")
    assert still((0.0, told), (60.0, told)) == []


def test_a_partition_that_left_and_came_back_begins_anew() -> None:
    """What was seen of it before belongs to somebody else's time."""
    movement = Movement()
    movement.see([report(caught_up=0)], 0.0)
    movement.see([], 40.0)
    movement.see([report(caught_up=0)], 50.0)
    assert movement.standing_still([report(caught_up=0)], 60.0) == []


# ---- an observed worker ------------------------------------------------------------------------


async def nothing(topic: str, partition: int, first: int, end: int) -> AsyncIterator[Record]:
    """A lookup that finds nothing."""
    none: list[Record] = []
    for one in none:
        yield one


class Stage:
    """A stage as the worker has it: an ingest or a manager."""

    def __init__(self, name: str, **more: Any) -> None:
        self.stage = SimpleNamespace(name=name)
        self.told: list[Progress] = []
        vars(self).update(more)

    async def progress(self) -> list[Progress]:
        """What it was told to say."""
        return self.told

    def lag(self) -> Any:
        """Two records behind."""
        return {0: 2} if self.stage.name != "ingest" else 2


def topic(name: str) -> str:
    """A full name."""
    return f"p.{name}"


def observed(
    monotonic: Callable[[], float] = time.monotonic,
) -> tuple[Observer, dict[str, Stage]]:
    """An observer of a worker with three stages, each with one partition."""

    async def medians() -> Any:
        raise AssertionError

    correlate: CorrelateTask = CorrelateStage(topic, 1, None, 0, medians).task(0, nothing)
    correlate.refused = {"future": 3}
    fold: FoldTask = FoldStage(topic).task(0, nothing)
    counters = Counters(
        records=5, transactions=2, transaction_seconds=0.5, restored=7, restore_seconds=0.25
    )

    def task(work: Any) -> SimpleNamespace:
        return SimpleNamespace(work=work, counters=counters, opened=True, alive_at=0.0)

    stages = {
        "ingest": Stage("ingest", records=9, refused=Counter({"malformed": 2}), rebalances=1),
        "correlate": Stage("correlate", tasks={0: task(correlate)}, rebalances=2),
        "fold": Stage("fold", tasks={0: task(fold)}, rebalances=2),
    }
    worker: Any = SimpleNamespace(
        ingest=stages["ingest"],
        apart=SimpleNamespace(name="apart", refused=Counter({"already_set": 4})),
        managers=[stages["correlate"], stages["fold"]],
    )
    observer = Observer(ManualClock(T), monotonic=monotonic)
    observer.observe(worker)
    observer.begun()
    return observer, stages


def samples(observer: Observer) -> dict[str, float]:
    """Every sample as Prometheus reads it, by name and labels."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(observer, lambda: {"synapse": {"poison": 4}}))
    text = generate_latest(registry).decode()
    return {
        " ".join([one.name, *(value for _, value in sorted(one.labels.items()))]): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_every_number_is_there() -> None:
    """Records, transactions, dead letters by reason, restores, rebalances, lags and agents."""
    observer, stages = observed()
    stages["fold"].told = [report(caught_up=T - 3 * SECOND)]
    asyncio.run(ask(stages))
    found = samples(observer)
    wanted = {
        "trustfold_healthy": 1,
        "trustfold_records_total  ingest": 9,
        "trustfold_records_total 0 fold": 5,
        "trustfold_transaction_seconds_count 0 fold": 2,
        "trustfold_transaction_seconds_sum 0 fold": 0.5,
        "trustfold_restored_rows_total 0 correlate": 7,
        "trustfold_restore_seconds_total 0 correlate": 0.25,
        "trustfold_dead_letters_total  malformed ingest": 2,
        "trustfold_dead_letters_total 0 future correlate": 3,
        "trustfold_rebalances_total ingest": 1,
        "trustfold_rebalances_total fold": 2,
        "trustfold_lag_records  ingest": 2,
        "trustfold_lag_records 0 fold": 2,
        "trustfold_lag_seconds 0 fold": 3,
        "trustfold_refolding 0 fold": 0,
        "trustfold_agent_records_total synapse poison": 4,
    }
    assert {key: found.get(key) for key in wanted} == wanted


async def ask(stages: dict[str, Stage]) -> None:
    """Ask every stage for its progress, as the worker does each second."""
    for stage in stages.values():
        await stage.progress()


def test_before_the_worker_has_started_it_is_not_healthy() -> None:
    """A worker that is still starting has no numbers of stages, and says 0 for healthy."""
    found = samples(Observer(ManualClock(T)))
    assert found["trustfold_healthy"] == 0
    assert not [key for key in found if key.startswith("trustfold_records")]


def test_refolds_are_counted_where_they_happen() -> None:
    """Each time a fold task rereads its ledger, also one that opened again later, counts."""
    observer, stages = observed()
    for _ in range(2):
        observer.hook("fold", 0, "restored")
        observer.hook("correlate", 0, "restored")
        work: FoldTask = vars(stages["fold"])["tasks"][0].work
        work.lookup("p.ledger", 0, 0, 1)
        vars(stages["fold"])["tasks"][0].work = FoldStage(topic).task(0, nothing)
    assert samples(observer)["trustfold_refolds_total 0"] == 2


def test_a_silent_worker_is_not_healthy() -> None:
    """When nothing is measured any more, be it for an outage, health is gone after the bound."""
    now = 0.0
    observer, stages = observed(lambda: now)
    asyncio.run(ask(stages))
    silent = 0.0
    while silent < STILL_SECONDS:
        assert observer.health().ok
        now += 1.0
        silent = observer.tick()
    assert not observer.health().ok
    asyncio.run(ask(stages))
    assert observer.health().ok


def test_a_frozen_process_was_not_silent() -> None:
    """Of an hour in which it was stopped by a signal, no more than a tick counts as silence."""
    now = 0.0
    observer, _ = observed(lambda: now)
    now += 3_600
    assert observer.tick() <= health.TICK_SECONDS_MAX


# ---- over HTTP ---------------------------------------------------------------------------------


def test_health_turns_red_and_names_who_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 while all is well; 503 with stage and partition when one stands still."""

    async def told() -> tuple[int, Any, int, Any, str]:
        observer, stages = observed()
        port = free_port()
        server = MetricsServer(observer)
        await server.start(port)
        url = f"http://127.0.0.1:{port}"
        try:
            async with aiohttp.ClientSession() as session:
                monkeypatch.setattr(health, "STILL_SECONDS", 30.0)
                async with session.get(f"{url}/health") as answer:
                    fine, good = answer.status, json.loads(await answer.read())
                monkeypatch.setattr(health, "STILL_SECONDS", -1.0)
                stages["fold"].told = [report("fold", 0, caught_up=0)]
                await stages["fold"].progress()
                async with session.get(f"{url}/health") as answer:
                    red, bad = answer.status, json.loads(await answer.read())
                async with session.get(f"{url}/metrics") as answer:
                    text = await answer.text()
        finally:
            await server.stop()
        return fine, good, red, bad, text

    fine, good, red, bad, text = asyncio.run(told())
    assert (fine, good["ok"], good["standing_still"]) == (200, True, [])
    assert (red, bad["ok"]) == (503, False)
    [found] = bad["standing_still"]
    assert (found["stage"], found["partition"], found["why"]) == ("fold", 0, "never caught up")
    assert "trustfold_healthy 0.0" in text
    assert "process_cpu_seconds_total" in text
