"""A whole backtest: each subject by the path that suits it, and the counts of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from trustfold_projections.analysis.backtest.columns import (
    ActionColumns,
    EntryColumns,
    action_columns,
    entry_columns,
)
from trustfold_projections.analysis.backtest.fast import judged, tallied
from trustfold_projections.analysis.backtest.history import History, SubjectHistory
from trustfold_projections.analysis.backtest.reference import judge
from trustfold_projections.analysis.backtest.rules import Elapsed, Policy
from trustfold_projections.analysis.backtest.tally import Tally, with_totals

EXACT_ACTIONS: Final = 100_000
"""Up to so many actions plain integers are quick enough, at about 20 us each."""
_PART: Final = 1 << 16


def backtest(
    history: History, policies: Sequence[Policy], exact_actions: int = EXACT_ACTIONS
) -> list[Tally]:
    """What each policy would have done: all scopes together, then scope by scope."""
    names = [policy.name for policy in policies]
    if sum(len(one.actions) for one in history.values()) <= exact_actions:
        return with_totals(judge(history, policies), names)
    plain = {subject: one for subject, one in history.items() if not _rolled_back(one)}
    rest = {subject: one for subject, one in history.items() if subject not in plain}
    # A score of float operations one after the other has no prefix sums.
    sequential = [policy for policy in policies if isinstance(policy, Elapsed)]
    quick = [policy for policy in policies if not isinstance(policy, Elapsed)]
    tallies = [*judge(rest, policies), *judge(plain, sequential), *_judged_fast(plain, quick)]
    return with_totals(tallies, names)


def _judged_fast(history: History, policies: Sequence[Policy]) -> list[Tally]:
    scopes = sorted({subject.scope for subject in history})
    numbers = {scope: number for number, scope in enumerate(scopes)}
    scope_of = np.array([numbers[subject.scope] for subject in history], np.int64)
    made = judged(_entry_parts(history), _action_parts(history), policies, list(history))
    return tallied(made, policies, scopes, scope_of)


def _entry_parts(history: History) -> Iterator[EntryColumns]:
    rows = ((i, entry) for i, one in enumerate(history.values()) for entry in one.entries)
    while len(part := entry_columns(row for row, _ in zip(rows, range(_PART), strict=False))):
        yield part


def _action_parts(history: History) -> Iterator[ActionColumns]:
    rows = ((i, action) for i, one in enumerate(history.values()) for action in one.actions)
    while len(part := action_columns(row for row, _ in zip(rows, range(_PART), strict=False))):
        yield part


def _rolled_back(one: SubjectHistory) -> bool:
    return any(entry.kind in ("rollback", "rollback_lifted") for entry in one.entries)
