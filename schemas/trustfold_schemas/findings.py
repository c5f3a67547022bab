"""What a verification comes to: the differences it found, each under the proof that it breaks."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from trustfold_schemas.errors import TrustfoldError

FINDINGS_MAX: Final = 1_000
"""More differences than this are counted, not named."""

UNREADABLE: Final = (
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


class Findings(Struct, kw_only=True):
    """The differences that were found, so far as they are named."""

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


def _printable(text: str) -> str:
    """Text that can be written as UTF-8, whatever bytes it came from."""
    return text.encode(errors="backslashreplace").decode()
