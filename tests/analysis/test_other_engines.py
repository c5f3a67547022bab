"""Polars and ClickHouse read the same integers from the same files as DuckDB and Python do."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import chdb
import polars as pl
import pytest

from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.reading import read_rows, read_segment
from trustfold_projections.archive.rows import EntryRow
from trustfold_projections.archive.schema import BLOCK
from trustfold_projections.laws.time_weights import g

Sums = dict[str, tuple[int, ...]]
"""By subject: five sums of amount * g, and five of weight * g."""

COLUMNS = [f"{letter}{i}" for letter in "aw" for i in range(5)]
LOW_BITS = 20


@pytest.fixture(scope="module")
def archive(scene_archive: Path) -> Archive:
    """The archive of the scene, of several segments."""
    found = Archive.open(scene_archive)
    assert len(found.files("ledger")) > 1
    return found


@pytest.fixture(scope="module")
def expected(archive: Archive) -> Sums:
    """The sums of all entries in Python's integers."""
    made: dict[str, list[int]] = defaultdict(lambda: [0] * 10)
    for line in archive.manifest.segments("ledger"):
        for row in read_rows("ledger", read_segment(archive.folder, line)):
            assert isinstance(row, EntryRow)
            entry = row.entry
            held = made[entry.subject.key.decode()]
            for i, number in enumerate((*entry.amounts, *entry.weights)):
                held[i] += number * g(entry.occurred)
    return {key: tuple(sums) for key, sums in made.items()}


def over_eras(rows: Iterator[tuple[str, int, tuple[int, ...]]]) -> Sums:
    """(subject, era, sums of number * m) added up at their powers of two."""
    made: dict[str, list[int]] = defaultdict(lambda: [0] * 10)
    for key, era, sums in rows:
        for i, number in enumerate(sums):
            made[key][i] += number << era
    return {key: tuple(sums) for key, sums in made.items()}


def test_polars_sums_entries(archive: Archive, expected: Sums) -> None:
    """In two limbs: its 64-bit sums would wrap without a word."""
    products = [pl.col(name).cast(pl.Int64) * pl.col("m").cast(pl.Int64) for name in COLUMNS]
    limbs = [
        part.sum().alias(f"{name}_{limb}")
        for name, product in zip(COLUMNS, products, strict=True)
        for limb, part in (
            ("hi", product.floordiv(1 << LOW_BITS)),
            ("lo", product.mod(1 << LOW_BITS)),
        )
    ]
    found = pl.read_parquet(archive.files("ledger")).group_by("subject", "era").agg(limbs)
    rows = (
        (
            row["subject"],
            row["era"],
            tuple((row[f"{name}_hi"] << LOW_BITS) + row[f"{name}_lo"] for name in COLUMNS),
        )
        for row in found.iter_rows(named=True)
    )
    assert over_eras(rows) == expected


def test_polars_sums_rollups(archive: Archive, expected: Sums) -> None:
    """In two limbs, as entries; rows of one subject and block are added up like any others."""
    names = [f"{letter}{i}" for letter in "xd" for i in range(5)]
    files = [archive.rollup(line) for line in archive.manifest.segments("ledger")]
    found = (
        pl.read_parquet(files)
        .group_by("subject", "blk")
        .agg(
            part.sum().alias(f"{name}_{limb}")
            for name in names
            for limb, part in (
                ("hi", pl.col(name).floordiv(1 << LOW_BITS)),
                ("lo", pl.col(name).mod(1 << LOW_BITS)),
            )
        )
    )
    rows = (
        (
            row["subject"],
            row["blk"] * BLOCK,
            tuple((row[f"{name}_hi"] << LOW_BITS) + row[f"{name}_lo"] for name in names),
        )
        for row in found.iter_rows(named=True)
    )
    assert over_eras(rows) == expected


def test_clickhouse_sums_entries(archive: Archive, expected: Sums) -> None:
    """In 256 bits: its 64-bit sums would wrap without a word, too."""
    sums = ", ".join(f"toString(sum(toInt256({name}) * m)) AS {name}" for name in COLUMNS)
    pattern = f"{archive.folder}/segments/{{{','.join(_names(archive))}}}"
    said = chdb.query(  # type: ignore[no-untyped-call]
        f"SELECT subject, era, {sums} FROM file('{pattern}', Parquet) GROUP BY subject, era",
        "JSONEachRow",
    )
    rows = [json.loads(line) for line in str(said).splitlines()]
    found = (
        (row["subject"], int(row["era"]), tuple(int(row[name]) for name in COLUMNS)) for row in rows
    )
    assert over_eras(found) == expected


def _names(archive: Archive) -> list[str]:
    return [Path(file).name for file in archive.files("ledger")]
