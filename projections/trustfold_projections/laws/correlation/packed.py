"""The states of correlation as bytes, for stores that keep them: msgpack, by the structs' names.

A state is one piece, or many for a store whose records have a size: then its collections are cut
into parts of so many items, so that what grows at its end leaves all parts but the last alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from trustfold_projections.laws.correlation.dispatch import Key, KeyState, new_state
from trustfold_projections.laws.correlation.knowledge import TraceState
from trustfold_projections.laws.correlation.singles import PolicyState, RollbackState, SeenState
from trustfold_schemas.facts import Content


def _encoded(value: object) -> object:
    if isinstance(value, Content):
        return value.digest
    if isinstance(value, int):
        return int(value)
    raise NotImplementedError(type(value))


def _decoded(wanted: type, value: Any) -> object:
    if wanted is Content:
        return Content.from_digest(value)
    return wanted(value)


_OUT = msgspec.msgpack.Encoder(enc_hook=_encoded)
_IN: dict[type, msgspec.msgpack.Decoder[Any]] = {
    kind: msgspec.msgpack.Decoder(kind, dec_hook=_decoded)
    for kind in (TraceState, RollbackState, PolicyState, SeenState)
}
_KEY = msgspec.json.Decoder(Key)


def pack_key(key: Key) -> bytes:
    """A key as compact JSON."""
    return msgspec.json.encode(key)


def unpack_key(data: bytes) -> Key:
    """A key from its JSON."""
    return _KEY.decode(data)


def pack_state(state: KeyState) -> bytes:
    """A state as msgpack; of what was seen only the contents' digests are kept."""
    return _OUT.encode(state)


def unpack_state(key: Key, data: bytes) -> KeyState:
    """A state from its msgpack; the key says of which kind it is."""
    state: KeyState = _IN[type(new_state(key))].decode(data)
    return state


# ---- in parts ------------------------------------------------------------------------------------

PART_ITEMS = 256
"""Items of a collection in one part of a state."""


def pack_parts(state: KeyState) -> tuple[bytes, dict[str, bytes]]:
    """A state in parts: what is not a collection, and the parts by `field/number`."""
    collections = {
        name: value for name in state.__struct_fields__ if (value := _collection(state, name))
    }
    bare = msgspec.structs.replace(state, **{name: type(v)() for name, v in collections.items()})
    parts = {
        f"{name}/{number}": _OUT.encode(some)
        for name, value in collections.items()
        for number, some in enumerate(_cut(value))
    }
    return _OUT.encode(bare), parts


def unpack_parts(key: Key, bare: bytes, parts: Mapping[str, bytes]) -> KeyState:
    """A state from its parts, in the order in which `pack_parts` gives them."""
    state = unpack_state(key, bare)
    types = {field.name: field.type for field in msgspec.structs.fields(state)}
    for name, packed in parts.items():
        field = name.partition("/")[0]
        value: dict[Any, Any] | list[Any] = getattr(state, field)
        some = msgspec.msgpack.decode(packed, type=types[field], dec_hook=_decoded)
        if isinstance(value, dict):
            value.update(some)
        else:
            value.extend(some)
    return state


def _collection(state: KeyState, name: str) -> dict[Any, Any] | list[Any] | None:
    value: dict[Any, Any] | list[Any] | None = getattr(state, name)
    return value if type(value) in (dict, list) and value else None


def _cut(value: dict[Any, Any] | list[Any]) -> Iterator[dict[Any, Any] | list[Any]]:
    if isinstance(value, list):
        yield from (value[at : at + PART_ITEMS] for at in range(0, len(value), PART_ITEMS))
        return
    items: Iterable[tuple[Any, Any]] = iter(value.items())
    while some := dict(islice(items, PART_ITEMS)):
        yield some
