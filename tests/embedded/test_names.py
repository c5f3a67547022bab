"""Names of facts as their events have them, whatever characters they hold."""

from __future__ import annotations

from pathlib import Path

from tests.embedded.documents import NOTES, closed, decided, event, numbered, rolled_back
from tests.embedded.feeding import query
from tests.oracles.histories import RECORDED_FROM, rfc3339
from trustfold_streams.embedded import EmbeddedStore

ODD = 'a\0b \u00e9"\\'
FOREIGN = event(
    "subject.rolled_back",
    "r2",
    {
        "subject": NOTES,
        "to": rfc3339(RECORDED_FROM),
        "by": "oscar",
        "why": "a broken sensor",
        "trace_id": "of nothing",
    },
)


def test_entries_are_named_by_their_events(store: EmbeddedStore) -> None:
    """A NUL, an escape and a quote are part of a name."""
    store.ingest(numbered([closed(ODD), decided(ODD, step_ids=["a"])]))
    names = {(entry.event_id, entry.trace_id) for entry in store.entries(NOTES)}
    assert names == {(f"close/{ODD}", ODD), (f"granted/{ODD}", ODD)}


def test_an_event_is_found_by_a_name_that_was_written_with_escapes(store: EmbeddedStore) -> None:
    """`explain --without` finds it, and the score is as if it had never been."""
    store.ingest(numbered([closed(ODD), closed("t2"), decided(ODD, step_ids=["a"])]))
    without = store.entries_without(NOTES, f"granted/{ODD}")
    assert [entry.kind for entry in without] == ["evidence", "evidence"]


def test_an_unknown_field_is_no_trace(store: EmbeddedStore, path: Path) -> None:
    """A `trace_id` in a rollback says nothing, in the entry and in the view of the ledger."""
    store.ingest(numbered([closed("t1"), FOREIGN, rolled_back(NOTES, RECORDED_FROM)]))
    assert [entry.trace_id for entry in store.entries(NOTES)] == ["t1", None, None]
    assert query(path, "SELECT DISTINCT trace_id FROM events ORDER BY position") == [
        ("t1",),
        (None,),
    ]
    entries = [entry.entry_id for entry in store.entries(NOTES)]
    assert query(
        path, f"SELECT entry_id FROM events WHERE effect = '{NOTES.effect}' ORDER BY position"
    ) == [(one,) for one in entries]
