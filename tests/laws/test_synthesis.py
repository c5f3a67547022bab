"""The reward of a draft: exact, bounded, monotone, and told in words that help the next one."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trustfold_projections.laws.synthesis import (
    GATE,
    Breakdown,
    Checked,
    Cost,
    Coverage,
    Judged,
    Measured,
    Similarity,
    cost_ratio,
    reward_of,
)
from trustfold_projections.laws.synthesis_words import NAMES_MAX, breakdown_data, dossier, prose
from trustfold_schemas.amounts import PPM, MicroUsd, Ppm

shares = st.integers(0, PPM).map(Ppm)
money = st.integers(0, 10**12).map(MicroUsd)
names = st.text("abcdefgh_0123456789", min_size=1, max_size=12)
drafts = st.builds(
    Measured,
    neuron=names,
    tests=st.lists(st.builds(Checked, names, st.booleans()), max_size=12).map(tuple),
    judge=st.builds(Judged, shares, st.text(max_size=30)),
    cost=st.builds(Cost, money, money),
    similarity=st.builds(Similarity, shares, st.none() | names),
    coverage=st.builds(Coverage, shares, st.lists(names, max_size=3).map(tuple)),
)


def draft(
    det: tuple[int, int] = (1, 1), judge: int = PPM, cost: tuple[int, int] = (1, 1)
) -> Measured:
    """A draft with so many green of so many tests, and all else at its best unless said."""
    green, total = det
    return Measured(
        neuron="budget_tracker",
        tests=tuple(Checked(f"test_{number}", number <= green) for number in range(1, total + 1)),
        judge=Judged(Ppm(judge), "law.1 borderline"),
        cost=Cost(MicroUsd(cost[0]), MicroUsd(cost[1])),
    )


def test_the_row_of_the_seed() -> None:
    """The weights of the seed give R = 0.72 exactly."""
    measured = msgspec.structs.replace(
        draft(judge=600_000), coverage=Coverage(Ppm(200_000))
    )  # 0.40 + 0.15 + 0.15 + 0.02
    assert reward_of(measured).reward == 720_000


def literal(measured: Measured) -> Fraction:
    """SPEC 6 to the letter, over fractions: an oracle."""
    rate = Fraction(sum(one.passed for one in measured.tests), max(1, len(measured.tests)))
    actual, estimated = measured.cost.actual_usd, measured.cost.estimated_usd
    ratio = Fraction(1) if actual <= estimated else Fraction(estimated, actual)
    return (
        Fraction(40, 100) * rate
        + Fraction(25, 100) * Fraction(measured.judge.score, PPM)
        + Fraction(15, 100) * ratio
        - Fraction(10, 100) * Fraction(measured.similarity.penalty, PPM)
        + Fraction(10, 100) * Fraction(measured.coverage.bonus, PPM)
    )


@given(drafts)
def test_a_reward_is_the_formula_within_its_digits(measured: Measured) -> None:
    """R stays in [0, 1], never above the exact value, and less than two millionths below it."""
    reward = Fraction(reward_of(measured).reward, PPM)
    exact = max(Fraction(0), literal(measured))
    assert 0 <= reward <= exact
    assert exact - reward < Fraction(2, PPM)


@given(drafts)
def test_none_passes_the_gate_by_rounding(measured: Measured) -> None:
    """Who is at the gate has reached it exactly."""
    if reward_of(measured).passes:
        assert literal(measured) >= Fraction(GATE, PPM)


@given(drafts, shares)
def test_better_is_never_worse(measured: Measured, other: Ppm) -> None:
    """More of a good component or less of the penalty never lowers R."""
    low, high = sorted((measured.judge.score, other))
    change = msgspec.structs.replace
    with_judge = [
        reward_of(change(measured, judge=Judged(one))).reward for one in (Ppm(low), Ppm(high))
    ]
    assert with_judge == sorted(with_judge)
    with_penalty = [
        reward_of(change(measured, similarity=Similarity(one))).reward
        for one in (Ppm(high), Ppm(low))
    ]
    assert with_penalty == sorted(with_penalty)


def test_no_tests_have_passed_no_test() -> None:
    """A draft that nobody tested is not a tested one."""
    assert reward_of(draft((0, 0))).value("det_pass_rate") == 0


@pytest.mark.parametrize(
    ("actual", "estimated", "ratio"),
    [(0, 0, PPM), (5, 10, PPM), (10, 10, PPM), (20, 10, PPM // 2), (1, 0, 0), (3, 1, 333_333)],
)
def test_cost_ratio(actual: int, estimated: int, ratio: int) -> None:
    """Within the estimate is the best; twice the estimate is half; where it was free, nothing."""
    assert cost_ratio(Cost(MicroUsd(actual), MicroUsd(estimated))) == ratio


@given(drafts)
def test_the_prose_names_the_red_tests_and_the_judge(measured: Measured) -> None:
    """The first red tests are named, the others counted; the judge's words and R are there."""
    said = prose(measured)
    assert all(name in said for name in measured.red[:NAMES_MAX])
    assert measured.judge.words.strip() in said
    assert ("Try again" in said) is not reward_of(measured).passes


def test_the_prose_of_the_seed() -> None:
    """What the seed's synthesizer would be told."""
    tests = tuple(Checked(f"test_{number}", number in (1, 4)) for number in range(1, 6))
    measured = msgspec.structs.replace(draft(judge=500_000), tests=tests)
    assert prose(measured) == (
        "The draft of budget_tracker reached R = 0.435; the gate is at 0.65, 0.215 more.\n"
        "det_pass_rate = 0.40: 3 of 5 tests are red: test_2, test_3, test_5.\n"
        "judge_score = 0.50: the judge said: law.1 borderline\n"
        "cost_ratio = 1.00: it cost 0.000001 USD, 0.000001 were estimated.\n"
        "coverage_bonus = 0.00: no effect class is said to be new.\n"
        "Try again with this in mind. Most is to be won at det_pass_rate: 0.2400."
    )


def test_the_dossier_shows_every_term_and_says_what_r_is() -> None:
    """The person at the gate sees the terms add up to R, and that nothing was approved."""
    measured = draft(judge=600_000)
    made = dossier(measured, attempt=2)
    assert made.passes
    assert sum(made.terms.values()) == pytest.approx(made.reward)
    assert made.breakdown == {
        "det_pass_rate": 1.0,
        "judge_score": 0.6,
        "cost_ratio": 1.0,
        "similarity_penalty": 0.0,
        "coverage_bonus": 0.0,
    }
    assert "draft 2" in made.text
    assert "R approves nothing" in made.text
    assert msgspec.json.decode(msgspec.json.encode(made))["reward"] == made.reward


@given(drafts)
def test_the_breakdown_of_the_event_is_exact(measured: Measured) -> None:
    """The components stand in the event as decimals of the same millionths."""
    found: Breakdown = reward_of(measured)
    data = breakdown_data(measured, found)
    assert all(Fraction(str(data[t.component])) * PPM == t.value for t in found.terms)
