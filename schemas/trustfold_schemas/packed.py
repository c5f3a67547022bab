"""The ledger as it travels in a topic: envelopes of entries, msgpack, arrays in field order.

One record holds the entries of one batch for one partition. Each entry carries where its fact
stood, so that one which arrives twice is known.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from trustfold_schemas.ledger import Entry

ENVELOPE_ENTRIES_MAX = 4_000
ENVELOPE_BYTES_MAX = 512 << 10


class PackedEntry(Entry, frozen=True, gc=False, kw_only=True, array_like=True):
    """An entry as the array of its fields."""


class Located(Struct, frozen=True, gc=False, array_like=True):
    """An entry and its origin: partition and offset of the fact, and its number among the fact's.

    (offset, number) grows within a partition of facts.
    """

    partition: int
    offset: int
    number: int
    entry: PackedEntry


_ENVELOPE = msgspec.msgpack.Decoder(list[Located])
_OUT = msgspec.msgpack.Encoder()


def pack_entry(partition: int, offset: int, number: int, entry: Entry) -> bytes:
    """One located entry."""
    return _OUT.encode((partition, offset, number, msgspec.structs.astuple(entry)))


def envelopes(entries: Iterable[bytes]) -> list[bytes]:
    """Packed entries as envelopes, each within the limits; a single larger entry has its own."""
    made: list[bytes] = []
    held: list[bytes] = []
    size = 0
    for entry in entries:
        if held and (len(held) >= ENVELOPE_ENTRIES_MAX or size + len(entry) > ENVELOPE_BYTES_MAX):
            made.append(_array(held))
            held, size = [], 0
        held.append(entry)
        size += len(entry)
    if held:
        made.append(_array(held))
    return made


def unpack_envelope(data: bytes) -> list[Located]:
    """The entries of an envelope, in order."""
    return _ENVELOPE.decode(data)


def _array(items: list[bytes]) -> bytes:
    """A msgpack array of items that are encoded already (array 16: up to 65,535 of them)."""
    return b"\xdc" + len(items).to_bytes(2, "big") + b"".join(items)
