"""The numbers of a threshold: met exactly or missed by one, whatever floats make of them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.policies import ASKED, NOW, enforcing, perfect
from trustfold_projections.laws.policy import decide
from trustfold_projections.laws.policy.thresholds import meets
from trustfold_projections.laws.time_weights import HALF_LIFE, ZERO, g
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import ReasonCode, Threshold, Verdict
from trustfold_schemas.instants import DAY
from trustfold_schemas.scores import State


def verdict_on(state: State) -> Verdict:
    """The verdict where a declaration and the default thresholds are all that is set."""
    return decide(state, enforcing().policy, ASKED, NOW)


def reaches(state: State, min_score: int, now: int) -> bool:
    """Whether a state meets a threshold that asks for a score only."""
    return meets(state, Threshold("reversible", min_score, 0, 0, 0), now)


@pytest.mark.parametrize(
    ("traces", "granted", "age", "reason"),
    [
        (19, 0, 0, ReasonCode.TOO_FEW_SAMPLES),
        (20, 0, 0, None),
        (39, 0, HALF_LIFE, ReasonCode.TOO_FEW_SAMPLES),
        (20, 17, 0, None),
    ],
)
def test_the_defaults_at_their_edges(
    traces: int, granted: int, age: int, reason: ReasonCode | None
) -> None:
    """Effective samples, met exactly or missed by one; samples of a half-life ago count half."""
    state = replace(perfect(traces=traces, granted=granted, at=NOW - age), last_updated=NOW)
    verdict = verdict_on(state)
    assert (reason in verdict.reasons) if reason else verdict.verdict == "allow"


def test_dead_samples_promote_nobody() -> None:
    """A thousand approvals of two years ago: freshness and effective samples are gone."""
    verdict = verdict_on(perfect(at=NOW - 730 * DAY))
    assert ReasonCode.TOO_FEW_SAMPLES in verdict.reasons
    assert ReasonCode.SCORE_TOO_LOW in verdict.reasons
    assert verdict.n_samples == 1000


def test_the_approval_rate_counts_only_where_humans_decided() -> None:
    """Without a human decision it is no obstacle; with one it must be reached exactly."""
    state = perfect(traces=100, granted=10)
    state.num[1] = 9 * state.num[1] // 10
    assert verdict_on(state).verdict == "allow"
    state.num[1] -= 1
    assert verdict_on(state).reasons == (ReasonCode.APPROVAL_RATE_TOO_LOW,)


def exact_score(state: State, now: int) -> Fraction:
    """The score as SPEC 4 writes it, in fractions."""
    empty = (Fraction(0), Fraction(1, 2), Fraction(1, 2), Fraction(1, 2), Fraction(0))
    a, b, c, d, e = (
        Fraction(num, den * PPM) if den else without
        for num, den, without in zip(state.num, state.den, empty, strict=True)
    )
    shares = (Fraction(n, 100) for n in (30, 25, 20, 15, 10))
    raw = sum(share * v for share, v in zip(shares, (a, b, c, d, 1 - e), strict=True))
    if state.last_updated is None:
        return Fraction(0)
    return raw * min(Fraction(1), Fraction(g(state.last_updated), g(now)))


amounts = st.tuples(*[st.integers(0, 3 * PPM)] * 5)


@given(amounts, st.integers(0, 3), st.integers(0, 40 * DAY), st.integers(0, PPM))
def test_the_score_is_compared_as_the_fraction_it_is(
    num: tuple[int, ...], weight: int, age: int, min_score: int
) -> None:
    """The answer is that of exact arithmetic for any state, also where floats are too near."""
    state = perfect(traces=weight or 1, at=NOW - age)
    state.num = [
        min(share, den * PPM)
        for share, den in zip(
            (n * d for n, d in zip(num, state.den, strict=True)), state.den, strict=True
        )
    ]
    exact = exact_score(state, NOW)
    assert reaches(state, min_score, NOW) == (exact >= Fraction(min_score, PPM))
    nearest = int(exact * PPM)
    assert reaches(state, nearest, NOW)
    assert nearest == PPM or not reaches(state, nearest + 1, NOW)


def test_a_score_on_the_threshold_is_met() -> None:
    """0.65 that floats make 0.6500000000000001 or 0.6499999999999999 is 0.65."""
    state = perfect(at=ZERO)
    state.num = [
        num * share // 20 for num, share in zip(state.num, (10, 10, 10, 20, 0), strict=True)
    ]
    assert exact_score(state, ZERO) == Fraction(625, 1000)
    assert reaches(state, 625_000, ZERO)
    assert not reaches(state, 625_001, ZERO)
