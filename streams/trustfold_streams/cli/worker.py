"""`trustfold worker`: the stages of the pipeline, in this process, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os

import click

from trustfold_streams.cli.options import Settings, store_option
from trustfold_streams.kafka import settings as kafka
from trustfold_streams.kafka.errors import StreamsExtraError, UnsafeTopicsError
from trustfold_streams.kafka.topics import check

log = logging.getLogger("trustfold.worker")


@click.command()
@store_option
@click.option(
    "--history",
    is_flag=True,
    help="Let events in that are older than the memory of traces: for an import.",
)
@click.option(
    "--slot",
    "--instance",
    "slot",
    metavar="NAME",
    help="The name of this worker's slot: a restart under it moves no partitions. Each running "
    "worker needs its own (default: TRUSTFOLD_WORKER_INSTANCE, else none).",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    envvar="TRUSTFOLD_METRICS_PORT",
    metavar="N",
    help="Serve http://127.0.0.1:N/metrics and /health (default: 9464 if it is free; 0: none).",
)
@click.option("--no-agents", is_flag=True, help="Only the ledger: no synapse weights, no watch.")
@click.option(
    "--rebuild-synapse",
    is_flag=True,
    help="First make the synapse weights anew from the facts; no other worker may be running.",
)
@click.option("--json-logs", is_flag=True, help="Log one JSON object a line.")
@click.pass_obj
def worker(
    settings: Settings,
    history: bool,
    slot: str | None,
    metrics_port: int | None,
    no_agents: bool,
    rebuild_synapse: bool,
    json_logs: bool,
) -> int:
    """Work on the pipeline at `--store kafka://HOST:PORT` until SIGTERM or SIGINT.

    Takes its share of the partitions of every stage; start as many as there are partitions, at
    most. Whatever is unexpected ends the process at once: that is safe at any moment, and a
    supervisor should start it again.

    Exit codes: 0 told to stop, 3 the broker cannot be reached or a topic is missing or unsafe,
    70 must be restarted.
    """
    environment = dict(os.environ)
    if slot is not None:
        environment["TRUSTFOLD_WORKER_INSTANCE"] = slot
    broker = kafka.load(settings.store, settings.config, environment)
    try:
        from trustfold_streams.app import Options, build_app, run_app
        from trustfold_streams.kafka.logs import set_up_logs
    except ImportError as error:
        raise StreamsExtraError(
            f"a worker needs the extra: install `trustfold[streams]` ({error})"
        ) from None
    unsafe = [one for one in asyncio.run(check(broker)) if one.breaks_a_promise]
    if unsafe:
        raise UnsafeTopicsError(
            "a worker does not start on these topics:\n"
            + "\n".join(f"  {one}" for one in unsafe)
            + "\n`trustfold topics check` says the same, `topics create` makes what is missing"
        )
    set_up_logs(as_json=json_logs)
    if rebuild_synapse:
        from trustfold_streams.agents import rebuild
        from trustfold_streams.app import AGENTS

        count = asyncio.run(rebuild.rebuild_synapse(broker, broker.topic(AGENTS), history=history))
        log.info("the synapse weights of %s contexts were made anew", count)
    options = Options(history=history, agents=not no_agents, metrics_port=metrics_port)
    return run_app(build_app(broker, options))
