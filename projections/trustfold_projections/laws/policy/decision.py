"""The decision: (state, policy, action, now) to a verdict with its grounds (SPEC 5).

Pure, so that anybody who has the four can say it again years later. Rules come before numbers:
what a rule forbids, no score allows. Whatever the caller says can only make it stricter.
"""

from __future__ import annotations

import hashlib

from trustfold_projections.laws.policy.brake import brake_of
from trustfold_projections.laws.policy.registry import Policy
from trustfold_projections.laws.policy.rulings import Ruling
from trustfold_projections.laws.policy.standing import NOBODY, Standing, standing_of
from trustfold_projections.laws.policy.thresholds import Shortfall, shortfalls
from trustfold_projections.laws.scoring import RAW_SCORE_WEIGHTS
from trustfold_projections.laws.time_weights import ZERO, era_and_m
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import Action, Part, ReasonCode, Verdict
from trustfold_schemas.ledger import COMPONENTS, FORMULA
from trustfold_schemas.scores import Corrupt, State, content_digest
from trustfold_schemas.subject import Subject

Lacks = list[Shortfall]

_FIRST_TRACE = Shortfall(ReasonCode.NO_HISTORY, "a first trace")
_SHADOW = Shortfall(ReasonCode.SHADOW, "")
_PROMOTED = (ReasonCode.PROMOTED,)
_SPOT_CHECK = Shortfall(ReasonCode.SPOT_CHECK, "a person's answer to a spot check")


def decide(
    state: State | Standing | Corrupt | None,
    policy: Policy,
    action: Action,
    now: int,
    *,
    decision_id: str | None = None,
    stale: str | None = None,
    spot_checked: bool = False,
) -> Verdict:
    """Say whether an action may go without asking.

    `state` is the subject's, or its standing with its digest where that was made before; None if
    nothing ever touched it, Corrupt if it may not be used.
    `stale` says why the table is not known to be caught up, None if it is. A `decision_id` is
    hashed for the spot check; `spot_checked` says that an earlier one still waits for its answer.
    """
    subject = action.subject
    ruling = policy.ruling(subject.effect)
    answer = ruling.answers[action.reversibility]
    lacks = [*answer.lacks]
    if ruling.revocations or subject.is_global:
        _by_subject(policy, ruling, subject, lacks)
    lacks += ruling.caps
    if stale is not None:
        lacks.append(Shortfall(ReasonCode.STALE, stale))
    known = NOBODY
    if isinstance(state, Standing):
        known = state
    elif isinstance(state, State):
        known = standing_of(state, content_digest(state))
    # Not `g`, which remembers: this moment comes once.
    era, m = era_and_m(max(now, ZERO))
    weight = m << era
    freshness = known.freshness(weight)
    score = known.raw_score * freshness
    if isinstance(state, Corrupt):
        lacks.append(Shortfall(ReasonCode.CORRUPT, f"a sound record of its score: {state.error}"))
    else:
        _by_history(known, now, lacks)
        if answer.threshold is not None:
            lacks += shortfalls(known, answer.threshold, weight, score)
    would_be = not lacks
    if would_be:
        _by_the_mode(policy, decision_id, lacks, spot_checked=spot_checked)
    mode, declaration, samples = policy.mode, ruling.declaration, known.samples
    # In the order of its fields: with their names it takes a microsecond more, of seven.
    return Verdict(
        "approve_required" if lacks else "allow",
        "allow" if would_be else "approve_required",
        None if lacks else "trust_promoted",
        lacks[0].reason if lacks else ReasonCode.PROMOTED,
        tuple([lack.reason for lack in lacks]) if lacks else _PROMOTED,
        "; ".join([lack.words for lack in lacks]) if lacks else "",
        now,
        subject,
        answer.in_force,
        None if declaration is None else declaration.effect,
        answer.threshold,
        _parts(known.values),
        known.raw_score,
        freshness,
        score,
        known.n_samples,
        samples / weight,
        known.granted / (PPM * weight),
        known.decided / samples if samples else 0.0,
        known.last_updated,
        known.last_bad_at,
        known.last_grant_at,
        known.digest,
        known.version,
        FORMULA,
        mode.mode,
        policy.version,
    )


def _by_subject(policy: Policy, ruling: Ruling, subject: Subject, lacks: Lacks) -> None:
    """What the policy says of a subject before anything is known of its history."""
    if subject.is_global:
        words = f"a tool: `{subject.tool}` counts whole traces"
        lacks.insert(0, Shortfall(ReasonCode.RESERVED_TOOL, words))
    if revoked := policy.revoked(ruling, subject):
        names = ", ".join(one.revocation_id for one in revoked)
        lacks.append(Shortfall(ReasonCode.REVOKED, f"a reinstatement of {names}"))


def _by_history(known: Standing, now: int, lacks: Lacks) -> None:
    """What a subject's own past leaves to be desired, whatever the threshold."""
    if known.last_bad_at is not None:
        brake = brake_of(known.last_bad_at, known.last_grant_at, now)
        if brake is not None:
            lacks.append(Shortfall(ReasonCode.BRAKED, brake.sentence(now)))
    if known.n_samples == 0:
        lacks.append(_FIRST_TRACE)


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
