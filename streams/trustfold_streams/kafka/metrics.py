"""A worker's numbers for Prometheus, and the small server for them and for /health.

Series of a partition come and go with it and start at 0 each time it is opened; rates and
increases, as Prometheus computes them, are right over that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from trustfold_streams.kafka.correlate import CorrelateTask
from trustfold_streams.kafka.health import Observer
from trustfold_streams.kafka.worker import Worker

HOST = "127.0.0.1"
DEFAULT_PORT = 9464
"""Where compose.yaml looks for /health; the port that is customary for Prometheus exporters."""

Tallies = Callable[[], Mapping[str, Mapping[str, int]]]
"""Agent -> what it did with its records -> how many."""

PLACE = ("stage", "partition")


def no_tallies() -> Mapping[str, Mapping[str, int]]:
    """A worker without agents."""
    return {}


class WorkerCollector(Collector):
    """Reads an observed worker when it is asked, and keeps nothing."""

    def __init__(self, observer: Observer, tallies: Tallies = no_tallies) -> None:
        self._observer = observer
        self._tallies = tallies

    def collect(self) -> Iterator[Metric]:
        """Every family; those of stages only once the worker has started."""
        yield GaugeMetricFamily(
            "trustfold_healthy",
            "1 while every partition moves or is caught up.",
            float(self._observer.health().ok),
        )
        worker = self._observer.worker
        if worker is not None and self._observer.started:
            yield from _of_the_stages(worker)
            yield from _of_the_tasks(worker)
            yield from self._of_the_lag(worker)
            yield from self._of_the_folds(worker)
        yield _family(
            CounterMetricFamily,
            "trustfold_agent_records",
            "Records by agent and what became of them.",
            ("agent", "result"),
            (
                ((agent, result), count)
                for agent, tally in self._tallies().items()
                for result, count in tally.items()
            ),
        )

    def _of_the_lag(self, worker: Worker) -> Iterator[Metric]:
        assert worker.ingest is not None
        lags: list[tuple[tuple[str, ...], float]] = [(("ingest", ""), worker.ingest.lag())]
        for manager in worker.managers:
            behind = manager.lag()
            lags += [
                ((manager.stage.name, str(partition)), behind.get(partition, 0))
                for partition in manager.tasks
            ]
        yield _family(
            GaugeMetricFamily,
            "trustfold_lag_records",
            "Records not yet processed; those of ingest in one, and control records among them, "
            "so that 1 may mean none: alarm on growth.",
            PLACE,
            lags,
        )
        yield _family(
            GaugeMetricFamily,
            "trustfold_lag_seconds",
            "Age of the last moment at which everything the inputs held was processed.",
            PLACE,
            (
                ((one.stage, str(one.partition)), self._observer.seconds_behind(one))
                for one in self._observer.reports()
            ),
        )

    def _of_the_folds(self, worker: Worker) -> Iterator[Metric]:
        yield _family(
            CounterMetricFamily,
            "trustfold_refolds",
            "Times that a partition of the ledger was reread, after a rollback or a corrupt score.",
            ("partition",),
            (((str(place),), count) for place, count in self._observer.refolds.items()),
        )
        yield _family(
            GaugeMetricFamily,
            "trustfold_refolding",
            "1 while a partition of the ledger is reread.",
            PLACE,
            (
                ((manager.stage.name, str(partition)), task.work.refolding)
                for manager in worker.managers
                for partition, task in manager.tasks.items()
            ),
        )


def _of_the_stages(worker: Worker) -> Iterator[Metric]:
    assert worker.ingest is not None
    refused: list[tuple[tuple[str, ...], float]] = [
        (("ingest", "", reason), count) for reason, count in worker.ingest.refused.items()
    ]
    if worker.apart is not None:
        refused += [
            ((worker.apart.name, "", reason), count)
            for reason, count in worker.apart.refused.items()
        ]
    rebalances: list[tuple[tuple[str, ...], float]] = [(("ingest",), worker.ingest.rebalances)]
    for manager in worker.managers:
        rebalances.append(((manager.stage.name,), manager.rebalances))
        for partition, task in manager.tasks.items():
            if isinstance(task.work, CorrelateTask):
                for reason, count in task.work.refused.items():
                    refused.append(((manager.stage.name, str(partition), reason), count))
    yield _family(
        CounterMetricFamily,
        "trustfold_dead_letters",
        "Dead letters written, by reason.",
        (*PLACE, "reason"),
        refused,
    )
    yield _family(
        CounterMetricFamily,
        "trustfold_rebalances",
        "Assignments of partitions to this worker.",
        ("stage",),
        rebalances,
    )


def _of_the_tasks(worker: Worker) -> Iterator[Metric]:
    assert worker.ingest is not None
    tasks = [
        ((manager.stage.name, str(partition)), task.counters)
        for manager in worker.managers
        for partition, task in manager.tasks.items()
    ]
    yield _family(
        CounterMetricFamily,
        "trustfold_records",
        "Records processed; those of ingest in one.",
        PLACE,
        [(("ingest", ""), worker.ingest.records), *((place, of.records) for place, of in tasks)],
    )
    times = SummaryMetricFamily(
        "trustfold_transaction_seconds", "Transactions and the time they took.", labels=PLACE
    )
    for place, counters in tasks:
        times.add_metric(place, counters.transactions, counters.transaction_seconds)
    yield times
    yield _family(
        CounterMetricFamily,
        "trustfold_restored_rows",
        "Rows of state read when a partition was opened.",
        PLACE,
        ((place, counters.restored) for place, counters in tasks),
    )
    yield _family(
        CounterMetricFamily,
        "trustfold_restore_seconds",
        "The time that took.",
        PLACE,
        ((place, counters.restore_seconds) for place, counters in tasks),
    )


def _family(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    text: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    made = kind(name, text, labels=labels)
    for key, value in values:
        made.add_metric(key, value)
    return made


class MetricsServer:
    """Serves /metrics and /health on 127.0.0.1; who else may read them is a proxy's decision."""

    def __init__(self, observer: Observer, tallies: Tallies = no_tallies) -> None:
        self._observer = observer
        self._registry = CollectorRegistry()
        self._registry.register(WorkerCollector(observer, tallies))
        ProcessCollector(registry=self._registry)
        self._runner: web.AppRunner | None = None

    async def start(self, port: int) -> None:
        """Listen. Raises OSError where the port is taken."""
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/health", self._health)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, port).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        body = generate_latest(self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _health(self, _: web.Request) -> web.Response:
        health = self._observer.health()
        return web.Response(
            body=msgspec.json.encode(health),
            status=200 if health.ok else 503,
            content_type="application/json",
        )
