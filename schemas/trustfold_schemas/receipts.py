"""What goes into an ingest and what comes out: documents, receipts, and their sum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from trustfold_schemas.dead_letters import Reason

Counted = Literal["accepted", "duplicates", "conflicts", "dead_letters"]


class Document(Struct, frozen=True, gc=False):
    """Bytes to ingest, and where they came from (a file and line, a topic and offset)."""

    body: bytes
    origin: str


class Receipt(Struct, frozen=True, gc=False):
    """What became of one document. `recorded` is its moment in the log, if it is in the log."""

    counted: Counted
    recorded: int | None = None
    reason: Reason | None = None
    detail: str | None = None


class Summary(Struct, kw_only=True):
    """What became of the documents of an ingest, each counted once."""

    accepted: int = 0
    duplicates: int = 0
    conflicts: int = 0
    dead_letters: int = 0

    def count(self, receipts: Iterable[Receipt]) -> None:
        """Add a batch."""
        for receipt in receipts:
            setattr(self, receipt.counted, getattr(self, receipt.counted) + 1)

    @property
    def total(self) -> int:
        """All documents counted."""
        return sum(msgspec.structs.astuple(self))
