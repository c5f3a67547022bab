"""The seed's TrustThresholdRegistry: which threshold an effect has, in shares from 0 to 1."""

from __future__ import annotations

from trustfold_projections.laws.policy.registry import Policy
from trustfold_schemas.decisions import TrustThreshold
from trustfold_schemas.events import Reversibility


class TrustThresholdRegistry:
    """The thresholds of a policy, as it stood when this was made."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def for_effect(self, effect_class: str, reversibility: Reversibility) -> TrustThreshold:
        """What a subject must reach; the irreversible has min_score 1.0 and is never promoted.

        The stricter of the registry's reversibility and the caller's is in force. Raises
        ThresholdNotFoundError for an effect that no declaration matches: never promote.
        """
        made = self.policy.for_effect(effect_class, reversibility)
        return TrustThreshold.of(effect_class, made)
