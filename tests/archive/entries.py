"""Entries of every kind for segments: signed, late, over several eras and blocks of eras."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from trustfold_projections.archive.rows import EntryRow
from trustfold_projections.archive.schema import KINDS
from trustfold_projections.laws.time_weights import HALF_LIFE
from trustfold_schemas.instants import EARLIEST
from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject

SUBJECTS = (
    Subject("", "fs_write", "fs_write:~/заметки/*"),
    Subject("team", "shell", 'invoke "quoted"'),
    Subject("", "runtime", "done"),
)
TEXTS = st.text(max_size=4)
MOMENTS = st.integers(EARLIEST, EARLIEST + 140 * HALF_LIFE)
PPM = st.integers(-1_000_000, 1_000_000)
SIGNS = st.integers(-1, 1)


@st.composite
def entry_rows(draw: st.DrawFn, most: int = 12) -> list[EntryRow]:
    """Rows of one partition of the ledger, in the order of their offsets."""
    rows: list[EntryRow] = []
    offset = draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, most))):
        recorded = draw(MOMENTS)
        made: dict[str, Any] = {
            "kind": draw(st.sampled_from(sorted(KINDS))),
            "subject": draw(st.sampled_from(SUBJECTS)),
            "trace_id": draw(st.none() | TEXTS),
            "event_id": draw(TEXTS),
            "source": draw(TEXTS),
            "occurred": draw(MOMENTS),
            "recorded": recorded,
            "chain": (*draw(st.lists(MOMENTS, max_size=3)), recorded),
            "revision": draw(st.integers(1, 20_000)),
            "amounts": tuple(draw(PPM) for _ in range(5)),
            "weights": tuple(draw(SIGNS) for _ in range(5)),
            "n_samples": draw(SIGNS),
            "self_play": draw(st.none() | st.tuples(PPM, SIGNS)),
            "bad_at": draw(st.none() | MOMENTS),
            "grant_at": draw(st.none() | MOMENTS),
            "clean": draw(st.booleans()),
            "median_usd": draw(st.none() | st.integers(0, 2**62)),
        }
        if made["kind"] == "rollback":
            made["to"] = draw(MOMENTS)
        if made["kind"] == "rollback_lifted":
            made["lifts"] = draw(TEXTS)
        rows.append(EntryRow(offset, Entry(**made), 3, draw(st.integers(0, 9)), 0, len(rows) % 2))
        offset += draw(st.integers(1, 3))
    return rows
