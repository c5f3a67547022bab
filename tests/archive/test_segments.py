"""Segments hold what they were given, rollups its exact sums, and digests only the rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.archive.entries import SUBJECTS, entry_rows
from trustfold_projections.archive.digests import in_log_order, rows_digest, sha256_of
from trustfold_projections.archive.files import Disk
from trustfold_projections.archive.rollup import rollup_of
from trustfold_projections.archive.rows import EntryRow, entry_of, table_of
from trustfold_projections.archive.schema import (
    BLOCK,
    KINDS,
    LEDGER,
    ROLLUP,
    SCHEMAS,
    Place,
)
from trustfold_projections.archive.segment import write_segment
from trustfold_projections.laws.time_weights import HALF_LIFE, ZERO, g
from trustfold_schemas.ledger import Entry
from trustfold_streams.embedded import rows as embedded_rows

LEDGER_0 = Place("ledger", 0)
few = settings(max_examples=max(5, settings().max_examples // 10))
"""For what opens a database or writes a file."""


def test_kinds_have_the_numbers_of_the_embedded_store() -> None:
    """One number a kind, whichever store a ledger came from."""
    assert KINDS == embedded_rows.KINDS


def test_no_column_is_a_float_or_wider_than_64_bits() -> None:
    """What would be turned into a double without a word is never written."""
    for schema in (*SCHEMAS.values(), ROLLUP):
        for field in schema:
            kind = str(field.type)
            assert kind in {"string", "binary", "bool"} or kind.removeprefix(
                "list<element: "
            ).startswith("int"), field.name
            assert (field.metadata or {})[b"about"], field.name


@few
@given(entry_rows())
def test_entries_come_back_as_they_went_in(rows: list[EntryRow]) -> None:
    """A segment loses nothing of an entry, through the file and back, in whatever order it lies."""
    with tempfile.TemporaryDirectory() as folder:
        made = write_segment(Disk(), Path(folder), LEDGER_0, 0, 999, table_of(LEDGER_0, rows))
        table = pq.read_table(Path(folder) / made.file)
        assert sha256_of(Path(folder) / made.file) == made.sha256
    assert [entry_of(row) for row in in_log_order("ledger", table).to_pylist()] == rows
    assert rows_digest("ledger", in_log_order("ledger", table)) == made.rows_sha256
    recorded = [row.entry.recorded for row in rows]
    assert (made.min_recorded, made.max_recorded) == (min(recorded), max(recorded))


@few
@given(entry_rows())
def test_a_rollup_holds_the_exact_sums(rows: list[EntryRow]) -> None:
    """Python's integers and the rollup's agree for every subject, component and mark."""
    rollup = rollup_of(table_of(LEDGER_0, rows)).to_pylist()
    for subject in SUBJECTS:
        entries = [row.entry for row in rows if row.entry.subject == subject]
        blocks = [row for row in rollup if row["subject"] == subject.key.decode()]

        def total(name: str, blocks: list[dict[str, int]] = blocks) -> int:
            return sum(row[name] << BLOCK * row["blk"] for row in blocks)

        for i in range(5):
            assert total(f"x{i}") == sum(e.amounts[i] * g(e.occurred) for e in entries)
            assert total(f"d{i}") == sum(e.weights[i] * g(e.occurred) for e in entries)
        played = [(e.self_play, g(e.occurred)) for e in entries if e.self_play is not None]
        assert total("sp_x") == sum(play[0] * weight for play, weight in played)
        assert total("sp_d") == sum(play[1] * weight for play, weight in played)
        assert sum(row["v"] for row in blocks) == len(entries)
        assert sum(row["n"] for row in blocks) == sum(e.n_samples for e in entries)
        for mark, moments in (
            ("lu", [e.occurred for e in entries if e.clean]),
            ("lb", [e.bad_at for e in entries if e.bad_at is not None]),
            ("lg", [e.grant_at for e in entries if e.grant_at is not None]),
        ):
            held = [row[mark] for row in blocks if row[mark] is not None]
            assert max(held, default=None) == max(moments, default=None)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_a_hot_subject_adds_up_to_is_parted(sign: int) -> None:
    """Sums that pass 62 bits stand in two rows of one sign, four blocks apart; nothing is lost."""
    last = ZERO + 8 * HALF_LIFE - 1  # the last moment of a block has its greatest weight
    entry = Entry(
        kind="evidence",
        subject=SUBJECTS[0],
        trace_id="t",
        event_id="e",
        source="s",
        occurred=last,
        recorded=last,
        chain=(last,),
        amounts=(sign * 1_000_000, 0, 0, sign * 7, 0),
        weights=(sign, 0, 0, sign, 0),
        n_samples=sign,
    )
    rows = [EntryRow(at, entry, 0, at, 0, 0) for at in range(100)]
    low, high = rollup_of(table_of(LEDGER_0, rows)).to_pylist()
    assert high["blk"] - low["blk"] == 4
    assert (low["v"], high["v"]) == (100, 0)
    assert sign * high["x0"] > 0 <= sign * low["x0"] < 2**32
    for name, total in (("x0", 100 * 1_000_000), ("x3", 700), ("d0", 100), ("x1", 0)):
        parts = low[name] << BLOCK * low["blk"], high[name] << BLOCK * high["blk"]
        assert sum(parts) == sign * total * g(last), name


@settings(max_examples=40)
@given(entry_rows(), st.data())
def test_a_rows_digest_sees_every_cell(rows: list[EntryRow], data: st.DataObject) -> None:
    """Whichever cell of a segment is changed, the rows digest is another."""
    table = table_of(LEDGER_0, rows)
    before = rows_digest("ledger", table)
    name = data.draw(st.sampled_from([name for name in LEDGER.names if name != "seg_max"]))
    changed = table.to_pylist()
    row = data.draw(st.integers(0, len(rows) - 1))
    old = changed[row][name]
    changed[row][name] = (
        not old
        if isinstance(old, bool)
        else [*old, 7]
        if isinstance(old, list)
        else f"{old}'"
        if isinstance(old, str)
        else (1 if old is None else old ^ 1)
        if str(LEDGER.field(name).type).startswith("int")
        else "was NULL"
    )
    columns = {key: [one[key] for one in changed] for key in LEDGER.names}
    assert rows_digest("ledger", type(table).from_pydict(columns, schema=LEDGER)) != before
