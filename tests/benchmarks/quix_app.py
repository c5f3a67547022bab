"""The same job in Quix Streams with its exactly-once setting, in an environment of its own.

    python quix_app.py            (settings in the environment; needs quixstreams and msgspec)

Closes are expanded into entries, regrouped by subject, and folded in a state store. It prints
`done SECONDS` when all entries are folded.
"""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec
from quixstreams import Application, State  # type: ignore[import-not-found]

from tests.benchmarks.loads import trace_of
from trustfold_projections.laws.correlation import TraceState, correlate_trace
from trustfold_projections.laws.fold import fold
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas import scores
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.facts import OWNER, Fact
from trustfold_schemas.packed import pack_entry, unpack_envelope
from trustfold_streams.kafka.score_records import Position, pack_score, unpack_score

PREFIX = os.environ["BENCH_PREFIX"]
ENTRIES = int(os.environ["BENCH_ENTRIES"])
medians = MedianTable()
counts = {"seen": 0, "started": 0.0}

app = Application(
    broker_address=os.environ["BENCH_BROKER"],
    consumer_group=f"{PREFIX}quix",
    state_dir=os.environ["BENCH_DATA"],
    processing_guarantee="exactly-once",
    auto_offset_reset="earliest",
    loglevel="ERROR",
)
closes = app.topic(f"{PREFIX}trace-closed", value_deserializer="bytes", key_deserializer="bytes")


def entries(document: bytes) -> list[dict[str, Any]]:
    """The entries of one close, each with its subject's key."""
    if not counts["started"]:
        counts["started"] = time.monotonic()
    event = decode_event(document)
    fact = Fact(0, event.time + 1, OWNER, event, document)
    state = TraceState(trace_id=trace_of(event))
    made = correlate_trace(state, fact, medians).entries
    return [
        {
            "subject": entry.subject.key.decode(),
            "entry": msgspec.json.decode(msgspec.json.encode(pack_entry(0, 0, 0, entry))),
        }
        for entry in made
    ]


def fold_entry(row: dict[str, Any], state: State) -> None:
    """Fold one entry into the state of its subject."""
    packed = msgspec.json.decode(msgspec.json.encode(row["entry"]), type=bytes)
    (located,) = unpack_envelope(b"\x91" + packed)
    entry = located.entry
    held = state.get("score")
    score = scores.State(subject=entry.subject) if held is None else unpack_score(held.encode())[0]
    fold(score, entry)
    state.set("score", pack_score(score, Position(0, 0)).decode())
    counts["seen"] += 1
    if counts["seen"] == ENTRIES:
        print(f"done {time.monotonic() - counts['started']:.3f}", flush=True)


frame = app.dataframe(closes)
frame = frame.apply(entries, expand=True)
frame = frame.group_by("subject")
frame = frame.update(fold_entry, stateful=True)

if __name__ == "__main__":
    app.run()
