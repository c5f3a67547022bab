"""Whether the libraries of archives are installed: they come with an extra."""

from __future__ import annotations

from importlib.util import find_spec

from trustfold_schemas.errors import CallerError

NEEDED = ("duckdb", "numpy", "pyarrow")


class DuckdbExtraError(CallerError):
    """What archives need is not installed."""


def require_extra() -> None:
    """Raise DuckdbExtraError, which says how to install it, where the extra is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise DuckdbExtraError(
            f"archives need an extra that is not installed ({', '.join(missing)} missing): "
            "pip install 'trustfold[duckdb]'"
        )
