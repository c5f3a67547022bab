"""The exact path: entries and actions merged by recorded, state strictly before each action.

Plain integers, one subject after the other; the fast path must come to the same verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trustfold_projections.analysis.backtest.actions import PastAction
from trustfold_projections.analysis.backtest.history import History, SubjectHistory
from trustfold_projections.analysis.backtest.rules import Known, Policy
from trustfold_projections.analysis.backtest.tally import Tally
from trustfold_schemas.subject import Subject


def verdicts(
    subject: Subject, history: SubjectHistory, policies: Sequence[Policy]
) -> Iterator[tuple[PastAction, list[bool]]]:
    """Each action of a subject, and of each policy whether it would have allowed it."""
    known = Known.nothing(subject)
    entries = iter(history.entries)
    waiting = next(entries, None)
    for action in history.actions:
        while waiting is not None and waiting.recorded < action.moment:
            known.take(waiting)
            waiting = next(entries, None)
        yield action, [policy.allows(known, action) for policy in policies]


def judge(history: History, policies: Sequence[Policy]) -> Iterable[Tally]:
    """What each policy would have done, by scope."""
    tallies: dict[tuple[str, str], Tally] = {}
    for subject, one in history.items():
        of_scope = [
            tallies.setdefault((policy.name, subject.scope), Tally(policy.name, subject.scope))
            for policy in policies
        ]
        for action, allowed in verdicts(subject, one, policies):
            for tally, yes in zip(of_scope, allowed, strict=True):
                tally.count(action, allowed=yes)
    return tallies.values()
