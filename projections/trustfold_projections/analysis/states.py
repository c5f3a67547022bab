"""The states of many subjects from the sums that DuckDB made, as Python's integers.

What needs scores only has them without a loop from `exact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from trustfold_projections.analysis.exact import Wide, rows_by_subject
from trustfold_projections.archive.schema import SUMS
from trustfold_schemas.scores import Rollback, State
from trustfold_schemas.subject import subject_from_key

Rollbacks = Mapping[str, tuple[Rollback, ...]]
"""The rollbacks in force at a moment, by the key of their subject."""


def states_of(sums: pa.Table, eras: int, rollbacks: Rollbacks) -> list[State]:
    """The state of every subject in sums, by subject.

    Each row stands for itself times 2**(eras * blk); rows are sorted by subject. Of the marks
    those are filled in that stand in `sums`: n, v, lu, lb, lg.
    """
    keys, starts, ends = rows_by_subject(sums)
    powers = eras * np.asarray(sums.column("blk").to_numpy(), np.int64)
    numbers = [Wide.of(sums, name).shifted(powers) for name in SUMS]
    numbers += [_column(sums, name, 0) for name in ("n", "v")]
    latest = [_column(sums, name, None) for name in ("lu", "lb", "lg")]
    states: list[State] = []
    for key, start, end in zip(keys, starts.tolist(), ends.tolist(), strict=True):
        *totals, n, v = [sum(column[start:end]) for column in numbers]
        lu, lb, lg = [_latest(column[start:end]) for column in latest]
        state = State(
            subject=subject_from_key(key),
            num=totals[:5],
            den=totals[5:10],
            n_samples=n,
            self_play_num=totals[10],
            self_play_den=totals[11],
            last_updated=lu,
            last_bad_at=lb,
            last_grant_at=lg,
            rollbacks=rollbacks.get(key, ()),
            version=v,
        )
        states.append(state)
    return sorted(states, key=lambda state: state.subject)


def _column(sums: pa.Table, name: str, absent: Any) -> list[Any]:
    if name not in sums.column_names:
        return [absent] * sums.num_rows
    return sums.column(name).to_pylist()


def _latest(moments: Sequence[int | None]) -> int | None:
    return max((moment for moment in moments if moment is not None), default=None)
