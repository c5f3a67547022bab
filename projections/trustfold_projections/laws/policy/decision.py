"""The decision: (state, policy, action, now) to a verdict with its grounds (SPEC 5).

Pure, so that anybody who has the four can say it again years later. Rules come before numbers:
what a rule forbids, no score allows. Whatever the caller says can only make it stricter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from trustfold_projections.laws.policy.brake import brake_of
from trustfold_projections.laws.policy.registry import Policy
from trustfold_projections.laws.policy.thresholds import Shortfall, shortfalls
from trustfold_projections.laws.scoring import (
    RAW_SCORE_WEIGHTS,
    freshness_of,
    raw_score_of,
    values_of,
)
from trustfold_projections.laws.time_weights import ZERO, g
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import Action, Part, ReasonCode, Threshold, Verdict
from trustfold_schemas.errors import ThresholdNotFoundError
from trustfold_schemas.events import Reversibility
from trustfold_schemas.ledger import COMPONENTS, FORMULA, HUMAN_APPROVAL_RATE, UNDO_RATE
from trustfold_schemas.scores import Corrupt, State, content_digest
from trustfold_schemas.subject import Subject

Lacks = list[Shortfall]


def decide(
    state: State | Corrupt | None,
    policy: Policy,
    action: Action,
    now: int,
    *,
    decision_id: str | None = None,
    stale: str | None = None,
    spot_checked: bool = False,
    digest: str | None = None,
) -> Verdict:
    """Say whether an action may go without asking.

    `state` is the subject's, None if nothing ever touched it, Corrupt if it may not be used.
    `stale` says why the table is not known to be caught up, None if it is. With a `decision_id`
    it is hashed for the spot check; `spot_checked` says that the trace owes the answer to an
    earlier one. `digest` is the state's own, where the caller has it already.
    """
    subject = action.subject
    reversibility, threshold, lacks = _by_the_registry(policy, action)
    if stale is not None:
        lacks.append(Shortfall(ReasonCode.STALE, stale))
    if isinstance(state, Corrupt):
        lacks.append(Shortfall(ReasonCode.CORRUPT, f"a sound record of its score: {state.error}"))
        known = None
    else:
        known = state
        _by_history(known or State(subject=subject), threshold, now, lacks)
    would_be = not lacks
    if would_be and policy.mode.mode == "shadow":
        lacks.append(Shortfall(ReasonCode.SHADOW, ""))
    elif would_be and (spot_checked or _is_spot_check(decision_id, policy.mode.spot_check_one_in)):
        lacks.append(Shortfall(ReasonCode.SPOT_CHECK, "a person's answer to a spot check"))
    return _verdict(
        known,
        policy,
        action,
        now,
        lacks,
        threshold,
        reversibility,
        would_be=would_be,
        digest=digest,
    )


def _by_the_registry(
    policy: Policy, action: Action
) -> tuple[Reversibility | None, Threshold | None, Lacks]:
    """What the policy says of subject and effect before anything is known of its history."""
    subject, said, lacks = action.subject, action.reversibility, Lacks()
    threshold: Threshold | None = None
    reversibility: Reversibility | None = None
    ruling = policy.ruling(subject.effect)
    declared = ruling.declaration
    if subject.is_global:
        lacks.append(
            Shortfall(ReasonCode.RESERVED_TOOL, f"a tool: `{subject.tool}` counts whole traces")
        )
    if said == "irreversible" or (
        declared is not None and declared.reversibility == "irreversible"
    ):
        lacks.append(Shortfall(ReasonCode.IRREVERSIBLE, "what cannot be undone is always asked"))
    if said is None:
        lacks.append(
            Shortfall(
                ReasonCode.UNKNOWN_REVERSIBILITY, "the caller's word how far it can be taken back"
            )
        )
    try:
        # Of a caller who does not know, the worst is supposed.
        threshold = policy.for_effect(subject.effect, said or "irreversible")
        reversibility = None if said is None else policy.in_force(subject.effect, said)
    except ThresholdNotFoundError:
        lacks.append(
            Shortfall(
                ReasonCode.UNDECLARED_EFFECT, "a declaration of how far the effect can be undone"
            )
        )
    revoked = policy.revoked_by(subject)
    if revoked:
        names = ", ".join(one.revocation_id for one in revoked)
        lacks.append(Shortfall(ReasonCode.REVOKED, f"a reinstatement of {names}"))
    for cap in ruling.capped_by:
        words = f"the end of the cap on {cap.effect} ({cap.risk_band})"
        lacks.append(Shortfall(ReasonCode.CAPPED, words))
    return reversibility, threshold, lacks


def _by_history(state: State, threshold: Threshold | None, now: int, lacks: Lacks) -> None:
    """What a subject's own past leaves to be desired."""
    brake = brake_of(state.last_bad_at, state.last_grant_at, now)
    if brake is not None:
        lacks.append(Shortfall(ReasonCode.BRAKED, brake.sentence(now)))
    if state.n_samples == 0:
        lacks.append(Shortfall(ReasonCode.NO_HISTORY, "a first trace"))
    if threshold is not None:
        lacks += shortfalls(state, threshold, now)


def _is_spot_check(decision_id: str | None, one_in: int) -> bool:
    if decision_id is None or one_in == 0:
        return False
    hashed = hashlib.sha256(decision_id.encode()).digest()
    return int.from_bytes(hashed[:8], "big") % one_in == 0


def _verdict(
    state: State | None,
    policy: Policy,
    action: Action,
    now: int,
    lacks: Sequence[Shortfall],
    threshold: Threshold | None,
    reversibility: Reversibility | None,
    *,
    would_be: bool,
    digest: str | None,
) -> Verdict:
    declared = policy.ruling(action.subject.effect).declaration
    reasons = tuple(dict.fromkeys(lack.reason for lack in lacks)) or (ReasonCode.PROMOTED,)
    allowed = not lacks
    shown = state if state is not None else _nothing(action.subject)
    values = values_of(shown, self_play=False)
    raw_score = raw_score_of(values)
    freshness = freshness_of(shown.last_updated, now)
    weight = g(max(now, ZERO))
    decided, samples = shown.den[HUMAN_APPROVAL_RATE], shown.den[UNDO_RATE]
    return Verdict(
        verdict="allow" if allowed else "approve_required",
        would_be="allow" if would_be else "approve_required",
        via="trust_promoted" if allowed else None,
        reason=reasons[0],
        reasons=reasons,
        missing="; ".join(lack.words for lack in lacks if lack.words),
        at=now,
        subject=action.subject,
        reversibility=reversibility,
        declared_by=None if declared is None else declared.effect,
        threshold=threshold,
        parts=tuple(
            Part(name, value, share, share * (1 - value if c == UNDO_RATE else value))
            for c, (name, value, share) in enumerate(
                zip(COMPONENTS, values, RAW_SCORE_WEIGHTS, strict=True)
            )
        ),
        raw_score=raw_score,
        freshness=freshness,
        score=raw_score * freshness,
        n_samples=shown.n_samples,
        effective_samples=samples / weight,
        effective_grants=shown.num[HUMAN_APPROVAL_RATE] / (PPM * weight),
        human_coverage=decided / samples if samples else 0.0,
        last_updated=shown.last_updated,
        last_bad_at=shown.last_bad_at,
        last_grant_at=shown.last_grant_at,
        digest=None if state is None else digest or content_digest(state),
        version=shown.version,
        formula=FORMULA,
        mode=policy.mode.mode,
        policy_version=policy.version,
    )


def _nothing(subject: Subject) -> State:
    return State(subject=subject)
