"""Medians of cost: which one is in force for a trace (SPEC 3), how they are computed (SPEC 7)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from trustfold_schemas.amounts import MicroUsd
from trustfold_schemas.events import CostMedian, Event, StepRecordedEvent, TraceClosedEvent
from trustfold_schemas.instants import DAY, Instant

SAMPLES_MIN = 20
"""A median that rests on fewer traces is no measure of cost."""
WINDOW = 30 * DAY
"""A nightly median is over the traces of 30 days."""
LEAD = DAY
"""The window ends so long before the median takes effect: the midnight before the job runs."""


class Median(NamedTuple):
    """One published median; ordered by when it takes effect. Money in micro-USD."""

    effective_at: int
    recorded: int
    median_usd: int
    samples: int


class MedianTable:
    """The medians known so far, by (scope, effect). Holds what the log `cost-median` said."""

    def __init__(self) -> None:
        self._by_effect: dict[tuple[str, str], list[Median]] = {}

    @property
    def known(self) -> bool:
        """Whether there is any median at all."""
        return bool(self._by_effect)

    def add(self, data: CostMedian, recorded: int) -> bool:
        """Take a median in; False if one for this (scope, effect, effective_at) holds already."""
        known = self._by_effect.setdefault((data.scope, data.effect), [])
        median = Median(int(data.effective_at), recorded, int(data.median_usd), data.samples)
        at = bisect_right(known, int(data.effective_at), key=_effective_at)
        if at and known[at - 1].effective_at == data.effective_at:
            return False
        insort(known, median)
        return True

    def in_force(self, scope: str, effect: str, time: int, close_recorded: int) -> int | None:
        """The median (micro-USD) that measures a trace of this time, or None for no measure.

        It is the last with `effective_at` <= time among those recorded before the trace's close.
        SPEC 3 asks the latter only of medians recorded less than an hour ahead; the others were
        recorded before any close that they can serve, since no accepted event is more than five
        minutes ahead of its log.
        """
        known = self._by_effect.get((scope, effect), ())
        at = bisect_right(known, time, key=_effective_at)
        for median in reversed(known[:at]):
            if median.recorded < close_recorded:
                usable = median.samples >= SAMPLES_MIN and median.median_usd > 0
                return median.median_usd if usable else None
        return None


class Cost(NamedTuple):
    """What one closed trace cost (micro-USD), and one of the effect classes among its steps."""

    scope: str
    effect: str
    time: int
    cost_usd: int


def costs_of(events: Iterable[Event]) -> Iterator[Cost]:
    """The costs of a log's closed traces: of each trace with a known cost one per effect class.

    The first close of a trace holds; its effects are those it lists and, where it counts its
    steps, those recorded singly.
    """
    closes: dict[str, TraceClosedEvent] = {}
    recorded: dict[str, dict[str, None]] = {}
    for event in events:
        if isinstance(event, TraceClosedEvent):
            closes.setdefault(event.data.trace_id, event)
        elif isinstance(event, StepRecordedEvent):
            effects = recorded.setdefault(event.data.trace_id, {})
            effects[event.data.step.effect] = None
    for trace_id, close in closes.items():
        data = close.data
        if data.cost_usd is None:
            continue
        effects = dict.fromkeys(step.effect for step in data.steps)
        if data.step_count is not None:
            effects.update(recorded.get(trace_id, {}))
        for effect in effects:
            yield Cost(data.scope, effect, close.time, data.cost_usd)


def medians_at(costs: Iterable[Cost], effective_at: int) -> dict[tuple[str, str], tuple[int, int]]:
    """The nightly medians that take effect at a midnight: (scope, effect) -> (median, samples).

    Over the costs with a time in the 30 days that end a day before `effective_at`. The median of
    an even number of costs is the mean of the middle two, rounded down. Those that rest on fewer
    than 20 traces are left out: the last reliable one stays in force.
    """
    first, end = effective_at - LEAD - WINDOW, effective_at - LEAD
    window: dict[tuple[str, str], list[int]] = {}
    for cost in costs:
        if first <= cost.time < end:
            window.setdefault((cost.scope, cost.effect), []).append(cost.cost_usd)
    return {
        effect: (_median(sorted(known)), len(known))
        for effect, known in sorted(window.items())
        if len(known) >= SAMPLES_MIN
    }


def medians_of_history(costs: Iterable[Cost]) -> Iterator[CostMedian]:
    """The medians that the nightly job would have published over a whole history, in order.

    One a (scope, effect) and midnight where median or samples changed, for every midnight up to
    the last cost's.
    """
    by_day: dict[int, list[Cost]] = {}
    for cost in costs:
        by_day.setdefault(cost.time // DAY, []).append(cost)
    if not by_day:
        return
    published: dict[tuple[str, str], tuple[int, int]] = {}
    days_before = (WINDOW + LEAD) // DAY
    for day in range(min(by_day) + 2, max(by_day) + 1):
        near = [cost for d in range(day - days_before, day - 1) for cost in by_day.get(d, ())]
        for effect, made in medians_at(near, day * DAY).items():
            if published.get(effect) != made:
                published[effect] = made
                yield _event_data(effect, made, day * DAY)


def _event_data(effect: tuple[str, str], made: tuple[int, int], at: int) -> CostMedian:
    return CostMedian(effect[1], MicroUsd(made[0]), made[1], Instant(at), effect[0])


def _median(ordered: Sequence[int]) -> int:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) // 2


def _effective_at(median: Median) -> int:
    return median.effective_at
