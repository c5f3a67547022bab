"""What a verification comes to: the differences it found, each under the proof that it breaks."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from trustfold_schemas.errors import TrustfoldError
from trustfold_schemas.instants import format_instant
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import rows

FINDINGS_MAX = 1_000
"""More differences than this are counted, not named."""

UNREADABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TrustfoldError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
"""What a damaged row may raise on its way through laws that were made for sound ones."""


class Finding(Struct, frozen=True):
    """One difference: which proof it breaks, where, and what stands against what."""

    proof: str
    where: str
    difference: str


class Report(Struct, kw_only=True):
    """The outcome of a verification."""

    facts: int = 0
    entries: int = 0
    subjects: int = 0
    traces: int = 0
    thresholds: int = 0
    decisions: int = 0
    dead_letters: int = 0
    head: str = rows.GENESIS.hex()
    anchor: str | None = None
    findings: list[Finding] = msgspec.field(default_factory=list)
    findings_unnamed: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def found(self, proof: str, where: str, difference: str) -> None:
        """Add a difference."""
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(proof, _printable(where), _printable(difference)))
        else:
            self.findings_unnamed += 1

    def unreadable(self, proof: str, where: str, error: Exception) -> None:
        """Add a row that no law can read."""
        self.found(proof, where, f"cannot be read: {type(error).__name__}: {error}")


def moment_named(moment: object) -> str:
    """An instant for people; whatever else stands in its place as it is."""
    try:
        return format_instant(moment)  # type: ignore[arg-type]
    except (OverflowError, TypeError):
        return f"{moment!r} (no moment of the calendar)"


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


def _printable(text: str) -> str:
    """Text that can be written as UTF-8, whatever bytes it came from."""
    return text.encode(errors="backslashreplace").decode()
