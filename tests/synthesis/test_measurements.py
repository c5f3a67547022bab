"""Measurements are read exactly, and what cannot be read is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trustfold_projections.laws.synthesis import reward_of
from trustfold_schemas.actions import Author
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.events import NeuronSynthesizedEvent
from trustfold_streams.synthesis import (
    BelowGateError,
    MeasurementError,
    birth_document,
    read_measured,
)

GOOD: dict[str, Any] = {
    "neuron": "budget",
    "tests": [{"name": "sums", "passed": True}],
    "judge": {"score": 0.6, "words": "fine"},
    "cost": {"actual_usd": 0.02, "estimated_usd": 0.02},
    "coverage": {"bonus": 0.2, "effects": ["net:bank"]},
}


def test_a_measurement_is_read_exactly() -> None:
    """Shares and money are the decimals of the text; R is the seed's 0.72."""
    assert reward_of(read_measured(json.dumps(GOOD).encode())).reward == 720_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"neuron": ""}, "$.neuron"),
        ({"tests": [{"name": "sums"}]}, "passed"),
        ({"judge": {"score": 1.5}}, "$.judge.score"),
        ({"cost": {"actual_usd": -1, "estimated_usd": 0}}, "$.cost.actual_usd"),
        ({"cost": {"actual_usd": 1}}, "estimated_usd"),
        ({"det_pass_rate": 1}, "det_pass_rate"),
    ],
)
def test_what_cannot_be_read_is_named(change: dict[str, Any], said: str) -> None:
    """The error names the place; a field that nobody knows is no measurement."""
    with pytest.raises(MeasurementError) as error:
        read_measured(json.dumps(GOOD | change).encode())
    assert said in str(error.value)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 10_000, b'{"neuron": "\xff"}', b"1e999"])
def test_no_bytes_crash(body: bytes) -> None:
    """Whatever it is, it is an error of the caller."""
    with pytest.raises(MeasurementError):
        read_measured(body)


def test_a_birth_says_what_r_was_made_of() -> None:
    """The event carries the reward, the components and the person."""
    body = birth_document(
        Author("t", "b1", 1_780_012_800_000_000),
        read_measured(json.dumps(GOOD).encode()),
        "roberto",
    )
    event = decode_event(body)
    assert isinstance(event, NeuronSynthesizedEvent)
    assert (event.data.reward, event.data.approved_by) == (720_000, "roberto")
    assert json.loads(body)["data"]["breakdown"] == {
        "det_pass_rate": 1,
        "judge_score": 0.6,
        "cost_ratio": 1,
        "similarity_penalty": 0,
        "coverage_bonus": 0.2,
        "tests": 1,
        "red_tests": 0,
    }


def test_nobody_is_born_below_the_gate() -> None:
    """Who is below goes back to the draft, whoever approves."""
    low = read_measured(json.dumps(GOOD | {"judge": {"score": 0}}).encode())
    with pytest.raises(BelowGateError, match=r"0\.57"):
        birth_document(Author("t", "b1", 1_780_012_800_000_000), low, "roberto")
