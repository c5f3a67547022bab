"""From a state to the numbers people read, at a stated moment (SPEC 4). Floats begin here.

Every quotient is one correctly rounded integer division, so the same state gives the same bits
on every machine.
"""

from __future__ import annotations

from datetime import datetime

from trustfold_projections.laws.time_weights import ZERO, g
from trustfold_schemas.amounts import PPM
from trustfold_schemas.instants import datetime_of
from trustfold_schemas.ledger import (
    CONSTITUTION_CLEAN,
    COST_EFFICIENCY,
    HUMAN_APPROVAL_RATE,
    TOOL_SUCCESS,
    UNDO_RATE,
)
from trustfold_schemas.scores import State, TrustScore

WITHOUT_EVIDENCE = (0.0, 0.5, 0.5, 0.5, 0.0)
"""The value of a component whose weights sum to 0, in the order of COMPONENTS."""

RAW_SCORE_WEIGHTS = (0.30, 0.25, 0.20, 0.15, 0.10)
"""The weights of raw_score; the last one weighs 1 - undo_rate."""


def values_of(state: State, *, self_play: bool = True) -> tuple[float, float, float, float, float]:
    """The five components, each in [0, 1]; the policy leaves self-play out of tool_success."""
    # Written out: a policy reads them at every question, from memory.
    (n0, n1, n2, n3, n4), (d0, d1, d2, d3, d4) = state.num, state.den
    if self_play:
        n0 += state.self_play_num
        d0 += state.self_play_den
    w0, w1, w2, w3, w4 = WITHOUT_EVIDENCE
    return (
        n0 / (d0 * PPM) if d0 else w0,
        n1 / (d1 * PPM) if d1 else w1,
        n2 / (d2 * PPM) if d2 else w2,
        n3 / (d3 * PPM) if d3 else w3,
        n4 / (d4 * PPM) if d4 else w4,
    )


def raw_score_of(values: tuple[float, float, float, float, float]) -> float:
    """The number in [0, 1] of five components, in the order of float operations of SPEC 4."""
    a, b, c, d, e = RAW_SCORE_WEIGHTS
    return (
        a * values[TOOL_SUCCESS]
        + b * values[HUMAN_APPROVAL_RATE]
        + c * values[COST_EFFICIENCY]
        + d * values[CONSTITUTION_CLEAN]
        + e * (1 - values[UNDO_RATE])
    )


def freshness_of(last_updated: int | None, now: int) -> float:
    """How fresh a score is at `now`: halved per 30 days since last_updated, at most 1."""
    if last_updated is None:
        return 0.0
    return min(1.0, g(last_updated) / g(max(now, ZERO)))


def score_of(state: State, now: int, *, self_play: bool = True) -> TrustScore:
    """Everything a state says at the moment `now` (microseconds since 1970)."""
    values = values_of(state, self_play=self_play)
    raw_score = raw_score_of(values)
    freshness = freshness_of(state.last_updated, now)
    weight_now = g(max(now, ZERO))
    return TrustScore(
        subject=state.subject,
        tool_success=values[TOOL_SUCCESS],
        human_approval_rate=values[HUMAN_APPROVAL_RATE],
        cost_efficiency=values[COST_EFFICIENCY],
        constitution_clean=values[CONSTITUTION_CLEAN],
        undo_rate=values[UNDO_RATE],
        raw_score=raw_score,
        freshness=freshness,
        score=raw_score * freshness,
        n_samples=state.n_samples,
        effective_samples=state.den[UNDO_RATE] / weight_now,
        effective_grants=state.num[HUMAN_APPROVAL_RATE] / (PPM * weight_now),
        last_updated=_datetime(state.last_updated),
        last_bad_at=_datetime(state.last_bad_at),
        last_grant_at=_datetime(state.last_grant_at),
    )


def _datetime(moment: int | None) -> datetime | None:
    return None if moment is None else datetime_of(moment)
