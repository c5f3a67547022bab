"""Cutting sorted columns into slices that fit in memory, with all that each action needs.

A slice is a run of entries, and the actions that come after its first entry and not after the
first of the next: whatever an action must know is in its slice or was carried into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from trustfold_projections.analysis.backtest.columns import (
    ActionColumns,
    EntryColumns,
    Ints,
    joined,
)

SUBJECTS_MAX = 4096
"""Subjects of one slice: their number times a span of moments has to fit in 63 bits."""

Columns = TypeVar("Columns", EntryColumns, ActionColumns)


class Slice(NamedTuple):
    """Entries, and the actions to be judged by them and by what was carried."""

    entries: EntryColumns
    actions: ActionColumns


class _Reader(Generic[Columns]):
    """Hands out columns that come in parts of any size."""

    def __init__(self, parts: Iterable[Columns]) -> None:
        self._parts: Iterator[Columns] = filter(len, parts)
        self._held: list[Columns] = []

    def part(self) -> Columns | None:
        """The first part, as it came or what is left of it; None where none is left."""
        self._hold(1)
        return self._held[0] if self._held else None

    def following(self) -> Columns | None:
        """The part after it."""
        self._hold(2)
        return self._held[1] if len(self._held) > 1 else None

    def at_least(self, rows: int) -> Columns | None:
        """One part, after reading until it is so many rows or all; None where none is left."""
        parts = 1
        while self._hold(parts) and sum(map(len, self._held)) < rows:
            parts += 1
        self._held = [joined(self._held)] if self._held else []
        return self.part()

    def take(self, rows: int) -> None:
        """Let go of the first rows of the first part."""
        first = self._held.pop(0)
        if rows < len(first):
            self._held.insert(0, first.part(rows, len(first)))

    def _hold(self, parts: int) -> bool:
        """Read until so many parts are held; whether they are."""
        while len(self._held) < parts:
            part = next(self._parts, None)
            if part is None:
                return False
            self._held.append(part)
        return True


def slices(
    entries: Iterable[EntryColumns], actions: Iterable[ActionColumns], rows: int
) -> Iterator[Slice]:
    """Slices of at most `rows` entries and as many actions, in the order of both inputs.

    Actions of subjects without an entry are handed out, too, with whatever entries stand near.
    Entries are cut where their parts end, since to join parts would copy them.
    """
    held_entries, held_actions = _Reader(entries), _Reader(actions)
    while True:
        # One more than are taken, so that too many are seen to be.
        waiting = held_actions.at_least(rows + 1)
        if waiting is None:
            return
        some = held_entries.part()
        if some is None:
            many = min(rows, len(waiting))
            none = joined_empty()
            yield Slice(none, waiting.part(0, many))
            held_actions.take(many)
            continue
        cut = min(rows, len(some), _rows_of(some, SUBJECTS_MAX))
        # The first of the next slice says which actions are of this one.
        after = some.part(cut, len(some)) if cut < len(some) else held_entries.following()
        reach = len(waiting)
        if after is not None:
            reach = _up_to(waiting, int(after.subject[0]), int(after.recorded[0]))
        if reach > rows:
            # Too many actions: only the entries that the first `rows` of them need.
            reach = rows
            last = int(waiting.subject[reach - 1]), int(waiting.moment[reach - 1])
            cut = min(cut, _before(some, *last))
        yield Slice(some.part(0, cut), waiting.part(0, reach))
        if cut:
            held_entries.take(cut)
        if reach:
            held_actions.take(reach)


def joined_empty() -> EntryColumns:
    """No entries."""
    none: Ints = np.empty(0, np.int64)
    five = [none] * 5
    false = np.empty(0, np.bool_)
    return EntryColumns(none, none, none, none, five, five, none, none, none, none, false, false)


def _rows_of(entries: EntryColumns, subjects: int) -> int:
    """How many entries the first so many subjects have."""
    first = np.flatnonzero(np.diff(entries.subject))
    return int(first[subjects - 1]) + 1 if len(first) >= subjects else len(entries)


def _up_to(actions: ActionColumns, subject: int, recorded: int) -> int:
    """How many actions are not after an entry: of its subject up to its moment, or before."""
    start = int(np.searchsorted(actions.subject, subject, "left"))
    stop = int(np.searchsorted(actions.subject, subject, "right"))
    return start + int(np.searchsorted(actions.moment[start:stop], recorded, "right"))


def _before(entries: EntryColumns, subject: int, moment: int) -> int:
    """How many entries are before an action."""
    start = int(np.searchsorted(entries.subject, subject, "left"))
    stop = int(np.searchsorted(entries.subject, subject, "right"))
    return start + int(np.searchsorted(entries.recorded[start:stop], moment, "left"))
