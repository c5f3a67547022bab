"""A consumer that reads records whose header names are no UTF-8.

A broker takes any bytes as the name of a header; aiokafka 0.14 decodes it in the middle of a batch
and raises, at every attempt again, so that nobody could read past such a record. Here the batch is
then parsed once more by aiokafka's own parser in Python, and the bytes stand in the name as lone
surrogates (PEP 383): `name_bytes` gives them back.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterator
from typing import Any, cast

from aiokafka import AIOKafkaConsumer

_fetching: Any = importlib.import_module("aiokafka.consumer.fetcher")
_parsing: Any = importlib.import_module("aiokafka.record.default_records")

LENGTH = slice(8, 12)
"""Where a batch says how many bytes of it follow this field."""
MAGIC = 16
RECORD_BATCH = 2
"""The format of record batches since Kafka 0.11; those before it have no headers."""


def name_bytes(name: str) -> bytes:
    """The name of a header as it stands in the log."""
    return name.encode("utf-8", "surrogateescape")


def is_utf8(name: str) -> bool:
    """Whether the name of a header is text."""
    return name.isascii() or not any("\udc80" <= char <= "\udcff" for char in name)


class _Names(bytearray):
    """A buffer whose parts decode leniently: the parser decodes nothing but names of headers."""

    def __getitem__(self, key: Any) -> Any:
        part = cast("int | bytearray", super().__getitem__(key))
        return part if isinstance(part, int) else _Names(part)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002 - its port
        return super().decode("utf-8", "surrogateescape")


class _Batch:
    """A batch as the compiled parser has it; where that fails, as the slow one has it."""

    def __init__(self, quick: Any, packed: memoryview) -> None:
        self._quick = quick
        self._packed = packed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._quick, name)

    def __next__(self) -> Any:
        return next(self._quick)

    def __iter__(self) -> Iterator[Any]:
        try:
            return iter(list(self._quick))
        except UnicodeDecodeError:
            return iter(self._slowly())

    def _slowly(self) -> Any:
        batch = _parsing._DefaultRecordBatchPy(bytes(self._packed))  # noqa: SLF001 - the only one
        batch._maybe_uncompress()  # noqa: SLF001 - before its buffer is exchanged
        batch._buffer = _Names(batch._buffer)  # noqa: SLF001
        return batch


class LenientRecords:
    """Stands in for aiokafka's MemoryRecords: the batches that came with one fetch."""

    def __init__(self, packed: bytes) -> None:
        self._quick = _fetching.MemoryRecords(packed)
        self._packed = memoryview(packed)

    def has_next(self) -> bool:
        """Whether another batch is whole."""
        return bool(self._quick.has_next())

    def size_in_bytes(self) -> int:
        """The size of all."""
        return int(self._quick.size_in_bytes())

    def next_batch(self) -> Any:
        """The next batch."""
        batch = self._quick.next_batch()
        end = LENGTH.stop + int.from_bytes(self._packed[LENGTH], "big")
        packed, self._packed = self._packed[:end], self._packed[end:]
        return _Batch(batch, packed) if packed[MAGIC] >= RECORD_BATCH else batch


_unpack = _fetching.Fetcher._proc_fetch_request  # noqa: SLF001 - there it names MemoryRecords
_unpack_leniently = types.FunctionType(
    _unpack.__code__,
    {**vars(_fetching), "MemoryRecords": LenientRecords},
    _unpack.__name__,
    _unpack.__defaults__,
    _unpack.__closure__,
)
"""aiokafka's own way from a response to records, but for the one class: nothing of it is copied,
and consumers of others in this process keep theirs."""


class LenientConsumer(AIOKafkaConsumer):
    """A consumer that is never stopped by the name of a header."""

    async def start(self) -> None:
        """Connect; nothing was asked for yet when this returns."""
        await super().start()
        fetcher: Any = vars(self)["_fetcher"]
        fetcher._proc_fetch_request = types.MethodType(_unpack_leniently, fetcher)  # noqa: SLF001
