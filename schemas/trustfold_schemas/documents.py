"""Writing events: structured CloudEvents documents as our own publishers send them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from trustfold_schemas.amounts import PPM
from trustfold_schemas.instants import format_instant

_OUT = msgspec.json.Encoder(decimal_format="number")


def document(
    event_type: str, event_id: str, source: str, time: int, data: Mapping[str, Any]
) -> bytes:
    """One event as compact JSON. `time` in microseconds since 1970; absent (None) data left out."""
    return _OUT.encode(
        {
            "specversion": "1.0",
            "id": event_id,
            "source": source,
            "type": event_type,
            "time": format_instant(time),
            "data": {name: value for name, value in data.items() if value is not None},
        }
    )


def decimal_of(millionths: int) -> Decimal:
    """Micro-USD or ppm as the exact decimal that a document carries."""
    return Decimal(millionths) / PPM
