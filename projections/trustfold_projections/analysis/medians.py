"""The nightly medians of cost over a log, in DuckDB (SPEC 7, decision 0004).

What a trace cost and which effects it had is read by the law in `laws.medians`, since money is a
decimal text that SQL would read as a double; the window and the medians are SQL over integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Final

import duckdb
import pyarrow as pa

from trustfold_projections.analysis.records import facts_of
from trustfold_projections.archive.opening import Archive
from trustfold_projections.laws.medians import LEAD, SAMPLES_MIN, WINDOW, Cost, costs_of
from trustfold_schemas.amounts import MicroUsd
from trustfold_schemas.events import CostMedian, CostMedianEvent, Event
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import DAY, HOUR, Instant

COMPUTED_FROM: Final = 3 * HOUR
"""From this time of the day on, UTC, the medians of the next midnight are due."""

_COSTS: Final = pa.schema(
    [
        pa.field("scope", pa.string()),
        pa.field("effect", pa.string()),
        pa.field("time_us", pa.int64()),
        pa.field("cost_usd", pa.int64()),
    ]
)
_MEDIANS: Final = (
    resources.files("trustfold_projections.analysis").joinpath("medians.sql").read_text("utf-8")
)

Effect = tuple[str, str]
"""(scope, effect)"""


def next_midnight(now: int) -> int:
    """The first midnight UTC after a moment."""
    return (now // DAY + 1) * DAY


def due(now: int, done: int | None) -> int | None:
    """The midnight whose medians are due at `now`, or None; `done` is that of the last run.

    For a timer that looks now and then: they are due once a day, from 03:00 UTC on.
    """
    midnight = next_midnight(now)
    if midnight == done or now % DAY < COMPUTED_FROM:
        return None
    return midnight


def medians_of_costs(
    connection: duckdb.DuckDBPyConnection, costs: Iterable[Cost], effective_at: int
) -> dict[Effect, tuple[int, int]]:
    """The medians that take effect at a midnight: (scope, effect) -> (micro-USD, samples)."""
    rows = list(costs)
    table = pa.Table.from_pydict(
        {
            "scope": [cost.scope for cost in rows],
            "effect": [cost.effect for cost in rows],
            "time_us": [cost.time for cost in rows],
            "cost_usd": [cost.cost_usd for cost in rows],
        },
        schema=_COSTS,
    )
    connection.register("costs", table)
    try:
        found = connection.execute(
            _MEDIANS,
            {
                "first": effective_at - LEAD - WINDOW,
                "end": effective_at - LEAD,
                "samples_min": SAMPLES_MIN,
            },
        ).fetchall()
    finally:
        connection.unregister("costs")
    return {(scope, effect): (median, samples) for scope, effect, median, samples in found}


def archived_costs(
    connection: duckdb.DuckDBPyConnection, archive: Archive, effective_at: int
) -> Iterable[Cost]:
    """The costs of an archive's traces whose close, the first in the log, is in the window.

    A trace that counts its steps brings those that were recorded singly.
    """
    first, end = effective_at - LEAD - WINDOW, effective_at - LEAD
    closed = (
        "type = 'trace.closed.v1' AND occurred_us >= $first AND occurred_us < $end "
        "AND recorded_us <= $settled"
    )
    # Only such a trace can have a step or an earlier close that matters here.
    files = archive.files("facts")
    if not files:
        return ()
    listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    chosen = f"trace_id IN (SELECT trace_id FROM read_parquet([{listed}]) WHERE {closed})"
    facts = facts_of(
        connection,
        archive,
        where=f"type IN ('trace.closed.v1', 'step.recorded.v1') AND recorded_us <= $settled "
        f"AND {chosen}",
        first=first,
        end=end,
        settled=archive.settled,
    )
    return costs_of(fact.event for _, fact in facts)


def logged_costs(events: Iterable[Event]) -> Iterable[Cost]:
    """The costs of a log's traces, from all of its events in order."""
    return costs_of(events)


def changed(
    made: Mapping[Effect, tuple[int, int]], published: Iterable[Fact], effective_at: int
) -> list[CostMedian]:
    """The medians to publish: those that differ from the last one published, in order.

    Of several for one midnight the first recorded holds, so what is there for this one stays.
    """
    latest: dict[Effect, CostMedian] = {}
    for fact in published:
        if isinstance(fact.event, CostMedianEvent):
            data = fact.event.data
            known = latest.get((data.scope, data.effect))
            if data.effective_at <= effective_at and (
                known is None or data.effective_at > known.effective_at
            ):
                latest[data.scope, data.effect] = data
    return [
        CostMedian(effect, MicroUsd(median), samples, Instant(effective_at), scope)
        for (scope, effect), (median, samples) in sorted(made.items())
        if _differs(latest.get((scope, effect)), median, samples, effective_at)
    ]


def _differs(known: CostMedian | None, median: int, samples: int, effective_at: int) -> bool:
    if known is None:
        return True
    if known.effective_at == effective_at:
        return False
    return (known.median_usd, known.samples) != (median, samples)
