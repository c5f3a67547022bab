"""From sums to the numbers that people read, against `pandas.ewm` and by hand."""

import random
from fractions import Fraction
from itertools import pairwise

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustfold_projections.laws.fold import refold
from trustfold_projections.laws.scoring import (
    WITHOUT_EVIDENCE,
    freshness_of,
    raw_score_of,
    score_of,
    values_of,
)
from trustfold_projections.laws.time_weights import HALF_LIFE, ZERO
from trustfold_schemas.amounts import PPM
from trustfold_schemas.instants import DAY, HOUR
from trustfold_schemas.ledger import COMPONENTS, TOOL_SUCCESS, ZEROS, Entry, Five
from trustfold_schemas.scores import State, TrustScore
from trustfold_schemas.subject import Subject

SUBJECT = Subject("", "fs_write", "fs_write:~/notes/*")
START = ZERO + 2300 * DAY
BEST: Five = (PPM, PPM, PPM, PPM, 0)
ALL: Five = (1, 1, 1, 1, 1)

moments = st.integers(ZERO, ZERO + 300 * HALF_LIFE)
shares = st.floats(0, 1)


def evidence(occurred: int, amounts: Five = BEST, weights: Five = ALL, **more: object) -> Entry:
    """The entry of one trace."""
    known: dict[str, object] = {
        "kind": "evidence",
        "subject": SUBJECT,
        "trace_id": "t",
        "event_id": "e",
        "source": "rt",
        "occurred": occurred,
        "recorded": occurred,
        "chain": (occurred,),
        "amounts": amounts,
        "weights": weights,
        "n_samples": 1,
        "clean": True,
    }
    return Entry(**(known | more))  # type: ignore[arg-type]


def self_play(occurred: int, won: int) -> Entry:
    """One self-play of the subject; `won` is 10**6 or 0."""
    return evidence(
        occurred, ZEROS, ZEROS, kind="self_play", n_samples=0, clean=False, self_play=(won, 1)
    )


def folded(*entries: Entry) -> State:
    """The state that entries come to."""
    return refold(SUBJECT, entries)


def random_samples(seed: int) -> list[Entry]:
    """Forty traces in order of time, at any spacing, each with some of the components."""
    dice = random.Random(seed)
    spacing = dice.choice((HOUR, DAY, 5 * DAY, HALF_LIFE))
    occurred, entries = START, []
    for _ in range(40):
        occurred += dice.randrange(2 * spacing)
        weights = [int(dice.random() < 0.8) for _ in COMPONENTS]
        a, b, c, d, e = (w * dice.choice((0, PPM, dice.randrange(PPM + 1))) for w in weights)
        v, w, x, y, z = weights
        entries.append(evidence(occurred, (a, b, c, d, e), (v, w, x, y, z)))
    return entries


def weighted_mean_of_pandas(entries: list[Entry], component: int) -> float:
    """The last value of `pandas.ewm` over the samples that have the component."""
    there = [entry for entry in entries if entry.weights[component]]
    values = pd.Series([entry.amounts[component] / PPM for entry in there])
    times = pd.to_datetime([entry.occurred for entry in there], unit="us")
    return float(values.ewm(halflife="30 days", times=times, adjust=True).mean().iloc[-1])


@pytest.mark.parametrize("component", range(5), ids=COMPONENTS)
@pytest.mark.parametrize("seed", range(12))
def test_a_component_is_the_weighted_mean_of_pandas(seed: int, component: int) -> None:
    """Each component agrees with `pandas.ewm(halflife='30 days', times=...)` within 1e-9."""
    samples = random_samples(seed)
    ours = values_of(folded(*samples))[component]
    assert ours == pytest.approx(weighted_mean_of_pandas(samples, component), rel=0, abs=1e-9)


def test_without_evidence_components_are_neutral() -> None:
    """Where nothing was seen: success 0, approval, cost and constitution 0.5, undo 0."""
    assert values_of(State(subject=SUBJECT)) == WITHOUT_EVIDENCE == (0.0, 0.5, 0.5, 0.5, 0.0)


def test_what_was_not_asked_moves_no_approval_rate() -> None:
    """A hundred traces that asked nobody leave human_approval_rate at what one denial made it."""
    denied = evidence(START, (PPM, 0, PPM, PPM, 0))
    silent = [evidence(START + n * HOUR, (PPM, 0, PPM, PPM, 0), (1, 0, 1, 1, 1)) for n in range(99)]
    assert values_of(folded(denied, *silent))[1] == 0.0


@given(st.tuples(shares, shares, shares, shares, shares))
def test_raw_score_adds_in_the_order_of_the_specification(
    values: tuple[float, float, float, float, float],
) -> None:
    """The five terms of SPEC 4, added from left to right: to the bit, not approximately."""
    tool, approval, cost, clean, undo = values
    total = 0.30 * tool + 0.25 * approval
    total = total + 0.20 * cost
    total = total + 0.15 * clean
    assert raw_score_of(values) == total + 0.10 * (1.0 - undo)


def test_the_best_evidence_has_the_raw_score_one() -> None:
    """Nothing but good evidence on all five components reads as 1."""
    assert score_of(folded(evidence(START)), START).raw_score == 1.0


@given(moments, st.integers(0, 200))
def test_freshness_halves_in_thirty_days(last_updated: int, half_lives: int) -> None:
    """Freshness is exactly 2**-n after n times 30 days without a clean trace."""
    now = last_updated + half_lives * HALF_LIFE
    assert freshness_of(last_updated, now) == 0.5**half_lives


@given(moments, moments)
def test_freshness_never_exceeds_one(last_updated: int, now: int) -> None:
    """A score that is read before its last clean trace, by a slow clock, is no fresher than new."""
    assert 0.0 <= freshness_of(last_updated, now) <= 1.0


@given(moments)
def test_without_a_clean_trace_nothing_is_fresh(now: int) -> None:
    """A subject whose every trace failed has no last_updated, and the score 0."""
    assert freshness_of(None, now) == 0.0


def test_a_clock_before_2020_reads_as_2020() -> None:
    """A machine that lost its clock gets freshness 1 at most instead of an error."""
    assert freshness_of(START, 0) == 1.0


def test_the_score_is_raw_score_times_freshness() -> None:
    """Signals at 1.0 and no update for 30 days: the seed's 0.5."""
    assert score_of(folded(evidence(START)), START + HALF_LIFE).score == 0.5


def test_a_failure_makes_an_old_score_no_fresher() -> None:
    """A trace that is not clean adds its evidence and leaves last_updated where it was."""
    good = evidence(START)
    failed = evidence(START + HALF_LIFE, (0, PPM, PPM, PPM, 0), clean=False)
    assert score_of(folded(good, failed), START + HALF_LIFE).freshness == 0.5


def test_effective_samples_halve_in_thirty_days() -> None:
    """Eight traces, whatever they lack, are worth four samples 30 days later, and stay eight."""
    state = folded(*(evidence(START, (0, 0, 0, PPM, 0), (0, 0, 0, 1, 1)) for _ in range(8)))
    later = score_of(state, START + HALF_LIFE)
    assert (later.effective_samples, later.n_samples) == (4.0, 8)


def test_effective_grants_count_grants_and_no_denials() -> None:
    """Six grants, two denials, 30 days: three effective grants."""
    granted = [evidence(START) for _ in range(6)]
    denied = [evidence(START, (PPM, 0, PPM, PPM, 0)) for _ in range(2)]
    state = folded(*granted, *denied)
    assert score_of(state, START + HALF_LIFE).effective_grants == 3.0


def lost_every_game() -> State:
    """Three good traces and three self-plays that the users did not accept, at one moment."""
    return folded(*[evidence(START)] * 3, *[self_play(START, 0)] * 3)


def test_self_play_shows_in_tool_success() -> None:
    """What is shown counts self-plays beside traces: three of six."""
    assert values_of(lost_every_game())[TOOL_SUCCESS] == 0.5


def test_self_play_is_left_out_of_what_promotes() -> None:
    """With self_play=False tool_success, and so the policy's score, is that of the traces."""
    score = score_of(lost_every_game(), START, self_play=False)
    assert (score.tool_success, score.score) == (1.0, 1.0)


def test_self_play_is_no_sample() -> None:
    """Self-plays add neither samples nor effective samples nor freshness."""
    score = score_of(folded(self_play(START, PPM)), START)
    assert (score.n_samples, score.effective_samples, score.freshness) == (0, 0.0, 0.0)


@given(st.integers(1, 2**160), st.integers(0, 2**180))
def test_a_quotient_is_the_double_next_to_the_exact_one(den: int, num: int) -> None:
    """Sums beyond 2**53 are divided as integers, once, and rounded once."""
    num %= den * PPM + 1
    state = State(subject=SUBJECT, num=[num] * 5, den=[den] * 5)
    assert values_of(state) == (float(Fraction(num, den * PPM)),) * 5


def test_values_at_different_moments_differ_by_freshness_alone() -> None:
    """Decay needs no job: reading later changes freshness and effective counts, no component."""
    state = folded(*random_samples(7))
    read = [values(score_of(state, START + n * HALF_LIFE)) for n in (10, 11, 40)]
    assert all(earlier == later for earlier, later in pairwise(read))


def values(score: TrustScore) -> list[float]:
    """The five components and raw_score of a score."""
    return [getattr(score, name) for name in (*COMPONENTS, "raw_score")]
