"""Names of headers that are no UTF-8, as a client that checks nothing writes them."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Generator
from typing import Any, Self
from unittest.mock import patch

Parser: Any = importlib.import_module("aiokafka.record.default_records")
Builder: Any = Parser._DefaultRecordBatchBuilderPy
"""The compiled one takes no str of ours."""


class Name(str):
    """A name that is written as these bytes."""

    __slots__ = ("raw",)
    raw: bytes

    def __new__(cls, raw: bytes) -> Self:
        """Its bytes, beside a text that is never looked at."""
        made = super().__new__(cls, "x")
        made.raw = raw
        return made

    def encode(self, *_: object, **__: object) -> bytes:
        """The bytes, whatever is asked for."""
        return self.raw


@contextlib.contextmanager
def careless_clients() -> Generator[None]:
    """Meanwhile producers write such names."""
    builder = "DefaultRecordBatchBuilder"
    with (
        patch(f"aiokafka.producer.message_accumulator.{builder}", Builder),
        patch(f"aiokafka.producer.producer.{builder}", Builder),
    ):
        yield
