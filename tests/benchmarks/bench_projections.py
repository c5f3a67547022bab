"""Scores from an archive, beside the seed's snippet and beside DuckDB alone (`make bench`).

TRUSTFOLD_BENCH_ENTRIES names the sizes (default 1000000,10000000), TRUSTFOLD_BENCH_SUBJECTS the
numbers of subjects (default 1000,100000).
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import duckdb

from tests.benchmarks import ledgers
from tests.benchmarks.ledgers import Reading, in_a_process
from tests.benchmarks.loads import versions

ENTRIES = [int(n) for n in os.environ.get("TRUSTFOLD_BENCH_ENTRIES", "1000000,10000000").split(",")]
SUBJECTS = [int(n) for n in os.environ.get("TRUSTFOLD_BENCH_SUBJECTS", "1000,100000").split(",")]


def test_bench_projections(tmp_path: Path) -> None:
    """Prints each reading beside (a) and (b) of the same run; asserts sums and no time.

    Readings of DuckDB are the best of three on an opened archive; (a) needs no second run.
    """
    print(f"\narchive; {versions()}, DuckDB {duckdb.__version__}, pyarrow {version('pyarrow')}")
    for entries in ENTRIES:
        for subjects in SUBJECTS:
            _compare(tmp_path / f"{entries}-{subjects}", entries, subjects)


def _compare(folder: Path, entries: int, subjects: int) -> None:
    folder.mkdir()
    ledgers.make(folder, entries, subjects)
    size = sum(file.stat().st_size for file in (folder / "segments").iterdir())
    print(f"{entries:,} entries of {subjects:,} subjects, {size / 2**20:,.0f} MB with rollups")
    where = str(folder)
    seed = in_a_process(ledgers.seed_fold, where)
    bare = in_a_process(ledgers.bare_scan, where)
    opened = in_a_process(ledgers.opening, where)
    scratch = in_a_process(ledgers.as_of, where, 1.0, True, None)
    rolled = in_a_process(ledgers.as_of, where, 1.0, False, None)
    between = in_a_process(ledgers.as_of, where, 0.73, False, None)
    one = in_a_process(ledgers.as_of, where, 1.0, True, subjects // 2)
    assert scratch.check == rolled.check
    _print("(a) the seed's snippet, an event at a time", seed, seed, bare)
    _print("(b) DuckDB alone, scan and group", bare, seed, bare)
    _print("open it, every file against its digest", opened, seed, bare)
    _print("replay from scratch", scratch, seed, bare)
    _print("as of the end, rollups only", rolled, seed, bare)
    _print("as of 73 % of the time, one segment astride", between, seed, bare)
    _print("one subject, from its entries", one, seed, bare)


def _print(name: str, reading: Reading, seed: Reading, bare: Reading) -> None:
    print(
        f"  {name:<45}{reading.seconds:>8.3f} s{seed.seconds / reading.seconds:>9.1f} times (a)"
        f"{reading.seconds / bare.seconds:>8.2f} (b){reading.peak:>8,.0f} MB"
        f"{reading.subjects:>10,} subjects"
    )
