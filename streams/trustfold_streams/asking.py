"""Who may ask the policy, its answers and their names: for every store alike."""

from __future__ import annotations

import secrets
from typing import Final

from trustfold_projections.laws.policy import Policy, decide
from trustfold_schemas.decisions import Action, Decision
from trustfold_schemas.errors import NotPermittedError
from trustfold_schemas.facts import Role, Stamp
from trustfold_schemas.scores import Corrupt, State

MAY_DECIDE: Final[frozenset[Role]] = frozenset({"runtime", "owner"})


def check_may_ask(stamp: Stamp, action: Action) -> None:
    """Raise NotPermittedError unless a publisher of this stamp may ask about this action."""
    if stamp.role not in MAY_DECIDE:
        raise NotPermittedError(
            f"Expected a question from the role runtime, got it from the role {stamp.role}; "
            "`peek` answers everybody"
        )
    if not stamp.may_speak_of(action.subject.scope):
        raise NotPermittedError(
            f"Expected a scope among {stamp.scopes}, got {action.subject.scope!r}"
        )


def random_id() -> str:
    """128 random bits in hexadecimal: nobody can choose an id that passes the spot check."""
    return secrets.token_hex(16)


def last_grant_of(state: State | Corrupt | None) -> int | None:
    """When a person last granted a subject, as far as its state says."""
    return state.last_grant_at if isinstance(state, State) else None


def decision_on(
    action: Action,
    state: State | Corrupt | None,
    policy: Policy,
    now: int,
    *,
    decision_id: str,
    position: int,
    owed_to: str | None,
    stale: str | None = None,
) -> Decision:
    """The decision on a question, made at `now` to stand at a position of its log.

    `owed_to` is an earlier decision whose spot check still waits for its answer.
    """
    verdict = decide(
        state,
        policy,
        action,
        now,
        decision_id=decision_id,
        stale=stale,
        spot_checked=owed_to is not None,
    )
    return Decision(
        decision_id=decision_id,
        recorded=now,
        position=position,
        action=action,
        verdict=verdict,
        stale=stale,
        owed_to=owed_to,
    )
