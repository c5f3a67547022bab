"""The law's time weights (`laws.time_weights`) of many moments at once."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trustfold_projections.laws.time_weights import MANTISSAS, STEP, STEPS, ZERO

Ints = np.ndarray[Any, np.dtype[np.int64]]

_M: Final[Ints] = np.array(MANTISSAS, np.int64)


def eras_and_ms(moments: Ints) -> tuple[Ints, Ints]:
    """`era_and_m` of a column of moments; of one before 2020 that of 2020."""
    since = np.maximum(moments, ZERO) - ZERO
    # numpy divides by a constant faster than by divmod.
    step = since // STEP
    era = step // STEPS
    i = step - era * STEPS
    low = _M[i]
    return era, low + (_M[i + 1] - low) * (since - step * STEP) // STEP
