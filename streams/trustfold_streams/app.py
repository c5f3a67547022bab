"""The Faust application: the pipeline as its first service, and the agents beside it.

Faust is the frame (process, services, signals, consumers of the agents); the ledger's stages are
tasks of ours in `kafka`, run by the service `Pipeline`. `faust -A trustfold_streams.app worker`
and `trustfold worker` start the same. Nothing is built before somebody asks for `app`, so that
this module can be imported where no broker is named.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import faust
import mode
import msgspec
from faust.app.base import BootStrategy
from faust.auth import GSSAPICredentials, SASLCredentials
from msgspec import Struct

from trustfold_schemas.errors import TrustfoldError
from trustfold_streams.agents.driver import (
    Handover,
    ReadingApp,
    keys_that_begin_with,
    where_each_key_changes,
)
from trustfold_streams.agents.rows import Tally
from trustfold_streams.agents.synapse import KEY, add_synapse
from trustfold_streams.agents.watch import add_watch, band_of
from trustfold_streams.clock import Clock, SystemClock
from trustfold_streams.kafka.clients import FETCH_BYTES_MAX, REQUEST_BYTES_MAX
from trustfold_streams.kafka.errors import BrokerSlowError
from trustfold_streams.kafka.health import SILENT_SECONDS, STILL_SECONDS, Observer, Still
from trustfold_streams.kafka.logs import set_up_logs
from trustfold_streams.kafka.metrics import DEFAULT_PORT, MetricsServer
from trustfold_streams.kafka.process import collect_rarely, new_event_loop
from trustfold_streams.kafka.settings import KafkaSettings, load
from trustfold_streams.kafka.task import Hook, no_hook
from trustfold_streams.kafka.worker import EXIT_RESTART, Worker, end_process

log = logging.getLogger("trustfold.app")

AGENTS = "agents"
"""The name of the application; its group and its changelogs begin with prefix and name."""
EXIT_UNUSABLE = 3
"""The broker cannot be reached, or its topics are unsafe: a restart alone mends nothing."""
METRICS_VARIABLE = "TRUSTFOLD_METRICS_PORT"
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 45.0
TICK_SECONDS = 1.0
SESSION_SECONDS_MIN = 6.0


class Options(Struct, frozen=True, kw_only=True):
    """What a worker is told beside its settings.

    `metrics_port` None: the default one, if it is free; 0: no server.
    """

    history: bool = False
    agents: bool = True
    metrics_port: int | None = None


class Pipeline(mode.Service):
    """Runs the stages of this process, and ends the process when they cannot go on."""

    def __init__(self, worker: Worker, observer: Observer, server: MetricsServer) -> None:
        super().__init__()
        self.server = server
        self.metrics_port: int | None = None
        self.app: faust.App | None = None
        self._worker = worker
        self._observer = observer

    async def on_start(self) -> None:
        """Listen for health checks, then start the stages; whoever waits for us sees both."""
        set_up_logs()
        try:
            await self._serve()
            self._observer.observe(self._worker)
            async with asyncio.timeout(START_SECONDS_MAX):
                await self._worker.start()
            self._observer.begun()
        except asyncio.CancelledError:
            raise
        except TrustfoldError as error:
            log.critical("%s", error)
            _leave(EXIT_UNUSABLE)
        except BaseException as error:  # noqa: BLE001 - it ends the process
            end_process(error)

    async def _serve(self) -> None:
        if self.metrics_port == 0:
            return
        port = DEFAULT_PORT if self.metrics_port is None else self.metrics_port
        try:
            await self.server.start(port)
        except OSError as error:
            if self.metrics_port is not None:
                log.critical("--metrics-port %s: %s", port, error)
                _leave(EXIT_UNUSABLE)
            log.warning("no metrics and no health: port %s: %s", port, error)

    @mode.Service.task
    async def _run(self) -> None:
        try:
            await self._worker.run()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - it ends the process
            end_process(error)

    @mode.Service.task
    async def _watch(self) -> None:
        """End the process when nothing moves for too long, or Faust gave up."""
        while not self.should_stop:
            await self.sleep(TICK_SECONDS)
            silent = self._observer.tick()
            if silent > SILENT_SECONDS:
                end_process(BrokerSlowError(f"no progress was measured for {silent:.0f} s"))
            if self.app is not None and self.app.crashed:
                end_process(self.app.crash_reason or RuntimeError("Faust crashed"))

    async def on_stop(self) -> None:
        """Finish what is in flight, within bounds."""
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await self._worker.stop()
                await self.server.stop()
        except Exception as error:  # noqa: BLE001 - it ends the process
            end_process(error)


class _Boot(BootStrategy):
    """The pipeline first, so that it stops last; no web server of Faust's, whatever is asked."""

    enable_web = False

    def server(self) -> Iterable[mode.Service]:
        app = self.app
        assert isinstance(app, TrustfoldApp)
        return [app.pipeline, *super().server()]


class TrustfoldApp(ReadingApp):
    """A Faust application with a pipeline; made by `build_app`."""

    BootStrategy = _Boot
    pipeline: Pipeline


def build_app(
    settings: KafkaSettings,
    options: Options | None = None,
    *,
    clock: Clock | None = None,
    hook: Hook = no_hook,
) -> TrustfoldApp:
    """Build the application of a worker; nothing is connected before it starts.

    `clock` and `hook` are for tests: see `kafka.worker.Worker`.
    """
    options = Options() if options is None else options
    clock = SystemClock() if clock is None else clock
    observer = Observer(clock, hook)
    worker = Worker(settings, history=options.history, clock=clock, hook=observer.hook)
    thinners = {
        settings.topic("facts"): keys_that_begin_with(KEY),
        settings.topic("scores"): where_each_key_changes(band_of),
    }
    app = TrustfoldApp(settings.topic(AGENTS), thinners, **faust_settings(settings))
    tallies: dict[str, Tally] = {}
    if options.agents:
        observer.agents = lambda: standing_still(app.handover, settings)
        tallies["synapse"] = add_synapse(app, settings, end_process, history=options.history).tally
        tallies["watch"] = add_watch(app, settings, end_process).tally
    else:
        app.boot_strategy.enable_kafka = False

    def told() -> Mapping[str, Mapping[str, int]]:
        return {name: msgspec.structs.asdict(tally) for name, tally in tallies.items()}

    app.pipeline = Pipeline(worker, observer, MetricsServer(observer, told))
    app.pipeline.metrics_port = options.metrics_port
    app.pipeline.app = app
    return app


def standing_still(handover: Handover, settings: KafkaSettings) -> list[Still]:
    """Agents that do not get on with what was handed to them, and a Faust that asks for nothing."""
    agents = {settings.topic("facts"): "synapse", settings.topic("scores"): "watch"}
    found = [
        Still(f"agent {agents[topic]}", partition, round(seconds, 1), "holds records in hand")
        for (topic, partition), seconds in sorted(handover.stuck_seconds().items())
        if seconds >= STILL_SECONDS
    ]
    silent = handover.asked_seconds()
    if silent >= STILL_SECONDS:
        found.append(Still("agents", 0, round(silent, 1), "Faust asks for no records"))
    return found


def faust_settings(settings: KafkaSettings) -> dict[str, Any]:
    """What Faust is told: the settings under which its agents were found to be safe."""
    session = max(SESSION_SECONDS_MIN, settings.session_timeout_ms / 1_000)
    return {
        "broker": [f"kafka://{one}" for one in settings.bootstrap.split(",")],
        "broker_credentials": credentials(settings),
        "broker_session_timeout": session,
        "broker_heartbeat_interval": session / 5,
        "broker_request_timeout": max(90.0, session),
        "consumer_group_instance_id": settings.instance(AGENTS),
        "consumer_max_fetch_size": FETCH_BYTES_MAX,
        "producer_max_request_size": REQUEST_BYTES_MAX,
        "producer_linger": 0.02,
        "topic_partitions": settings.partitions,
        "topic_allow_declare": False,
        "topic_disable_leader": True,
        "table_standby_replicas": 0,
        "store": "memory://",
        # Faust makes this folder, and with tables in memory keeps nothing in it.
        "datadir": Path(tempfile.gettempdir()) / f"{settings.topic(AGENTS)}-data",
        "agent_supervisor": mode.CrashingSupervisor,
        "worker_redirect_stdouts": False,
        "web_enabled": False,
        "autodiscover": False,
    }


def credentials(settings: KafkaSettings) -> Any:
    """The settings' security in Faust's words; None for a plain connection."""
    security = settings.security
    context = security.client_options().get("ssl_context")
    if not security.security_protocol.startswith("SASL"):
        return context
    if security.sasl_mechanism == "GSSAPI":
        return GSSAPICredentials(
            kerberos_service_name=security.sasl_kerberos_service_name or "kafka",
            kerberos_domain_name=security.sasl_kerberos_domain_name,
            ssl_context=context,
        )
    return SASLCredentials(
        username=security.sasl_plain_username,
        password=security.sasl_plain_password,
        mechanism=security.sasl_mechanism,
        ssl_context=context,
    )


def run_app(app: TrustfoldApp) -> int:
    """Run a worker in this process until a signal stops it; the exit code."""
    collect_rarely()
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    process = faust.Worker(app, loop=loop, quiet=True, override_logging=False)
    process.spinner = None
    try:
        process.execute_from_commandline()
    except SystemExit as leaving:
        # Faust's own word for a failure is 1, which here means something else.
        return EXIT_RESTART if leaving.code else 0
    except Exception as error:  # noqa: BLE001 - whatever it was, a new process is the answer
        log.critical("%s: %s", type(error).__name__, error)
        return EXIT_RESTART


def _leave(code: int) -> None:
    for handler in logging.getLogger().handlers:
        handler.flush()
    os._exit(code)


_built: list[TrustfoldApp] = []


def __getattr__(name: str) -> TrustfoldApp:
    """`app`, for `faust -A trustfold_streams.app`: built when it is first asked for."""
    if name != "app":
        raise AttributeError(name)
    if not _built:
        collect_rarely()
        port = os.environ.get(METRICS_VARIABLE)
        _built.append(build_app(load(), Options(metrics_port=None if port is None else int(port))))
    return _built[0]
