"""The seed's `TrustStore.update`, transcribed line by line: the oracle of the formula `elapsed/1`.

It computes with `datetime` and `**`, as the seed does, so its last bits are this machine's. Only
what SPEC 4 guards differs: the first sample has full weight, elapsed time is never negative, a
signal that is not there leaves its component alone. Nothing here may import the product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

Subject = tuple[str, str, str]


@dataclass
class TrustScore:
    """The seed's mutable score; its components start where the product shows no evidence."""

    tool_success: float = 0.0
    human_approval_rate: float = 0.5
    cost_efficiency: float = 0.5
    constitution_clean: float = 0.5
    undo_rate: float = 0.0
    score: float = 0.0
    n_samples: int = 0
    last_updated: datetime | None = None


@dataclass
class SeedStore:
    """The seed's store: scores by subject, moved by `update`."""

    scores: dict[Subject, TrustScore] = field(default_factory=dict)

    def update(self, subject: Subject, signals: Mapping[str, float], now: datetime) -> None:
        """EMA update with Ebbinghaus decay, half-life 30 days."""
        score = self.scores.setdefault(subject, TrustScore())
        if score.last_updated is None:
            alpha = 0.0  # guard: the first sample has full weight
        else:
            dt_days = (now - score.last_updated).total_seconds() / 86400
            dt_days = max(0.0, dt_days)  # guard: elapsed time is never negative
            alpha = 0.5 ** (dt_days / 30.0)
        fresh_weight = 1 - alpha

        # human_approval_delta is always there: 0.5 if there was no approval.
        score.human_approval_rate = (
            score.human_approval_rate * alpha + signals["human_approval_delta"] * fresh_weight
        )
        if "tool_success" in signals:
            score.tool_success = score.tool_success * alpha + signals["tool_success"] * fresh_weight
        if "cost_efficiency" in signals:
            score.cost_efficiency = (
                score.cost_efficiency * alpha + signals["cost_efficiency"] * fresh_weight
            )
        if "constitution_clean" in signals:
            score.constitution_clean = (
                score.constitution_clean * alpha + signals["constitution_clean"] * fresh_weight
            )
        if "undo_flag" in signals:
            score.undo_rate = score.undo_rate * alpha + signals["undo_flag"] * fresh_weight
        score.score = (
            0.30 * score.tool_success
            + 0.25 * score.human_approval_rate
            + 0.20 * score.cost_efficiency
            + 0.15 * score.constitution_clean
            + 0.10 * (1 - score.undo_rate)
        )
        score.n_samples += 1
        score.last_updated = now
