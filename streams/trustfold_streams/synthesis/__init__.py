"""Synthesis: drafts of a neuron until one is good enough to be shown to a person (SPEC 6).

The reward is a law (`laws.synthesis`); here are the loop around it, the reading of measurements,
and the event with which an approved neuron is born.
"""

from __future__ import annotations

from trustfold_streams.synthesis.birth import birth_document
from trustfold_streams.synthesis.errors import BelowGateError, MeasurementError
from trustfold_streams.synthesis.loop import Limits, Synthesis, Synthesizer
from trustfold_streams.synthesis.measurements import read_measured
from trustfold_streams.synthesis.ports import Answer, Bench, Draft, Gate, Generator

__all__ = [
    "Answer",
    "BelowGateError",
    "Bench",
    "Draft",
    "Gate",
    "Generator",
    "Limits",
    "MeasurementError",
    "Synthesis",
    "Synthesizer",
    "birth_document",
    "read_measured",
]
