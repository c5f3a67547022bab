"""Reading what was measured of a draft, from JSON: money and shares as exact decimals."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from trustfold_projections.laws.synthesis import Measured
from trustfold_schemas.amounts import MicroUsd, Ppm, micro_usd, ppm
from trustfold_streams.synthesis.errors import MeasurementError

BYTES_MAX = 4 << 20


def _typed(wanted: type, got: object) -> object:
    if wanted is MicroUsd:
        return micro_usd(got)
    if wanted is Ppm:
        return ppm(got)
    raise NotImplementedError(wanted)


_IN = msgspec.json.Decoder(Measured, dec_hook=_typed, float_hook=Decimal)


def read_measured(document: bytes) -> Measured:
    """Read a measurement. Raises MeasurementError.

    >>> read_measured(b'''{"neuron": "budget", "tests": [{"name": "sums", "passed": true}],
    ...     "judge": {"score": 0.6, "words": "fine"},
    ...     "cost": {"actual_usd": 0.02, "estimated_usd": 0.02},
    ...     "similarity": {"penalty": 0.1, "nearest": "finance"},
    ...     "coverage": {"bonus": 0.2, "effects": ["net:bank"]}}''').judge.score
    600000
    """
    if len(document) > BYTES_MAX:
        raise MeasurementError(f"Expected at most {BYTES_MAX} bytes, got {len(document)}")
    try:
        return _IN.decode(document)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError) as error:
        raise MeasurementError(f"no measurement of a draft: {error}") from None
