"""What ends a self-play early.

TrustfoldError
|-- SelfPlaySkipped    no fault: it was decided not to play, or the critic gave nothing usable
`-- CriticError        raised by a critic of the user's, to say what its failure cost
"""

from __future__ import annotations

from trustfold_projections.laws.self_play import SkippedVia
from trustfold_schemas.errors import TrustfoldError


class SelfPlaySkipped(TrustfoldError):
    """No self-play took place; the runtime takes the neuron of the greatest weight (the seed's).

    `via` is the reason, `cost` what the critic cost all the same, in micro-USD.
    """

    def __init__(self, via: SkippedVia, detail: str, cost: int = 0) -> None:
        super().__init__(f"{via}: {detail}")
        self.via: SkippedVia = via
        self.detail = detail
        self.cost = cost


class CriticError(TrustfoldError):
    """The critic failed; `cost` is what that cost, in micro-USD."""

    def __init__(self, detail: str, cost: int) -> None:
        super().__init__(detail)
        self.cost = cost
