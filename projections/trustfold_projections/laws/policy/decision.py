"""The decision: (state, policy, action, now) to a verdict with its grounds (SPEC 5).

Pure, so that anybody who has the four can say it again years later. Rules come before numbers:
what a rule forbids, no score allows. Whatever the caller says can only make it stricter.
"""

from __future__ import annotations

import hashlib

from trustfold_projections.laws.policy.brake import brake_of
from trustfold_projections.laws.policy.registry import Policy, Ruling
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
from trustfold_schemas.ledger import COMPONENTS, FORMULA, HUMAN_APPROVAL_RATE, UNDO_RATE
from trustfold_schemas.scores import Corrupt, State, content_digest

Lacks = list[Shortfall]

_ALWAYS_ASKED = Shortfall(ReasonCode.IRREVERSIBLE, "what cannot be undone is always asked")
_UNKNOWN = Shortfall(
    ReasonCode.UNKNOWN_REVERSIBILITY, "the caller's word how far it can be taken back"
)
_UNDECLARED = Shortfall(
    ReasonCode.UNDECLARED_EFFECT, "a declaration of how far the effect can be undone"
)
_FIRST_TRACE = Shortfall(ReasonCode.NO_HISTORY, "a first trace")
_SHADOW = Shortfall(ReasonCode.SHADOW, "")
_SPOT_CHECK = Shortfall(ReasonCode.SPOT_CHECK, "a person's answer to a spot check")


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
    `stale` says why the table is not known to be caught up, None if it is. A `decision_id` is
    hashed for the spot check; `spot_checked` says that an earlier one still waits for its answer.
    `digest` is the state's own, where the caller has it already.
    """
    subject, said = action.subject, action.reversibility
    ruling = policy.ruling(subject.effect)
    # Of a caller who does not know how far it can be taken back, the worst is supposed.
    threshold = ruling.threshold.get(said or "irreversible")
    lacks = _by_the_registry(policy, ruling, action)
    if stale is not None:
        lacks.append(Shortfall(ReasonCode.STALE, stale))
    known = State(subject=subject) if state is None or isinstance(state, Corrupt) else state
    values = values_of(known, self_play=False)
    raw_score = raw_score_of(values)
    freshness = freshness_of(known.last_updated, now)
    score = raw_score * freshness
    if isinstance(state, Corrupt):
        lacks.append(Shortfall(ReasonCode.CORRUPT, f"a sound record of its score: {state.error}"))
    else:
        _by_history(known, threshold, now, score, lacks)
    would_be = not lacks
    if would_be:
        _by_the_mode(policy, decision_id, lacks, spot_checked=spot_checked)
    weight = g(max(ZERO, now))
    decided, samples = known.den[HUMAN_APPROVAL_RATE], known.den[UNDO_RATE]
    reasons, missing = _in_words(lacks)
    return Verdict(
        verdict="approve_required" if lacks else "allow",
        would_be="allow" if would_be else "approve_required",
        via=None if lacks else "trust_promoted",
        reason=reasons[0],
        reasons=reasons,
        missing=missing,
        at=now,
        subject=subject,
        reversibility=None if said is None else ruling.in_force.get(said),
        declared_by=None if ruling.declaration is None else ruling.declaration.effect,
        threshold=threshold,
        parts=_parts(values),
        raw_score=raw_score,
        freshness=freshness,
        score=score,
        n_samples=known.n_samples,
        effective_samples=samples / weight,
        effective_grants=known.num[HUMAN_APPROVAL_RATE] / (PPM * weight),
        human_coverage=decided / samples if samples else 0.0,
        last_updated=known.last_updated,
        last_bad_at=known.last_bad_at,
        last_grant_at=known.last_grant_at,
        digest=(digest or content_digest(known)) if known is state else None,
        version=known.version,
        formula=FORMULA,
        mode=policy.mode.mode,
        policy_version=policy.version,
    )


def _by_the_registry(policy: Policy, ruling: Ruling, action: Action) -> Lacks:
    """What the policy says of subject and effect before anything is known of their history."""
    subject, said, declared = action.subject, action.reversibility, ruling.declaration
    lacks: Lacks = []
    if subject.is_global:
        lacks.append(
            Shortfall(ReasonCode.RESERVED_TOOL, f"a tool: `{subject.tool}` counts whole traces")
        )
    if said == "irreversible" or (
        declared is not None and declared.reversibility == "irreversible"
    ):
        lacks.append(_ALWAYS_ASKED)
    if said is None:
        lacks.append(_UNKNOWN)
    if declared is None:
        lacks.append(_UNDECLARED)
    if policy.revocations and (revoked := policy.revoked_by(subject)):
        names = ", ".join(one.revocation_id for one in revoked)
        lacks.append(Shortfall(ReasonCode.REVOKED, f"a reinstatement of {names}"))
    for cap in ruling.capped_by:
        words = f"the end of the cap on {cap.effect} ({cap.risk_band})"
        lacks.append(Shortfall(ReasonCode.CAPPED, words))
    return lacks


def _by_history(
    state: State, threshold: Threshold | None, now: int, score: float, lacks: Lacks
) -> None:
    """What a subject's own past leaves to be desired."""
    if state.last_bad_at is not None:
        brake = brake_of(state.last_bad_at, state.last_grant_at, now)
        if brake is not None:
            lacks.append(Shortfall(ReasonCode.BRAKED, brake.sentence(now)))
    if state.n_samples == 0:
        lacks.append(_FIRST_TRACE)
    if threshold is not None:
        lacks += shortfalls(state, threshold, now, score)


def _by_the_mode(
    policy: Policy, decision_id: str | None, lacks: Lacks, *, spot_checked: bool
) -> None:
    """What keeps back an action that would be promoted."""
    if policy.mode.mode == "shadow":
        lacks.append(_SHADOW)
    elif spot_checked or is_spot_check(decision_id, policy.mode.spot_check_one_in):
        lacks.append(_SPOT_CHECK)


def is_spot_check(decision_id: str | None, one_in: int) -> bool:
    """Whether a promotion under this id is asked all the same: one id in `one_in`, 0 is none."""
    if decision_id is None or one_in == 0:
        return False
    hashed = hashlib.sha256(decision_id.encode()).digest()
    return int.from_bytes(hashed[:8], "big") % one_in == 0


def _in_words(lacks: Lacks) -> tuple[tuple[ReasonCode, ...], str]:
    """The reasons, each once, and the sentence that says what is missing."""
    if not lacks:
        return (ReasonCode.PROMOTED,), ""
    reasons = tuple(dict.fromkeys([lack.reason for lack in lacks]))
    return reasons, "; ".join([lack.words for lack in lacks if lack.words])


def _parts(values: tuple[float, float, float, float, float]) -> tuple[Part, ...]:
    """The five components with their terms of raw_score."""
    (a, b, c, d, e), (v0, v1, v2, v3, v4) = RAW_SCORE_WEIGHTS, values
    n0, n1, n2, n3, n4 = COMPONENTS
    return (
        Part(n0, v0, a, a * v0),
        Part(n1, v1, b, b * v1),
        Part(n2, v2, c, c * v2),
        Part(n3, v3, d, d * v3),
        Part(n4, v4, e, e * (1 - v4)),
    )
