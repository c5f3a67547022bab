"""The published schema of a decision is true of what is written."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from tests.laws.policies import ASKED, NOW, enforcing, perfect
from trustfold_projections.laws.policy import decide
from trustfold_schemas.decisions import Decision
from trustfold_schemas.published import decision_schema
from trustfold_schemas.scores import State

VALIDATOR = Draft202012Validator(decision_schema())


def written(state: State | None) -> Any:
    """A decision as its record holds it."""
    verdict = decide(state, enforcing().policy, ASKED, NOW)
    made = Decision(decision_id="d", recorded=NOW, position=1, action=ASKED, verdict=verdict)
    return json.loads(msgspec.json.encode(made))


@pytest.mark.parametrize("state", [None, perfect()], ids=["nobody", "perfect"])
def test_a_decision_has_a_schema(state: State | None) -> None:
    """An allow and a refusal are valid."""
    assert VALIDATOR.is_valid(written(state))


@pytest.mark.parametrize(
    ("field", "value"), [("verdict", "maybe"), ("reason", "mood"), ("score", 1.5), ("at", "now")]
)
def test_what_is_no_verdict_is_invalid(field: str, value: object) -> None:
    """The enumerations are closed, and a score is at most 1."""
    document = written(None)
    document["verdict"][field] = value
    assert not VALIDATOR.is_valid(document)
