"""The policy (SPEC 5): globs, thresholds, the brake, the registry in force, and the decision."""

from __future__ import annotations

from trustfold_projections.laws.policy.brake import BRAKE_LASTS, Brake, brake_of
from trustfold_projections.laws.policy.decision import decide
from trustfold_projections.laws.policy.globs import GlobIndex, matches, rank
from trustfold_projections.laws.policy.lookup import TrustThresholdRegistry
from trustfold_projections.laws.policy.registry import (
    Mode,
    Policy,
    PolicyLog,
    SetThreshold,
    policy_of,
)
from trustfold_projections.laws.policy.revocations import Revocation
from trustfold_projections.laws.policy.rulings import Declaration, Ruling, SaidBy
from trustfold_projections.laws.policy.thresholds import DEFAULTS, shortfalls, stricter, strictest

__all__ = [
    "BRAKE_LASTS",
    "DEFAULTS",
    "Brake",
    "Declaration",
    "GlobIndex",
    "Mode",
    "Policy",
    "PolicyLog",
    "Revocation",
    "Ruling",
    "SaidBy",
    "SetThreshold",
    "TrustThresholdRegistry",
    "brake_of",
    "decide",
    "matches",
    "policy_of",
    "rank",
    "shortfalls",
    "stricter",
    "strictest",
]
