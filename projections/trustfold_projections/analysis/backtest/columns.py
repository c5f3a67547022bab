"""Entries and actions as columns, for the fast path: what numpy holds, and how it is made.

Both stand in the order (subject, recorded); a subject is a number, in the order of subjects. No
moment is before 1970, so -1 says that there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from trustfold_projections.analysis.backtest.actions import PastAction
from trustfold_projections.laws.time_weights import era_and_m
from trustfold_schemas.events import Reversibility
from trustfold_schemas.ledger import Entry, Kind

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NONE: Final = -1
"""In place of a moment that is absent."""

EVIDENCE_KIND: Final = 1
BANDS: Final[tuple[Reversibility, ...]] = ("reversible", "reversible_with_cost")
"""The bands that a number can promote; an action of any other has the band -1."""

ASKED, DENIED, FAILED, UNDONE, VIOLATED = 1, 2, 4, 8, 16
PREVENTABLE: Final = DENIED | UNDONE | VIOLATED
BAD: Final = PREVENTABLE | FAILED


class EntryColumns(Struct, eq=False):
    """Ledger entries without rollbacks. `amounts` and `weights` are five columns each.

    `updated` is `occurred` where the entry makes the subject fresh, else NONE; `good` and `worse`
    say what the entry does to a run of clean traces: one more, or none any more.
    """

    subject: Ints
    recorded: Ints
    era: Ints
    m: Ints
    amounts: list[Ints]
    weights: list[Ints]
    n: Ints
    updated: Ints
    bad_at: Ints
    grant_at: Ints
    good: Bools
    worse: Bools

    def __len__(self) -> int:
        return len(self.subject)

    def part(self, start: int, stop: int) -> EntryColumns:
        """The rows from `start` up to `stop`, as views."""
        some = slice(start, stop)
        return EntryColumns(
            self.subject[some],
            self.recorded[some],
            self.era[some],
            self.m[some],
            [column[some] for column in self.amounts],
            [column[some] for column in self.weights],
            self.n[some],
            self.updated[some],
            self.bad_at[some],
            self.grant_at[some],
            self.good[some],
            self.worse[some],
        )


class ActionColumns(Struct, eq=False):
    """Past actions: `band` is an index into BANDS or -1, `flags` what became of them."""

    subject: Ints
    moment: Ints
    band: Ints
    flags: Ints

    def __len__(self) -> int:
        return len(self.subject)

    def part(self, start: int, stop: int) -> ActionColumns:
        """The rows from `start` up to `stop`, as views."""
        some = slice(start, stop)
        return ActionColumns(
            self.subject[some], self.moment[some], self.band[some], self.flags[some]
        )


C = TypeVar("C", EntryColumns, ActionColumns)


def entry_columns(numbered: Iterable[tuple[int, Entry]]) -> EntryColumns:
    """Entries, each with the number of its subject, as columns; none may be a rollback."""
    rows = list(numbered)
    entries = [entry for _, entry in rows]
    weighed = [era_and_m(entry.occurred) for entry in entries]
    return EntryColumns(
        subject=_ints(number for number, _ in rows),
        recorded=_ints(entry.recorded for entry in entries),
        era=_ints(era for era, _ in weighed),
        m=_ints(m for _, m in weighed),
        amounts=[_ints(entry.amounts[c] for entry in entries) for c in range(5)],
        weights=[_ints(entry.weights[c] for entry in entries) for c in range(5)],
        n=_ints(entry.n_samples for entry in entries),
        updated=_ints(
            entry.occurred if freshens(entry.kind, clean=entry.clean) else NONE for entry in entries
        ),
        bad_at=_moments(entry.bad_at for entry in entries),
        grant_at=_moments(entry.grant_at for entry in entries),
        good=np.array(
            [e.kind == "evidence" and e.clean and e.bad_at is None for e in entries], bool
        ),
        worse=np.array(
            [e.bad_at is not None or (e.kind == "evidence" and not e.clean) for e in entries], bool
        ),
    )


def freshens(kind: Kind, *, clean: bool) -> bool:
    """Whether an entry of this kind can be the last that made its subject fresh."""
    return clean and kind in ("evidence", "initial")


def action_columns(numbered: Iterable[tuple[int, PastAction]]) -> ActionColumns:
    """Actions, each with the number of its subject, as columns."""
    rows = list(numbered)
    return ActionColumns(
        subject=_ints(number for number, _ in rows),
        moment=_ints(action.moment for _, action in rows),
        band=_ints(band_of(action.reversibility) for _, action in rows),
        flags=_ints(flags_of(action) for _, action in rows),
    )


def band_of(reversibility: Reversibility | None) -> int:
    """The index of a band, or -1 where no number promotes."""
    return BANDS.index(reversibility) if reversibility in BANDS else -1


def flags_of(action: PastAction) -> int:
    """What became of an action, as bits."""
    return (
        ASKED * action.asked
        + DENIED * action.denied
        + FAILED * action.failed
        + UNDONE * action.undone
        + VIOLATED * action.violated
    )


def _ints(numbers: Iterable[int]) -> Ints:
    return np.fromiter(numbers, np.int64)


def _moments(moments: Iterable[int | None]) -> Ints:
    return _ints(NONE if moment is None else moment for moment in moments)


def joined(parts: Sequence[C]) -> C:
    """Columns of one kind, one after the other; at least one."""
    if len(parts) == 1:
        return parts[0]
    kind = type(parts[0])
    columns = zip(*(msgspec.structs.astuple(part) for part in parts), strict=True)
    return kind(*(_stacked(several) for several in columns))


def _stacked(several: Sequence[Any]) -> Any:
    if isinstance(several[0], list):
        return [np.concatenate(some) for some in zip(*several, strict=True)]
    return np.concatenate(several)
