"""Ledgers of many entries made at once, archived, and the readings that are compared over them.

Each reading runs in a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.oracles.seed_snippet import SeedStore
from trustfold_projections.analysis.as_of import sums_as_of
from trustfold_projections.analysis.exact import scores_of
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.files import Disk
from trustfold_projections.archive.manifest import NAME, Manifest, segment_line, settled_line
from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.schema import LEDGER, Place
from trustfold_projections.archive.segment import write_segment
from trustfold_projections.laws.time_weights import HALF_LIFE, MANTISSAS, ZERO
from trustfold_schemas.instants import SECOND
from trustfold_schemas.subject import Subject

START = 1_735_689_600 * SECOND
"""2025-01-01."""
SPAN = 420 * 86_400 * SECOND
"""The entries lie in 420 days, one after the other."""
SEGMENT = 1_000_000
CHUNK = 100_000
PPM = 1_000_000
LEDGER_0 = Place("ledger", 0)


class Reading(NamedTuple):
    """What a reading took: seconds, the peak of memory in MB, and a sum to compare."""

    seconds: float
    peak: float
    subjects: int
    check: Any


def in_a_process(work: Callable[..., tuple[float, int, Any]], *arguments: object) -> Reading:
    """Run a reading alone in a fresh process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_measured, work, arguments).result()


def _measured(work: Callable[..., tuple[float, int, Any]], arguments: tuple[Any, ...]) -> Reading:
    seconds, subjects, check = work(*arguments)
    # Not what getrusage says, which a child has from its parent.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return Reading(seconds, peak, subjects, check)


def subject(number: int) -> Subject:
    """One of the subjects."""
    return Subject("", f"tool{number % 50}", f"fs_write:~/project{number}/*")


def make(folder: Path, entries: int, subjects: int) -> None:
    """An archive of so many entries of closed traces; one in fifty is a correction."""
    chance = np.random.default_rng(entries + subjects)
    names = np.array([subject(number).key.decode() for number in range(subjects)], dtype=object)
    manifest, disk = Manifest(), Disk()
    lines: list[bytes] = []
    for start in range(0, entries, SEGMENT):
        end = min(start + SEGMENT, entries)
        table = _table(chance, names, start, end, entries)
        segment = write_segment(disk, folder, LEDGER_0, start, end, table)
        lines.append(manifest.add(segment_line(segment, manifest)))
    lines.append(manifest.add(settled_line(manifest, START + SPAN, None)))
    (folder / NAME).write_bytes(b"".join(lines))


def _table(
    chance: np.random.Generator, names: np.ndarray[Any, Any], start: int, end: int, entries: int
) -> pa.Table:
    rows = end - start
    at = np.arange(start, end, dtype=np.int64)
    recorded = START + at * (SPAN // entries)
    occurred = recorded - chance.integers(0, 3_600 * SECOND, rows)
    era, rem = np.divmod(occurred - ZERO, HALF_LIFE)
    i, f = np.divmod(rem * 4096, HALF_LIFE)
    known = np.array(MANTISSAS, dtype=np.int64)
    m = known[i] + (known[i + 1] - known[i]) * f // HALF_LIFE
    # A few subjects have most of the entries, as tools do.
    whose = (len(names) * chance.random(rows) ** 3).astype(np.int64)
    sign = np.where(chance.random(rows) < 0.02, -1, 1)
    ok = (chance.random(rows) < 0.9) * PPM * sign
    asked = (chance.random(rows) < 0.2) * sign
    zeros = np.zeros(rows, np.int64)
    nothing = pa.array([None] * rows, pa.int64())
    columns: dict[str, Any] = {
        "partition": zeros,
        "offset": at,
        "idx": zeros,
        "recorded_us": recorded,
        "occurred_us": occurred,
        "era": era,
        "m": m,
        "subject": pa.array(names[whose], pa.string()),
        "kind": np.where(sign < 0, 2, 1),
        "rev": np.where(sign < 0, 2, 1),
        "n": sign,
        "clean": (ok > 0) & (sign > 0),
        "a0": ok,
        "a1": asked * PPM,
        "a2": (chance.integers(0, PPM, rows)) * sign,
        "a3": PPM * sign,
        "a4": zeros,
        "w0": sign,
        "w1": asked,
        "w2": sign,
        "w3": sign,
        "w4": sign,
        "trace_id": pa.array(np.char.add("t", at.astype(str)), pa.string()),
        "event_id": pa.array(np.char.add("close/t", at.astype(str)), pa.string()),
        "source": pa.array(["/bench"] * rows, pa.string()),
        "formula": pa.array(["ewm/1"] * rows, pa.string()),
        "fact_partition": zeros,
        "fact_offset": at,
        "fact_number": zeros,
        "chain": pa.array([[]] * rows, LEDGER.field("chain").type),
        "seg_max": recorded,
    }
    arrays = [
        pa.array(columns.get(field.name, nothing)).cast(field.type)
        if field.name != "chain"
        else columns["chain"]
        for field in LEDGER
    ]
    return pa.Table.from_arrays(arrays, schema=LEDGER)


# ---- readings: (seconds, subjects, something to compare) -----------------------------------------


def seed_fold(folder: str) -> tuple[float, int, Any]:
    """(a) The seed's snippet, an event at a time, over what lies in memory."""
    store, seconds = SeedStore(), 0.0
    names = ("tool_success", "human_approval_delta", "cost_efficiency", "constitution_clean")
    for file in _files(folder):
        held = pq.read_table(file, columns=["offset", "subject", "occurred_us", "a0", "a2", "a3"])
        held = held.sort_by([("offset", "ascending")])
        for start in range(0, held.num_rows, CHUNK):
            part = held.slice(start, CHUNK).to_pydict()
            told = [
                (
                    (key, "", ""),
                    dict(zip(names, (a0 / PPM, 0.5, a2 / PPM, a3 / PPM), strict=True)),
                    datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment),
                )
                for key, moment, a0, a2, a3 in zip(
                    part["subject"], part["occurred_us"], part["a0"], part["a2"], part["a3"],
                    strict=True,
                )
            ]  # fmt: skip
            started = time.perf_counter()
            for one in told:
                store.update(*one)
            seconds += time.perf_counter() - started
    return seconds, len(store.scores), None


def bare_scan(folder: str) -> tuple[float, int, Any]:
    """(b) DuckDB alone: the same columns read and grouped by subject, with no weights."""
    sums = ", ".join(f"sum(a{i}), sum(w{i})" for i in range(5))
    with duckdb.connect() as connection:
        return _best(
            lambda: (
                connection.sql(
                    f"SELECT subject, {sums}, sum(sp_a), sum(sp_w), sum(n), count(*), max(era), "
                    "max(m), max(occurred_us) FILTER (clean), max(bad_at), max(grant_at), "
                    f"max(recorded_us) FROM read_parquet({_files(folder)}) GROUP BY subject"
                )
                .to_arrow_table()
                .num_rows,
                None,
            )
        )


def opening(folder: str) -> tuple[float, int, Any]:
    """Ours: open the archive and hold every file of the ledger against its digest."""

    def run() -> tuple[int, Any]:
        archive = Archive.open(Path(folder))
        lines = archive.manifest.segments("ledger")
        return 0, [(archive.file(line), archive.rollup(line)) for line in lines]

    return _best(run)


def as_of(folder: str, share: float, by_entry: bool, number: int | None) -> tuple[float, int, Any]:
    """Ours, of an opened archive: sums as of a share of the time, raw_score of every subject."""
    moment = START + int(SPAN * share)
    archive = Archive.open(Path(folder))
    one = None if number is None else subject(number)
    with in_memory() as connection:

        def run() -> tuple[int, Any]:
            sums, _ = sums_as_of(connection, archive, moment, one, by_entry=by_entry)
            made = scores_of(sums)
            return len(made.subjects), round(float(made.raw_score.sum()), 6)

        return _best(run)


def _best(run: Callable[[], tuple[int, Any]]) -> tuple[float, int, Any]:
    """The best of three, so that neither side pays for what is done once a process."""
    found: list[tuple[float, int, Any]] = []
    for _ in range(3):
        started = time.perf_counter()
        subjects, check = run()
        found.append((time.perf_counter() - started, subjects, check))
    return min(found, key=lambda one: one[0])


def _files(folder: str) -> list[str]:
    return sorted(
        str(path) for path in (Path(folder) / "segments").iterdir() if "rollup" not in path.name
    )
