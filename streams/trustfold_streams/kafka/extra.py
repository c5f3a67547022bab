"""Whether the libraries that speak with Kafka are installed: they come with an extra."""

from __future__ import annotations

from importlib.util import find_spec

from trustfold_streams.kafka.errors import StreamsExtraError

NEEDED = ("aiokafka", "cramjam", "tenacity")


def require_extra() -> None:
    """Raise StreamsExtraError, which says how to install it, where the extra is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise StreamsExtraError(
            f"talking to Kafka needs an extra that is not installed ({', '.join(missing)} "
            "missing): pip install 'trustfold[streams]'"
        )
