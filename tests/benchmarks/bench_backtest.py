"""A backtest of millions of steps from the segments of an archive: time, ratio and memory.

TRUSTFOLD_BENCH_STEPS names the steps (default 5000000), five a trace; one trace in fifty has an
answer by a human, and so goes through the law. Each measurement is a process of its own, so that
its memory is its own. The other side of the ratio is the exact path over a hundredth of the
traces, whose counts must be those of the columns over the same.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.benchmarks.loads import START, versions
from trustfold_projections.analysis.backtest.archived import ArchivedBacktest
from trustfold_projections.analysis.backtest.history import read_history
from trustfold_projections.analysis.backtest.reference import judge
from trustfold_projections.analysis.backtest.rules import Elapsed, Trust, policies, thresholds_with
from trustfold_projections.analysis.backtest.tally import with_totals
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.rows import fact_of
from trustfold_projections.laws.correlation import Key, key_of
from trustfold_projections.laws.medians import MedianTable
from trustfold_projections.laws.time_weights import HALF_LIFE, MANTISSAS, ZERO
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import DAY

STEPS = int(os.environ.get("TRUSTFOLD_BENCH_STEPS", "5000000"))
PER_TRACE = 5
SUBJECTS = (1_000, 100_000)
FILE_TRACES = 200_000
SPAN = 180 * DAY
ROOT = Path(__file__).resolve().parents[2]

POLICIES = [
    one for one in policies([Trust("trustfold", thresholds_with())]) if not isinstance(one, Elapsed)
]


def test_bench_backtest(tmp_path: Path) -> None:
    """Prints the figures that issue notes quote; asserts counts and no time."""
    print(
        f"\nbacktest of {STEPS:,} steps, {len(POLICIES)} policies; {versions()}, "
        + ", ".join(f"{name} {metadata.version(name)}" for name in ("duckdb", "numpy", "pyarrow"))
    )
    traces = STEPS // PER_TRACE
    for subjects in SUBJECTS:
        whole, part = tmp_path / f"{subjects}", tmp_path / f"{subjects}-part"
        make(whole, traces, subjects)
        make(part, max(traces // 100, 100), subjects)
        columns, small, exact = run("columns", whole), run("columns", part), run("exact", part)
        assert small["tallies"] == exact["tallies"]
        rate, exact_rate = (side["actions"] / side["seconds"] for side in (columns, exact))
        print(
            f"{subjects:>7,} subjects: {columns['actions']:,} actions in "
            f"{columns['seconds']:.1f} s ({columns['cpu_seconds']:.1f} s of CPU), {rate:,.0f}/s, "
            f"{columns['megabytes']:,} MB at most; "
            f"exact path {exact_rate:,.0f}/s, so {rate / exact_rate:.0f} times; "
            f"{columns['entries']:,} entries"
        )


def run(path: str, folder: Path) -> dict[str, int | float]:
    """One side in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.bench_backtest", path, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    made: dict[str, int | float] = json.loads(done.stdout)
    return made


def measured(path: str, folder: Path) -> dict[str, object]:
    """What one process does: judge, and say how long it took and how much memory."""
    ledger = sorted(str(file) for file in folder.glob("ledger-*.parquet"))
    facts = sorted(str(file) for file in folder.glob("facts-*.parquet"))
    started, worked = time.perf_counter(), time.process_time()
    if path == "columns":
        with contextlib.closing(in_memory()) as connection:
            connection.execute(f"SET temp_directory = '{folder}/spilled'")
            connection.execute("SET memory_limit = '1GB'")
            backtest = ArchivedBacktest(connection, ledger, facts, MedianTable(), 2**60)
            tallies = backtest.run(POLICIES)
    else:
        tallies = with_totals(
            judge(read_history(Facts(facts)), POLICIES), [p.name for p in POLICIES]
        )
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - worked
    (entries,) = duckdb.execute(f"SELECT count(*) FROM read_parquet({ledger})").fetchall()[0]
    return {
        "actions": tallies[0].actions,
        "entries": entries,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "megabytes": peak(),
        "tallies": [[getattr(one, name) for name in one.__struct_fields__] for one in tallies],
    }


def peak() -> int:
    """The most memory that this process had, in MB; getrusage has it from the parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


class Facts:
    """The facts of the files, for the exact path."""

    def __init__(self, files: list[str]) -> None:
        self._files = files

    def medians(self) -> list[Fact]:
        """None: the load has no costs."""
        return []

    def policy(self) -> list[Fact]:
        """None: nothing is set."""
        return []

    def by_key(self) -> list[list[Fact]]:
        """Facts by trace."""
        keys: dict[Key, list[Fact]] = {}
        query = f"SELECT * FROM read_parquet({self._files}) ORDER BY recorded_us"
        table = duckdb.execute(query).to_arrow_table()
        assert table is not None
        for row in table.to_pylist():
            fact = fact_of(row)
            keys.setdefault(key_of(fact.event), []).append(fact)
        return list(keys.values())


# ---- the load ------------------------------------------------------------------------------------

_TRACES = """
SELECT i, hash(i) % 50 = 0 AS asked, $start + i * $gap AS recorded_us,
       $start + i * $gap - 1000000 AS occurred_us
FROM range($first, $last) t(i)
"""
_STEPS = f"""
SELECT t.*, k, (hash(i, k) % $subjects)::INTEGER AS s,
       CASE WHEN hash(k, i) % 40 = 0 THEN 'error' ELSE 'ok' END AS status
FROM ({_TRACES}) t, range({PER_TRACE}) u(k)
"""
_TIME = "strftime(make_timestamp({}), '%Y-%m-%dT%H:%M:%S.%fZ')"
_FACTS = f"""
WITH steps AS ({_STEPS}), closes AS (
    SELECT i, recorded_us, occurred_us, 'trace.closed.v1' AS type, 'close-' || i AS event_id,
           '"steps":[' || string_agg(
               '{{"step_id":"' || k || '","tool":"tool' || s % 20 || '","effect":"fs_write:~/p' || s
               || '/*","status":"' || status || '","reversibility":"reversible"}}', ',' ORDER BY k)
           || '],"agent":"bench","outcome":"completed","violations":[]' AS said
    FROM steps GROUP BY i, recorded_us, occurred_us
), answers AS (
    SELECT i, recorded_us - 500000, recorded_us - 500000, 'approval.decided.v1', 'answer-' || i,
           '"step_ids":["0"],"decision":"granted","decided_by":{{"kind":"human","id":"ann"}}'
    FROM ({_TRACES}) WHERE asked
)
SELECT 0::INTEGER AS partition, recorded_us AS "offset", recorded_us, occurred_us, type,
       '/bench' AS source, event_id, 'trace-' || i AS trace_id, 'owner' AS role,
       NULL::VARCHAR AS identity, NULL::VARCHAR AS scopes,
       '{{"specversion":"1.0","id":"' || event_id || '","source":"/bench","type":"trustfold.'
       || type || '","time":"' || {_TIME.format("occurred_us")}
       || '","data":{{"trace_id":"trace-' || i || '",' || said || '}}}}' AS body,
       max(recorded_us) OVER () AS seg_max
FROM (FROM closes UNION ALL FROM answers) ORDER BY "offset"
"""
_LEDGER = f"""
WITH evidence AS (
    SELECT i, s, recorded_us, occurred_us, count(*) AS executed,
           count(*) FILTER (status = 'ok') AS ok,
           CASE WHEN bool_or(asked AND k = 0) THEN recorded_us - 500000 END AS grant_at
    FROM ({_STEPS}) GROUP BY i, s, recorded_us, occurred_us
), entries AS (
    SELECT e.*, '["","tool' || s % 20 || '","fs_write:~/p' || s || '/*"]' AS subject FROM evidence e
    UNION ALL
    SELECT i, -1, recorded_us, occurred_us, {PER_TRACE}, sum(ok), NULL, '["","runtime","completed"]'
    FROM evidence GROUP BY i, recorded_us, occurred_us
), placed AS (
    SELECT *, ((occurred_us - {ZERO}) % {HALF_LIFE}) * 4096 AS place FROM entries
)
SELECT 0::INTEGER AS partition, row_number() OVER () AS "offset", 0::INTEGER AS idx, recorded_us,
       occurred_us, ((occurred_us - {ZERO}) // {HALF_LIFE})::SMALLINT AS era,
       (low + step * (place % {HALF_LIFE}) // {HALF_LIFE})::INTEGER AS m, subject,
       1::TINYINT AS kind, 1::INTEGER AS rev, 1::TINYINT AS n, ok = executed AS clean,
       (ok * 1000000 // executed)::INTEGER AS a0,
       CASE WHEN grant_at IS NULL THEN 0 ELSE 1000000 END::INTEGER AS a1,
       0::INTEGER AS a2, 1000000::INTEGER AS a3, 0::INTEGER AS a4,
       1::TINYINT AS w0, (grant_at IS NOT NULL)::TINYINT AS w1, 0::TINYINT AS w2, 1::TINYINT AS w3,
       1::TINYINT AS w4, NULL::INTEGER AS sp_a, NULL::TINYINT AS sp_w, NULL::BIGINT AS bad_at,
       grant_at, NULL::BIGINT AS median_usd, NULL::BIGINT AS to_us, NULL::VARCHAR AS rollback_id,
       'trace-' || i AS trace_id, 'close-' || i AS event_id, '/bench' AS source,
       'ewm/1' AS formula, 0::INTEGER AS fact_partition, recorded_us AS fact_offset,
       0::INTEGER AS fact_number, []::BIGINT[] AS chain, max(recorded_us) OVER () AS seg_max
FROM placed JOIN mantissas ON mantissas.j = place // {HALF_LIFE}
ORDER BY subject, recorded_us
"""


def make(folder: Path, traces: int, subjects: int) -> None:
    """Segments of facts and ledger as the archiver would write them, made in SQL."""
    folder.mkdir()
    with contextlib.closing(in_memory()) as connection:
        rows = [(j, MANTISSAS[j], MANTISSAS[j + 1] - MANTISSAS[j]) for j in range(4096)]
        table = pa.Table.from_pydict(
            {name: [row[i] for row in rows] for i, name in enumerate(("j", "low", "step"))}
        )
        connection.register("mantissas", table)
        for number, first in enumerate(range(0, traces, FILE_TRACES)):
            last = min(first + FILE_TRACES, traces)
            values = {"first": first, "last": last, "start": START, "gap": SPAN // traces}
            for name, query in (("facts", _FACTS), ("ledger", _LEDGER)):
                used = {key: value for key, value in values.items() if f"${key}" in query}
                path = folder / f"{name}-{number:03}.parquet"
                connection.execute(
                    f"COPY ({query}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)",
                    used | {"subjects": subjects},
                )


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], Path(sys.argv[2]))))
