"""Batches whose headers have names that are no UTF-8, as a broker hands them over."""

from __future__ import annotations

import pytest

from tests.kafka.odd_names import Builder, Name, Parser
from trustfold_streams.kafka.lenient import LenientRecords, is_utf8, name_bytes


def batch(codec: int, *names: bytes | str) -> bytes:
    """A batch of the wire format with a record for each name of a header."""
    made = Builder(2, codec, 0, -1, -1, -1, 1 << 20)
    for number, raw in enumerate(names):
        name = Name(raw) if isinstance(raw, bytes) else raw
        headers = [(name, b"v"), ("second", None)]
        made.append(number, 1_000, b"k", b"value %d" % number * 100, headers)
    return bytes(made.build())


def read(packed: bytes) -> list[tuple[bytes, list[bytes]]]:
    """Value and names of headers of every record."""
    records, found = LenientRecords(packed), []
    while records.has_next():
        found += [
            (record.value, [name_bytes(name) for name, _ in record.headers])
            for record in records.next_batch()
        ]
    return found


@pytest.mark.parametrize("codec", [0, 1, 3])
def test_every_record_is_read_once_whatever_its_headers(codec: int) -> None:
    """Before, between and behind the names that are no UTF-8; plain, by gzip and by lz4."""
    names: list[bytes | str] = ["first", b"\xff\xfe", "naïve", b"\xc3", "last"]
    first, second = batch(codec, *names), batch(codec, "another")
    found = read(first + second)
    assert [value for value, _ in found] == [
        *(b"value %d" % number * 100 for number in range(5)), b"value 0" * 100
    ]  # fmt: skip
    raw = [name if isinstance(name, bytes) else name.encode() for name in (*names, "another")]
    assert [one for _, one in found] == [[name, b"second"] for name in raw]


def test_a_good_batch_is_left_to_the_compiled_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is parsed twice that need not be."""
    monkeypatch.delattr(Parser, "_DefaultRecordBatchPy")
    assert len(read(batch(0, "a", "ö"))) == 2


def test_what_is_no_text_is_told_apart() -> None:
    """By the surrogates that stand for its bytes."""
    assert is_utf8("trace")
    assert is_utf8("naïve 🙂")
    assert not is_utf8(b"a\xffb".decode("utf-8", "surrogateescape"))
