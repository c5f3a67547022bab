"""The states of correlation as bytes, for stores that keep them: msgpack, by the structs' names."""

from __future__ import annotations

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
