"""The rows of `traces`: what correlation knows of a key, in one record or, if it is large, in many.

Most traces close at once, with all of their steps, and nobody says a word of them: the row of such
a one is its close as it was published, and its state is derived when more comes.

A record of a topic has a greatest size, and what may be known of a trace has none to speak of:
10,000 steps with wide names, a thousand answers that name them. So a large state is a row of its
own that lists its parts, and parts under keys that begin with NUL, all written in one transaction;
what did not change is not written again, and what is gone is deleted.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from trustfold_projections.laws.correlation import Key, KeyState, correlate, new_state
from trustfold_projections.laws.correlation.packed import (
    pack_key,
    pack_parts,
    pack_state,
    unpack_key,
    unpack_parts,
    unpack_state,
)
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.decoding import decode_admitted
from trustfold_schemas.facts import OWNER, Fact

CLOCK: Final = b"\0clock"
"""The row of the greatest moment read; a broker's clock may step back when a leader changes."""
PART: Final = b"\0part/"
"""Begins the key of a part; the key of its row and, behind another NUL, its name follow. JSON has
no NUL, and no other bookkeeping key begins so."""
WHOLE_MAX: Final = 128 << 10
"""Bytes of a state up to which it is one record."""
PIECE_MAX: Final = 512 << 10
"""Bytes of a record of a part: an item alone may be larger, as an answer that names many steps."""

OPEN: Final = 1
PARTED: Final = 2
LONE: Final = 4


class Row(Struct, gc=False):
    """What is known of a key, as bytes. `parts` by name; none where it is one record.

    `last_recorded` is when the log took its last fact; `open` says that its trace is not folded;
    `lone` that `packed` is the offset (8 bytes) and the document of the one fact of its trace.
    """

    last_recorded: int = 0
    open: bool = False
    packed: bytes = b""
    parts: dict[bytes, bytes] | None = None
    lone: bool = False

    @property
    def size(self) -> int:
        """Bytes of it in the topic, without keys."""
        return len(self.packed) + sum(map(len, (self.parts or {}).values()))

    def state(self, key: Key, medians: MedianTable) -> KeyState:
        """The state itself; `medians` must hold what was recorded before the row's last fact."""
        if self.lone:
            state, at, document = new_state(key), self.packed[:8], self.packed[8:]
            # Whoever published a close, its state is the same.
            fact = Fact(
                int.from_bytes(at, "big"),
                self.last_recorded,
                OWNER,
                decode_admitted(document),
                document,
            )
            correlate(state, fact, medians)
            return state
        if self.parts is None:
            return unpack_state(key, self.packed)
        bare, names = _HEAD.decode(self.packed)
        return unpack_parts(
            key,
            bare,
            {
                name: b"".join(self.parts[_piece(name, at)] for at in range(pieces))
                for name, pieces in names
            },
        )


_HEAD = msgspec.msgpack.Decoder(tuple[bytes, list[tuple[str, int]]])
"""The row of a state in parts: what is not in them, and each part's name and number of pieces."""


def lone_row(fact: Fact) -> Row | None:
    """The row of a trace of which one close is all that is known; None if the close is large."""
    if len(fact.document) > WHOLE_MAX:
        return None
    return Row(fact.recorded, packed=fact.position.to_bytes(8, "big") + fact.document, lone=True)


def row_of(state: KeyState, last_recorded: int, *, open: bool) -> Row:  # noqa: A002 - the field
    """A state as bytes."""
    packed = pack_state(state)
    if len(packed) <= WHOLE_MAX:
        return Row(last_recorded, open, packed)
    bare, parts = pack_parts(state)
    pieces = {
        name: [packed[at : at + PIECE_MAX] for at in range(0, len(packed), PIECE_MAX)]
        for name, packed in parts.items()
    }
    head = msgspec.msgpack.encode((bare, [(name, len(some)) for name, some in pieces.items()]))
    return Row(
        last_recorded,
        open,
        head,
        {_piece(name, at): one for name, some in pieces.items() for at, one in enumerate(some)},
    )


def _piece(name: str, number: int) -> bytes:
    return f"{name}/{number}".encode()


def records_of(key: Key, row: Row | None, before: Row | None) -> dict[bytes, bytes | None]:
    """The records that make the topic hold a row (None: no more) where it held another."""
    name = pack_key(key)
    had = {} if before is None or before.parts is None else before.parts
    made: dict[bytes, bytes | None] = {}
    if row is None:
        made[name] = None
    else:
        flags = row.open * OPEN | (row.parts is not None) * PARTED | row.lone * LONE
        made[name] = b"%b%c%b" % (row.last_recorded.to_bytes(8, "big"), flags, row.packed)
    has = {} if row is None or row.parts is None else row.parts
    if has or had:
        made |= {_part_key(name, part): b for part, b in has.items() if had.get(part) != b}
        made |= {_part_key(name, part): None for part in had if part not in has}
    return made


def _part_key(name: bytes, part: bytes) -> bytes:
    return PART + name + b"\0" + part


class Rows:
    """Rows put together from records in log order; complete once all records are taken."""

    def __init__(self) -> None:
        self.rows: dict[Key, Row] = {}
        self._parts: dict[bytes, dict[bytes, bytes]] = {}

    def take(self, key: bytes, value: bytes | None) -> None:
        """Take a record of a row or of a part; None deletes. Other bookkeeping is not for here."""
        if key.startswith(PART):
            name, _, part = key.removeprefix(PART).rpartition(b"\0")
            self._take_part(name, part, value)
            return
        found = unpack_key(key)
        # Again at the end: the order of rows is that of their last records.
        self.rows.pop(found, None)
        if value is not None:
            parts = self._parts.setdefault(key, {}) if value[8] & PARTED else None
            self.rows[found] = Row(
                int.from_bytes(value[:8], "big"),
                bool(value[8] & OPEN),
                value[9:],
                parts,
                bool(value[8] & LONE),
            )

    def _take_part(self, name: bytes, part: bytes, value: bytes | None) -> None:
        parts = self._parts.setdefault(name, {})
        if value is not None:
            parts[part] = value
            return
        parts.pop(part, None)
        if not parts:
            # One that comes again is another one: a row in one record does not hold it.
            del self._parts[name]
