"""Keeping the cycle collector out of a long ingest: it looks at everything, finds nothing."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def collector_off() -> Generator[None]:
    """Switch the cycle collector off for a while, for programs whose process is their own.

    States and entries hold no cycles, so nothing piles up; a bulk ingest gains about a third.
    """
    if not gc.isenabled():
        yield
        return
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
