"""What a verification of a file comes to, and how it names what it found."""

from __future__ import annotations

from trustfold_schemas.findings import Findings
from trustfold_schemas.instants import format_instant
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows


class Report(Findings, kw_only=True):
    """The outcome of a verification.

    `anchored` says whether the anchor is a head that one of the two chains ever had, facts and
    decisions; None where no anchor was given.
    """

    facts: int = 0
    entries: int = 0
    subjects: int = 0
    traces: int = 0
    thresholds: int = 0
    decisions: int = 0
    dead_letters: int = 0
    head: str = rows.GENESIS.hex()
    decisions_head: str = rows.GENESIS.hex()
    anchor: str | None = None
    anchored: bool | None = None

    def passed(self, head: object) -> None:
        """A chain had this head: it may be the anchor."""
        if self.anchor is not None and head_named(head) == self.anchor:
            self.anchored = True

    def unreadable(self, proof: str, where: str, error: Exception) -> None:
        """Add a row that no law can read."""
        self.found(proof, where, f"cannot be read: {type(error).__name__}: {error}")


def moment_named(moment: object) -> str:
    """An instant for people; whatever else stands in its place as it is."""
    try:
        return format_instant(moment)  # type: ignore[arg-type]
    except (OverflowError, TypeError):
        return f"{moment!r} (no moment of the calendar)"


def head_named(head: object) -> str:
    """A head of a chain for people; whatever else stands in its place as it is."""
    return head.hex() if isinstance(head, bytes) else f"{head!r} (no head of a chain)"


def subject_named(subject: Subject) -> str:
    """A subject's key; that of a damaged one as far as it can be written."""
    try:
        return subject.key.decode()
    except UnicodeEncodeError:
        return repr(tuple(subject))


def difference(stored: rows.Row, expected: rows.Row, names: tuple[str, ...]) -> str:
    """What two rows of the same columns differ in."""
    return "; ".join(
        f"{name} is {s!r}, the facts give {e!r}"
        for name, s, e in zip(names, stored, expected, strict=True)
        if s != e
    )
