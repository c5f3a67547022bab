"""Drift of any store: who moved most over a window, and the evidence that moved them."""

from __future__ import annotations

from msgspec import Struct

from trustfold_projections.laws.dashboard import By, Mover, known_at, moved_by, movers
from trustfold_projections.laws.explanation import Movement
from trustfold_projections.laws.fold import refold
from trustfold_streams.store_port import Store


class Moved(Struct, frozen=True):
    """A mover, and the entries that moved it most, the strongest first."""

    mover: Mover
    evidence: tuple[Movement, ...]


def read_drift(
    store: Store,
    start: int,
    end: int,
    top: int = 10,
    evidence: int = 3,
    by: By = "recorded",
) -> list[Moved]:
    """The top movers of (start, end]. Raises NotSettledError.

    By `recorded` it reads the table as of both moments, and the ledgers of the movers alone; by
    `occurred`, for history that was imported at once, the ledgers of all.
    """
    if by == "recorded":
        before, after = store.states_as_of(start), store.states_as_of(end)
    else:
        ledgers = {state.subject: store.entries(state.subject) for state in store.states()}
        before = [refold(one, known_at(entries, start, by)) for one, entries in ledgers.items()]
        after = [refold(one, known_at(entries, end, by)) for one, entries in ledgers.items()]
    return [
        Moved(
            one,
            tuple(moved_by(one.subject, store.entries(one.subject), start, end, evidence, by)),
        )
        for one in movers(before, after, top)
    ]
