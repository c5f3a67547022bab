"""A plain Faust agent with a Table that does the pipeline's fold, event by event.

    python -m tests.benchmarks.faust_agent worker -l warn        (settings in the environment)

It is what one would write first; it prints `done SECONDS` when it has seen all events. What it
counts twice or loses at a rebalance is not measured here (see docs/kafka.md).
"""

from __future__ import annotations

import logging
import os
import time
from typing import Any

import faust

from tests.benchmarks.loads import trace_of
from trustfold_projections.laws.correlation import TraceState, correlate_trace
from trustfold_projections.laws.fold import fold
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.scores import State
from trustfold_streams.kafka.score_records import Position, pack_score, unpack_score

logging.disable(logging.DEBUG)
PREFIX = os.environ["BENCH_PREFIX"]
EVENTS = int(os.environ["BENCH_EVENTS"])

app = faust.App(
    f"{PREFIX}plain",
    broker=f"kafka://{os.environ['BENCH_BROKER']}",
    datadir=os.environ["BENCH_DATA"],
    web_enabled=False,
    topic_allow_declare=True,
    topic_disable_leader=True,
    worker_redirect_stdouts=False,
    table_standby_replicas=0,
    topic_partitions=int(os.environ["BENCH_PARTITIONS"]),
    producer_linger=0.02,
)
closes = app.topic(
    f"{PREFIX}trace-closed", key_type=bytes, value_type=bytes, value_serializer="raw"
)
table = app.Table(
    "scores",
    key_type=bytes,
    value_type=bytes,
    partitions=int(os.environ["BENCH_PARTITIONS"]),
)
medians = MedianTable()
seen = 0
started = 0.0


@app.agent(closes)
async def on_close(stream: Any) -> None:
    """Fold each event into the table."""
    global seen, started  # noqa: PLW0603 - one process, one agent
    async for document in stream:
        if not seen:
            started = time.monotonic()
        event = decode_event(document)
        moment = event.time + 1
        state = TraceState(trace_id=trace_of(event))
        fact = Fact(seen, moment, OWNER, event, document)
        for entry in correlate_trace(state, fact, medians).entries:
            key = entry.subject.key
            packed = table.get(key)
            score = State(subject=entry.subject) if packed is None else unpack_score(packed)[0]
            fold(score, entry)
            table[key] = pack_score(score, Position(seen, 0))
        seen += 1
        if seen == EVENTS:
            # Not print: Faust's worker turns that into log records.
            os.write(1, b"done %.3f\n" % (time.monotonic() - started))


if __name__ == "__main__":
    app.main()
