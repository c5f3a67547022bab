"""The history that a backtest judges: ledger entries and actions, by subject, from the facts.

Both come from one walk through the law of correlation, one key at a time, so that no more than a
key's facts are in memory beside the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import Protocol

import msgspec
from msgspec import Struct

from trustfold_projections.analysis.backtest.actions import PastAction, actions_of
from trustfold_projections.laws.correlation import TraceState, correlate, key_of, new_state
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.events import CostMedianEvent
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import DAY
from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject


class FactSource(Protocol):
    """What a backtest needs of a log: accepted facts, whatever store they are in."""

    def medians(self) -> Iterable[Fact]:
        """The facts of published medians, in log order."""
        ...

    def policy(self) -> Iterable[Fact]:
        """The facts of the policy's log, in its order."""
        ...

    def by_key(self) -> Iterable[Sequence[Fact]]:
        """All other facts: those of one correlation key together, in log order."""
        ...


class SubjectHistory(Struct, gc=False):
    """One subject's entries in log order, and its actions in the order of their moments."""

    entries: list[Entry]
    actions: list[PastAction]


History = dict[Subject, SubjectHistory]
"""In the order of subjects; subjects without an action are left out."""


def read_history(source: FactSource, *, as_happened: bool = False) -> History:
    """The history of a log.

    `as_happened` is for a log that was imported long after its events: each fact then counts as
    recorded at its event's own `time`, as it would have been by a store that ran at the time.
    """
    medians = MedianTable()
    for fact in source.medians():
        if isinstance(fact.event, CostMedianEvent):
            medians.add(fact.event.data, int(fact.event.time) if as_happened else fact.recorded)
    entries: dict[Subject, list[tuple[int, int, Entry]]] = {}
    actions: dict[Subject, list[PastAction]] = {}
    for facts in source.by_key():
        told = _told_in_time(facts) if as_happened else facts
        for position, entry in _correlated(told, medians, actions):
            entries.setdefault(entry.subject, []).append((entry.recorded, position, entry))
    return {
        subject: SubjectHistory(
            [entry for *_, entry in sorted(entries.get(subject, ()), key=itemgetter(0, 1))],
            sorted(actions[subject], key=attrgetter("moment", "trace_id")),
        )
        for subject in sorted(actions)
    }


def imported(history: History) -> bool:
    """Whether most of a log was recorded more than a day after it happened."""
    late = count = 0
    for one in history.values():
        for entry in one.entries:
            late += entry.recorded - entry.occurred > DAY
            count += 1
    return 2 * late > count


def _correlated(
    facts: Sequence[Fact], medians: MedianTable, actions: dict[Subject, list[PastAction]]
) -> Iterator[tuple[int, Entry]]:
    """The entries of one key's facts, each with its fact's position; actions go to `actions`."""
    state = new_state(key_of(facts[0].event))
    remembered: list[Fact] = []
    for fact in facts:
        outcome = correlate(state, fact, medians)
        if outcome.remembered:
            remembered.append(fact)
        for entry in outcome.entries:
            yield fact.position, entry
    if isinstance(state, TraceState):
        for action in actions_of(state, remembered):
            actions.setdefault(action.subject, []).append(action)


def _told_in_time(facts: Iterable[Fact]) -> list[Fact]:
    """Facts as recorded at their events' times."""
    moved = [msgspec.structs.replace(fact, recorded=int(fact.event.time)) for fact in facts]
    return sorted(moved, key=attrgetter("recorded"))
