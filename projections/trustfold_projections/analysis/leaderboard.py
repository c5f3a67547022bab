"""The leaderboard of an archive as of a moment: scores as columns, states of the best only."""

from __future__ import annotations

import heapq
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from trustfold_projections.analysis.as_of import sums_as_of
from trustfold_projections.analysis.eras import Ints
from trustfold_projections.analysis.exact import Floats, freshness, scores_of
from trustfold_projections.analysis.states import states_of
from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.schema import BLOCK
from trustfold_projections.laws.leaderboard import Leaderboard, leaderboard_of
from trustfold_schemas.subject import RUNTIME, subject_from_key

_OF_TRACES: Final = f'","{RUNTIME}","'
"""In the key of a subject: no quote within a name stands there without a backslash before it."""


def leaderboard_as_of(
    connection: duckdb.DuckDBPyConnection, archive: Archive, top: int, moment: int, now: int
) -> Leaderboard:
    """`leaderboard_of` the states as of a moment, at the moment `now`. Raises NotSettledError."""
    sums, rollbacks = sums_as_of(connection, archive, moment)
    made = scores_of(sums)
    score = made.raw_score * freshness(made.last_updated, now)
    of_traces = np.fromiter((_OF_TRACES in key for key in made.subjects), bool)
    chosen = np.zeros(len(of_traces), bool)
    for kind in (of_traces, ~of_traces):
        chosen[_best(np.flatnonzero(kind), made.subjects, score, made.n_samples, top)] = True
    rows = np.repeat(chosen, np.diff(made.starts, append=sums.num_rows))
    best = leaderboard_of(states_of(sums.filter(pa.array(rows)), BLOCK, rollbacks), top, now)
    traces = int(of_traces.sum())
    return replace(best, steps_in_all=len(of_traces) - traces, traces_in_all=traces)


def _best(some: Ints, keys: list[str], score: Floats, samples: Ints, top: int) -> list[int]:
    """The `top` best of some subjects, by their numbers, in no order."""
    ranked = some[np.lexsort((-samples[some], -score[some], samples[some] == 0))]
    if len(ranked) <= top:
        return list(map(int, ranked))
    last, inside = ranked[top - 1], ranked[:top]
    tied = (score == score[last]) & (samples == samples[last])
    surely = list(map(int, inside[~tied[inside]]))
    # Keys are sorted as bytes and subjects as names, which differ where one begins another.
    by_subject = heapq.nsmallest(
        top - len(surely),
        map(int, ranked[tied[ranked]]),
        key=lambda one: subject_from_key(keys[one]),
    )
    return surely + by_subject
