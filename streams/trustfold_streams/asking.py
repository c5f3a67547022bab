"""Who may ask the policy, and the names of its answers: for every store alike."""

from __future__ import annotations

import secrets
from typing import Final

from trustfold_schemas.decisions import Action
from trustfold_schemas.errors import NotPermittedError
from trustfold_schemas.facts import Role, Stamp

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
