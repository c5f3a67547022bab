"""Ledger entries: everything that ever moved a score, one frozen struct an entry (SPEC 4)."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Struct

from trustfold_schemas.subject import Subject

FORMULA: Final = "ewm/1"
"""The law of the table; an entry says which law its amounts were made for."""

COMPONENTS: Final = (
    "tool_success",
    "human_approval_rate",
    "cost_efficiency",
    "constitution_clean",
    "undo_rate",
)
"""The order of amounts, weights and sums."""

TOOL_SUCCESS, HUMAN_APPROVAL_RATE, COST_EFFICIENCY, CONSTITUTION_CLEAN, UNDO_RATE = range(5)

Kind = Literal[
    "evidence", "correction", "brake", "self_play", "initial", "rollback", "rollback_lifted"
]

Five = tuple[int, int, int, int, int]
"""One number a component."""

ZEROS: Final[Five] = (0, 0, 0, 0, 0)


class Entry(Struct, frozen=True, gc=False, kw_only=True):
    """One entry of the ledger.

    Instants are microseconds since 1970. `amounts` (ppm) and `weights` are signed and not yet
    weighted by time; a weight of 0 means an amount of 0. `chain` are the recorded moments of the
    evidence and corrections so far of this trace and subject, this entry's own included; of any
    other kind its own alone. `revision` counts the entries of this trace and subject from 1.
    `self_play` is (amount, weight). `to` is where a rollback goes back to, `lifts` the event id
    of the rollback that a `rollback_lifted` takes away.
    """

    kind: Kind
    subject: Subject
    trace_id: str | None
    event_id: str
    source: str
    occurred: int
    recorded: int
    chain: tuple[int, ...]
    revision: int = 1
    amounts: Five = ZEROS
    weights: Five = ZEROS
    n_samples: int = 0
    self_play: tuple[int, int] | None = None
    bad_at: int | None = None
    grant_at: int | None = None
    clean: bool = False
    median_usd: int | None = None
    to: int | None = None
    lifts: str | None = None
    formula: str = FORMULA

    @property
    def entry_id(self) -> str:
        """The entry's name: the compact JSON array of what it is derived from.

        `[trace, scope, tool, effect, revision]`, without a trace
        `[source, event, scope, tool, effect]`.
        """
        made_of: tuple[object, ...] = (
            (self.source, self.event_id, *self.subject)
            if self.trace_id is None
            else (self.trace_id, *self.subject, self.revision)
        )
        return msgspec.json.encode(made_of).decode()
