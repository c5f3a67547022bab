"""A small log with everything a view speaks of, in a store and in an archive of it."""

from __future__ import annotations

from pathlib import Path

from tests.embedded.documents import (
    DAY,
    NOTES,
    SHELL,
    TIME,
    closed,
    decided,
    excluded,
    lifted,
    median,
    numbered,
    played,
    recorded_step,
    rolled_back,
    step,
    synthesized,
    undone,
)
from tests.oracles.histories import RECORDED_FROM
from trustfold_projections.archive.writer import Limits
from trustfold_schemas.subject import Subject
from trustfold_streams.archiver.from_embedded import embedded_log
from trustfold_streams.archiver.run import open_archiver
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore

OLD = TIME - 500 * DAY
"""So long ago that its block of eras is another one."""
WEB = Subject("", "web", "net:get")
PASSES = 4


def bodies() -> list[bytes]:
    """The events, in the order in which they are published."""
    promoted = {**step("a", SHELL, "error"), "via": "trust_promoted", "decision_id": "d1"}
    asked = {**step("b", NOTES), "via": "human"}
    return [
        median(),
        *(closed(f"old{n}", step("a", NOTES), time=OLD - n * DAY) for n in range(8)),
        *(closed(f"t{n}", step("a", NOTES), step("b", SHELL), cost_usd=0.01) for n in range(6)),
        *(decided(f"t{n}", step_ids=["a"]) for n in range(4)),
        decided("t4", "denied", step_ids=["b"]),
        closed("promoted", promoted, asked, violations=[{"law": 1, "step_id": "a"}]),
        undone("promoted", step_ids=["a"]),
        excluded("t5"),
        recorded_step("open", step("a", WEB)),
        decided("open"),
        undone("unheard-of"),
        synthesized("alpha"),
        played("alpha", "beta"),
        rolled_back(NOTES, RECORDED_FROM + 10, "r1"),
        closed("after", step("a", NOTES), step("b", WEB)),
        rolled_back(SHELL, RECORDED_FROM + 9, "r2"),
        lifted(SHELL, "r2", "l2"),
        b"no event",
    ]


def make(store_path: Path, folder: Path) -> None:
    """Ingest the events and archive them in several passes, so that there are many segments."""
    some = numbered(bodies())
    size = -(-len(some) // PASSES)
    clock = ManualClock(RECORDED_FROM)
    with EmbeddedStore.open(store_path, clock=clock) as store:
        for start in range(0, len(some), size):
            store.ingest(some[start : start + size])
            clock.advance(DAY)
            with open_archiver(folder, limits=Limits(rows=16, merge=3)) as archiver:
                archiver.run(lambda _: embedded_log(store_path))
