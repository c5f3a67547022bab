"""The leaderboard: every subject by its score at a moment, whole traces by outcome apart."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from trustfold_projections.laws.scoring import score_of
from trustfold_schemas.scores import Corrupt, State, TrustScore


class Leaderboard(Struct, frozen=True, kw_only=True):
    """The best of a table at a moment, and of how many they are the best.

    `steps` are the subjects of tools, `traces` those of whole traces by outcome; the best first.
    """

    steps: list[TrustScore]
    steps_in_all: int
    traces: list[TrustScore]
    traces_in_all: int
    corrupt: list[Corrupt]


def leaderboard_of(table: Iterable[State | Corrupt], top: int, now: int) -> Leaderboard:
    """The `top` best of each kind at the moment `now`: those with samples before those without.

    Among equals who has more samples, and then the order of subjects.
    """
    scores: list[TrustScore] = []
    corrupt: list[Corrupt] = []
    for one in table:
        if isinstance(one, State):
            scores.append(score_of(one, now))
        else:
            corrupt.append(one)
    scores.sort(key=lambda one: (one.n_samples == 0, -one.score, -one.n_samples, one.subject))
    steps = [one for one in scores if not one.subject.is_global]
    traces = [one for one in scores if one.subject.is_global]
    return Leaderboard(
        steps=steps[:top],
        steps_in_all=len(steps),
        traces=traces[:top],
        traces_in_all=len(traces),
        corrupt=corrupt,
    )
