"""Medians of cost: which one measures a trace, and what the nightly job would have published."""

import statistics
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from trustfold_projections.laws.medians import (
    SAMPLES_MIN,
    Cost,
    MedianTable,
    medians_at,
    medians_of_history,
)
from trustfold_projections.laws.time_weights import ZERO
from trustfold_schemas.amounts import MicroUsd
from trustfold_schemas.events import CostMedian
from trustfold_schemas.instants import DAY, HOUR, Instant

EFFECT = "fs_write:~/notes/*"
MIDNIGHT = ZERO + 2300 * DAY
LONG_AGO = MIDNIGHT - 100 * DAY


def published(
    effective_at: int, median_usd: int, samples: int = 20, scope: str = "", effect: str = EFFECT
) -> CostMedian:
    """The data of one `cost.median`, money in micro-USD."""
    return CostMedian(effect, MicroUsd(median_usd), samples, Instant(effective_at), scope)


def table_of(*medians: CostMedian, recorded: int = LONG_AGO) -> MedianTable:
    """A table that took medians in, all recorded at one moment."""
    table = MedianTable()
    for median in medians:
        table.add(median, recorded)
    return table


def in_force(table: MedianTable, time: int, close_recorded: int | None = None) -> int | None:
    """The median for a trace of `time`, whose close was recorded at once unless said."""
    recorded = time if close_recorded is None else close_recorded
    return table.in_force("", EFFECT, time, recorded)


def costs_at(*times: int, cost_usd: int = 7, effect: str = EFFECT) -> list[Cost]:
    """One trace a time, all of one cost."""
    return [Cost("", effect, time, cost_usd) for time in times]


# ---- which one is in force ---------------------------------------------------------------------


def test_the_last_median_that_took_effect_is_in_force() -> None:
    """Of several medians the one with the greatest effective_at <= the trace's time measures it."""
    table = table_of(*(published(MIDNIGHT + day * DAY, 100 + day) for day in (2, 0, 1)))
    assert in_force(table, MIDNIGHT + 2 * DAY - 1) == 101


def test_a_median_is_in_force_from_its_very_moment() -> None:
    """A trace of the moment at which a median takes effect is measured by it."""
    assert in_force(table_of(published(MIDNIGHT, 100)), MIDNIGHT) == 100


def test_a_median_measures_no_trace_before_it() -> None:
    """A trace one microsecond before effective_at has no measure."""
    assert in_force(table_of(published(MIDNIGHT, 100)), MIDNIGHT - 1, MIDNIGHT + DAY) is None


def test_a_median_recorded_after_a_close_does_not_measure_it() -> None:
    """A late median, effective in the past, changes no trace closed before it was recorded."""
    table = table_of(published(MIDNIGHT, 100), recorded=MIDNIGHT + DAY)
    assert in_force(table, MIDNIGHT + HOUR, close_recorded=MIDNIGHT + DAY) is None


def test_a_median_recorded_before_a_late_close_measures_it() -> None:
    """An import publishes its medians first: closes recorded after them are measured by them."""
    table = table_of(published(MIDNIGHT, 100), recorded=MIDNIGHT + DAY)
    assert in_force(table, MIDNIGHT + HOUR, close_recorded=MIDNIGHT + DAY + 1) == 100


def test_behind_a_median_that_came_too_late_the_earlier_one_stays_in_force() -> None:
    """A close passes over medians recorded after it, to the last one that it could know."""
    table = table_of(published(MIDNIGHT - DAY, 100))
    table.add(published(MIDNIGHT, 200), MIDNIGHT + DAY)
    assert in_force(table, MIDNIGHT + HOUR) == 100


def test_the_first_recorded_of_two_medians_holds() -> None:
    """A second median for the same (scope, effect, effective_at) is refused, whatever it says."""
    table = table_of(published(MIDNIGHT, 100))
    assert not table.add(published(MIDNIGHT, 999, samples=500), LONG_AGO + 1)


def test_a_refused_median_leaves_the_first_in_force() -> None:
    """The median that holds measures traces as if the second had not come."""
    table = table_of(published(MIDNIGHT, 100), published(MIDNIGHT, 999, samples=500))
    assert in_force(table, MIDNIGHT) == 100


def test_scopes_and_effects_have_medians_of_their_own() -> None:
    """A median of another scope or effect class measures nothing here."""
    table = table_of(published(MIDNIGHT, 1, scope="team"), published(MIDNIGHT, 2, effect="invoke"))
    assert in_force(table, MIDNIGHT + DAY) is None


def test_a_median_of_fewer_than_twenty_traces_is_no_measure() -> None:
    """One that rests on 19 traces in force means no cost evidence, not the median before it."""
    table = table_of(published(MIDNIGHT - DAY, 100), published(MIDNIGHT, 100, samples=19))
    assert in_force(table, MIDNIGHT) is None


def test_a_median_of_zero_is_no_measure() -> None:
    """Nothing is divided by a median of 0."""
    assert in_force(table_of(published(MIDNIGHT, 0)), MIDNIGHT) is None


@given(st.permutations(range(6)))
def test_the_order_of_publishing_does_not_matter(order: list[int]) -> None:
    """Medians of different midnights may come in any order before the close."""
    table = table_of(*(published(MIDNIGHT + day * DAY, 100 + day) for day in order))
    found = [in_force(table, MIDNIGHT + day * DAY) for day in range(6)]
    assert found == [100, 101, 102, 103, 104, 105]


# ---- how they are computed ---------------------------------------------------------------------


def test_the_window_is_thirty_days_that_end_a_day_before() -> None:
    """Costs in [E - 31 d, E - 1 d) count for the median effective at E, and no others."""
    inside = costs_at(MIDNIGHT - 31 * DAY, *[MIDNIGHT - 1 * DAY - 1] * 19, cost_usd=7)
    outside = costs_at(*[MIDNIGHT - 31 * DAY - 1] * 50, *[MIDNIGHT - 1 * DAY] * 50, cost_usd=900)
    assert medians_at(inside + outside, MIDNIGHT) == {("", EFFECT): (7, 20)}


def test_fewer_than_twenty_costs_make_no_median() -> None:
    """An effect with 19 costs in the window is left out; what was published stays in force."""
    assert medians_at(costs_at(*[MIDNIGHT - 2 * DAY] * 19), MIDNIGHT) == {}


def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two_rounded_down() -> None:
    """Of ten costs of 1 and ten of 4 micro-USD the median is 2, an integer."""
    then = [MIDNIGHT - 2 * DAY] * 10
    costs = costs_at(*then, cost_usd=4) + costs_at(*then, cost_usd=1)
    assert medians_at(costs, MIDNIGHT) == {("", EFFECT): (2, 20)}


def test_the_median_of_an_odd_number_is_the_middle_one() -> None:
    """Of 10 + 1 + 10 costs the one in the middle is the median."""
    then = [MIDNIGHT - 2 * DAY] * 10
    costs = costs_at(*then, cost_usd=9) + costs_at(then[0], cost_usd=5) + costs_at(*then)
    assert medians_at(costs, MIDNIGHT) == {("", EFFECT): (7, 21)}


amounts = st.lists(st.integers(0, 50), min_size=SAMPLES_MIN, max_size=45)


@given(amounts)
def test_a_median_is_that_of_the_standard_library(cost_usd: list[int]) -> None:
    """The floor of the mean of `median_low` and `median_high`, in any order of the costs."""
    costs = [Cost("", EFFECT, MIDNIGHT - 2 * DAY, cost) for cost in cost_usd]
    middle = (statistics.median_low(cost_usd) + statistics.median_high(cost_usd)) // 2
    assert medians_at(costs, MIDNIGHT) == {("", EFFECT): (middle, len(cost_usd))}


# ---- a whole history ---------------------------------------------------------------------------

Published = list[tuple[int, str, str, int, int]]


@st.composite
def histories(draw: st.DrawFn) -> list[Cost]:
    """Bursts of costs of three effects over four months, with days on which nothing happens."""
    burst = st.tuples(
        st.integers(0, 120),
        st.sampled_from((0, 1, DAY // 2, DAY - 1)),
        st.sampled_from((("", EFFECT), ("", "invoke"), ("team", EFFECT))),
        st.integers(0, 9),
        st.integers(8, 30),
    )
    bursts = draw(st.lists(burst, max_size=12))
    return [
        Cost(scope, effect, MIDNIGHT + day * DAY + moment, cost_usd)
        for day, moment, (scope, effect), cost_usd, count in bursts
        for _ in range(count)
    ]


def night_after_night(costs: list[Cost]) -> Published:
    """What a job that runs every night, up to the last cost, and publishes changes would say."""
    said: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    published_in_order: Published = []
    days = [cost.time // DAY for cost in costs] or [0]
    for day in range(min(days), max(days) + 1):
        for (scope, effect), made in medians_at(costs, day * DAY).items():
            if said[scope, effect][-1:] != [made]:
                said[scope, effect].append(made)
                published_in_order.append((day * DAY, scope, effect, *made))
    return published_in_order


@given(histories())
def test_a_history_has_the_medians_that_the_nights_would_have_published(costs: list[Cost]) -> None:
    """medians_of_history is medians_at of every midnight, less what did not change."""
    found = [
        (m.effective_at, m.scope, m.effect, m.median_usd, m.samples)
        for m in medians_of_history(costs)
    ]
    assert found == night_after_night(costs)


@given(histories())
def test_a_history_never_publishes_twice_for_one_midnight(costs: list[Cost]) -> None:
    """Every median of a history can be taken in: none is refused as set already."""
    table = MedianTable()
    assert all(table.add(median, LONG_AGO) for median in medians_of_history(costs))


def test_an_empty_history_has_no_medians() -> None:
    """Without a cost nothing is published."""
    assert list(medians_of_history([])) == []
