"""Drift of any store: who moved most over a window, and the evidence that moved them."""

from __future__ import annotations

from msgspec import Struct

from trustfold_projections.laws.dashboard import Mover, moved_by, movers
from trustfold_projections.laws.explanation import Movement
from trustfold_streams.store_port import Store


class Moved(Struct, frozen=True):
    """A mover, and the entries that moved it most, the strongest first."""

    mover: Mover
    evidence: tuple[Movement, ...]


def read_drift(store: Store, start: int, end: int, top: int = 10, evidence: int = 3) -> list[Moved]:
    """The top movers from `start` to `end`, as recorded. Raises NotSettledError.

    Reads the table as of both moments, and the ledgers of the movers alone.
    """
    before, after = store.states_as_of(start), store.states_as_of(end)
    return [
        Moved(one, tuple(moved_by(one.subject, store.entries(one.subject), start, end, evidence)))
        for one in movers(before, after, top)
    ]
