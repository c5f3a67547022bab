"""What a dashboard shows of the table: who moved over a window and by what, and who only pleases.

Two tables as of two moments go in; which entries moved a subject comes from its ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from trustfold_projections.laws.explanation import Movement, explain
from trustfold_projections.laws.scoring import raw_score_of, values_of
from trustfold_schemas.ledger import HUMAN_APPROVAL_RATE, TOOL_SUCCESS, Entry
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject

PLEASING: Final = 0.8
FAILING: Final = 0.5
FEW: Final = 5
"""A flatterer is approved at least so often, succeeds at most so often, and has so many traces."""

By = Literal["recorded", "occurred"]
"""Which moment of an entry decides whether it lies in a window."""

_ROLLBACKS = frozenset({"rollback", "rollback_lifted"})


class Mover(Struct, frozen=True, kw_only=True):
    """A subject whose raw_score changed over a window. `is_new`: it had no samples before it."""

    subject: Subject
    before: float
    after: float
    samples: int
    is_new: bool

    @property
    def change(self) -> float:
        """How far it moved, up or down."""
        return self.after - self.before


class Flatterer(Struct, frozen=True, kw_only=True):
    """A subject that people approve and that fails all the same: the seed's sycophancy loop."""

    subject: Subject
    human_approval_rate: float
    tool_success: float
    n_samples: int


def movers(before: Iterable[State], after: Iterable[State], top: int) -> list[Mover]:
    """The subjects that moved most between two tables, up or down; the known before the new."""
    earlier = {state.subject: state for state in before}
    found: list[Mover] = []
    for state in after:
        known = earlier.get(state.subject, State(subject=state.subject))
        one = Mover(
            subject=state.subject,
            before=raw_score_of(values_of(known)),
            after=raw_score_of(values_of(state)),
            samples=state.n_samples - known.n_samples,
            is_new=known.n_samples == 0,
        )
        if one.before != one.after:
            found.append(one)
    return sorted(found, key=lambda one: (one.is_new, -abs(one.change), one.subject))[:top]


def moved_by(
    subject: Subject, entries: Sequence[Entry], start: int, end: int, most: int, by: By = "recorded"
) -> list[Movement]:
    """The entries of (start, end] that moved a subject most, the strongest first.

    `entries` is its ledger, in log order. A rollback moves by what it takes out, so it comes first
    of all, whatever its own movement is.
    """
    known = known_at(entries, end, by)
    said = explain(subject, known, end, len(known))
    inside = [one for one in said.movements if _moment(one.entry, by) > start]
    moved = [one for one in inside if one.before != one.after or one.entry.kind in _ROLLBACKS]
    return sorted(
        moved,
        key=lambda one: (one.entry.kind not in _ROLLBACKS, -abs(one.after - one.before)),
    )[:most]


def known_at(entries: Sequence[Entry], moment: int, by: By) -> list[Entry]:
    """The entries up to a moment, in the order of those moments.

    By `recorded` that is what was known then; by `occurred` what is known now of what was then,
    rollbacks in force included whenever they came.
    """
    if by == "recorded":
        return [entry for entry in entries if entry.recorded <= moment]
    found = [one for one in entries if one.kind in _ROLLBACKS or one.occurred <= moment]
    return sorted(found, key=lambda entry: entry.occurred)


def _moment(entry: Entry, by: By) -> int:
    return entry.recorded if by == "recorded" else entry.occurred


def flatterers(
    states: Iterable[State],
    pleasing: float = PLEASING,
    failing: float = FAILING,
    few: int = FEW,
) -> list[Flatterer]:
    """The subjects that people approve although they fail, the widest gap first.

    Self-play is left out of tool_success: what a critic likes is no result.
    """
    found: list[Flatterer] = []
    for state in states:
        if state.subject.is_global:
            continue  # it pleases and fails by the steps of all the others
        values = values_of(state, self_play=False)
        asked, executed = state.den[HUMAN_APPROVAL_RATE], state.den[TOOL_SUCCESS]
        rate, success = values[HUMAN_APPROVAL_RATE], values[TOOL_SUCCESS]
        if (
            asked
            and executed
            and state.n_samples >= few
            and rate >= pleasing
            and success <= failing
        ):
            found.append(
                Flatterer(
                    subject=state.subject,
                    human_approval_rate=rate,
                    tool_success=success,
                    n_samples=state.n_samples,
                )
            )
    return sorted(found, key=lambda one: (one.tool_success - one.human_approval_rate, one.subject))
