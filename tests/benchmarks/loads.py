"""Generated loads: closed traces of a few steps over a fixed number of subjects."""

from __future__ import annotations

import json
import platform
import random
import sqlite3
from collections.abc import Iterator

import msgspec

from trustfold_schemas.events import Event, TraceClosedEvent
from trustfold_schemas.instants import SECOND, format_instant

START = 1_767_225_600 * SECOND
"""2026-01-01."""


def closes(number: int, *, subjects: int = 200, steps: int = 5, seed: int = 1) -> Iterator[bytes]:
    """So many closed traces, one a second, with nine steps in ten ok."""
    chance = random.Random(seed)
    known = [(f"tool{i % 20}", f"fs_write:~/project{i}/*") for i in range(subjects)]
    for i in range(number):
        listed = [
            {
                "step_id": str(k),
                "tool": tool,
                "effect": effect,
                "status": "ok" if chance.random() < 0.9 else "error",
                "reversibility": "reversible",
            }
            for k, (tool, effect) in enumerate(chance.choices(known, k=steps))
        ]
        yield json.dumps(
            {
                "specversion": "1.0",
                "id": f"close-{i}",
                "source": "/bench",
                "type": "trustfold.trace.closed.v1",
                "time": format_instant(START + i * SECOND),
                "data": {
                    "trace_id": f"trace-{chance.getrandbits(64):016x}",
                    "agent": "bench",
                    "outcome": "completed",
                    "cost_usd": 0.01,
                    "steps": listed,
                    "violations": [],
                },
            },
            separators=(",", ":"),
        ).encode()


def trace_of(event: Event) -> str:
    """The trace that an event of this load closes."""
    assert isinstance(event, TraceClosedEvent)
    return event.data.trace_id


def versions() -> str:
    """What a benchmark ran on."""
    return (
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"msgspec {msgspec.__version__}, {platform.machine()}, {cores()} cores"
    )


def cores() -> int:
    """The processors of this machine."""
    import os

    return os.cpu_count() or 1
