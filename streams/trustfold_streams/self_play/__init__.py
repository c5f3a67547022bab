"""Self-play: two neurons answer, a critic that is neither says which answer is better (SPEC 6).

The law of the weights is in `laws.self_play`; here is who runs a self-play, and through which
ports. A result is published as an event, and moves weights and scores like any other.
"""

from __future__ import annotations

from trustfold_streams.self_play.coordinator import Limits, SelfPlayCoordinator, SelfPlayResult
from trustfold_streams.self_play.declared import DeclaredEffects
from trustfold_streams.self_play.errors import CriticError, SelfPlaySkipped
from trustfold_streams.self_play.ports import Budget, Critic, Effects, Judgement, Neurons, Weights
from trustfold_streams.self_play.purse import Purse

__all__ = [
    "Budget",
    "Critic",
    "CriticError",
    "DeclaredEffects",
    "Effects",
    "Judgement",
    "Limits",
    "Neurons",
    "Purse",
    "SelfPlayCoordinator",
    "SelfPlayResult",
    "SelfPlaySkipped",
    "Weights",
]
