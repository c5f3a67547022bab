"""The event with which an approved neuron is born: its reward is its first evidence."""

from __future__ import annotations

from trustfold_projections.laws.synthesis import GATE, Measured, reward_of
from trustfold_projections.laws.synthesis_words import breakdown_data
from trustfold_schemas.actions import Author
from trustfold_schemas.documents import decimal_of
from trustfold_schemas.events import NeuronSynthesizedEvent
from trustfold_streams.synthesis.errors import BelowGateError


def birth_document(author: Author, measured: Measured, approved_by: str) -> bytes:
    """The `neuron.synthesized` of a draft that a person approved. Raises BelowGateError."""
    found = reward_of(measured)
    if not found.passes:
        raise BelowGateError(
            f"{measured.neuron} has R = {decimal_of(found.reward)}, the gate is at "
            f"{decimal_of(GATE)}: improve the draft before a person approves it"
        )
    data = {
        "scope": measured.scope,
        "neuron": measured.neuron,
        "reward": decimal_of(found.reward),
        "breakdown": breakdown_data(measured, found),
        "approved_by": approved_by,
    }
    return author.write(NeuronSynthesizedEvent, data)
