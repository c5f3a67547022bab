"""What cannot become a neuron.

TrustfoldError
`-- CallerError
    |-- MeasurementError    a measurement of a draft that cannot be read; names its path
    `-- BelowGateError      a neuron was to be approved whose reward is below the gate
"""

from __future__ import annotations

from trustfold_schemas.errors import CallerError


class MeasurementError(CallerError, ValueError):
    """A measurement that cannot be read; says the path, what it got and what it wanted."""


class BelowGateError(CallerError):
    """A reward below the gate goes back to who drafts; no person is asked about it."""
