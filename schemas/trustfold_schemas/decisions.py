"""Questions and verdicts of the policy (SPEC 5): what is asked and answered, on what grounds.

Instants are microseconds since 1970; shares that were set are in ppm, those that are shown are
floats, made once from exact integers. The rules are in `trustfold_projections.laws.policy`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta, Struct

from trustfold_schemas.amounts import PPM
from trustfold_schemas.errors import ActionError
from trustfold_schemas.events import Id, Reversibility
from trustfold_schemas.subject import NAME_MAX, Subject, subject_of

VerdictName = Literal["allow", "approve_required"]
ModeName = Literal["shadow", "enforce"]

BANDS: Final[tuple[Reversibility, ...]] = (
    "reversible",
    "reversible_with_cost",
    "irreversible",
)
"""The reversibilities, each stricter than the one before."""


class ReasonCode(StrEnum):
    """Why a verdict is what it is: a closed enumeration, the gravest first.

    A verdict names all that apply in this order; its `reason` is the first. Up to `no_history`
    they are rules, which no number outweighs.
    """

    RESERVED_TOOL = "reserved_tool"
    """The subject counts whole traces; it is no actor, so it may do nothing."""
    IRREVERSIBLE = "irreversible"
    """The registry or the caller says that the effect cannot be taken back."""
    UNKNOWN_REVERSIBILITY = "unknown_reversibility"
    """The caller does not say how far the effect can be taken back."""
    UNDECLARED_EFFECT = "undeclared_effect"
    """No declaration of the registry matches the effect."""
    REVOKED = "revoked"
    """A revocation in force matches the subject."""
    CAPPED = "capped"
    """A threshold that matches the effect, in any band, caps autonomy."""
    STALE = "stale"
    """The table is not known to be caught up within the last 60 seconds."""
    CORRUPT = "corrupt"
    """The stored score contradicts itself, so no trust may rest on it."""
    BRAKED = "braked"
    """A denial, undo, violation or exclusion is less than 24 hours old, or not yet outlived by a
    human grant."""
    NO_HISTORY = "no_history"
    """No trace of the subject is counted."""
    SCORE_TOO_LOW = "score_too_low"
    """The score, without self-play, is below the threshold's."""
    TOO_FEW_SAMPLES = "too_few_samples"
    """The effective samples are fewer than the threshold's."""
    TOO_FEW_GRANTS = "too_few_grants"
    """The effective grants are fewer than the threshold's."""
    APPROVAL_RATE_TOO_LOW = "approval_rate_too_low"
    """Humans decided, and granted a smaller share than the threshold's."""
    SPOT_CHECK = "spot_check"
    """It would be promoted, and is asked all the same, so that human evidence does not starve."""
    SHADOW = "shadow"
    """It would be promoted, but the mode is `shadow`."""
    PROMOTED = "promoted"
    """The threshold is met and no rule forbids it: may act without asking."""


class Action(Struct, frozen=True, gc=False):
    """What an agent is about to do. `reversibility` is its own word, None where it has none."""

    subject: Subject
    reversibility: Reversibility | None
    trace_id: Id
    step_id: Id
    args_fingerprint: Annotated[str, Meta(max_length=NAME_MAX)] | None = None


def action_of(said: Mapping[str, Any]) -> Action:
    """An action from what a caller says; absent reversibility is unknown. Raises ActionError.

    `subject` is (scope, tool, effect), or (tool, effect), which means scope "".
    """
    subject = said.get("subject")
    if isinstance(subject, (list, tuple)):
        subject = subject_of(*cast("Sequence[str]", subject))
    try:
        return msgspec.convert({"reversibility": None, **said, "subject": subject}, Action)
    except msgspec.ValidationError as error:
        raise ActionError(f"this is no action: {error}") from None


class Threshold(Struct, frozen=True, gc=False):
    """What a subject must reach to be promoted; shares in ppm.

    `effect` is the glob it was set for, None where it is the default of its band. `version` is
    the number of sets and removals of this (effect, band), 0 for a default.
    """

    risk_band: Reversibility
    min_score: int
    min_samples: int
    min_grants: int
    min_approval_rate: int
    cap_autonomy: Literal["approve_required"] | None = None
    effect: str | None = None
    version: int = 0


class TrustThreshold(Struct, frozen=True, gc=False):
    """A threshold as the seed's callers read it: of one effect class, shares from 0 to 1."""

    effect_class: str
    risk_band: Reversibility
    min_score: float
    min_samples: int
    min_grants: int
    min_approval_rate: float
    cap_autonomy: Literal["approve_required"] | None = None

    @classmethod
    def of(cls, effect_class: str, threshold: Threshold) -> TrustThreshold:
        """A threshold in force, for one effect class."""
        return cls(
            effect_class,
            threshold.risk_band,
            threshold.min_score / PPM,
            threshold.min_samples,
            threshold.min_grants,
            threshold.min_approval_rate / PPM,
            threshold.cap_autonomy,
        )


class Part(Struct, frozen=True, gc=False):
    """One component of raw_score: term = share * value, of undo_rate share * (1 - value)."""

    component: str
    value: float
    share: float
    term: float


class Verdict(Struct, frozen=True, gc=False):
    """The answer to one action at the moment `at`, with all that it rested on.

    `would_be` is what it would be in the mode `enforce` without a spot check. `reversibility` is
    the one in force, the stricter of the registry's and the caller's. The threshold is the one
    to be met, the strictest where several bands must be. `version` and `digest` say which state
    it was: so many entries of the subject, and what they fold to; the score leaves self-play out.
    `missing` says in words what a promotion lacks, and is empty where nothing is.
    """

    verdict: VerdictName
    would_be: VerdictName
    via: Literal["trust_promoted"] | None
    reason: ReasonCode
    reasons: tuple[ReasonCode, ...]
    missing: str
    at: int
    subject: Subject
    reversibility: Reversibility | None
    declared_by: str | None
    threshold: Threshold | None
    parts: tuple[Part, ...]
    raw_score: float
    freshness: float
    score: float
    n_samples: int
    effective_samples: float
    effective_grants: float
    human_coverage: float
    last_updated: int | None
    last_bad_at: int | None
    last_grant_at: int | None
    digest: str | None
    version: int
    formula: str
    mode: ModeName
    policy_version: int


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """A verdict that was recorded before it was given, and the action that it answers.

    `position` is its place in the log of decisions. `stale` is why the table was not known to be
    caught up, `owed_to` the earlier decision whose spot check still waited for its answer.
    """

    decision_id: str
    recorded: int
    position: int
    action: Action
    verdict: Verdict
    stale: str | None = None
    owed_to: str | None = None
