"""The names in a fact's document, read without the rest of it.

SQLite's own json_extract ends a text at its first NUL, and would take an unknown field `trace_id`
of an event that is of no trace for its trace.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple, get_args

import msgspec
from msgspec import Struct

from trustfold_schemas.events import TraceEvent, type_of


class Names(NamedTuple):
    """What names the fact of an entry; `trace_id` is None where it is of no trace."""

    event_id: str
    source: str
    trace_id: str | None


class _Head(Struct, gc=False):
    type: str
    id: str
    source: str
    data: msgspec.Raw


class _OfTrace(Struct, gc=False):
    trace_id: str


_HEAD = msgspec.json.Decoder(_Head)
_OF_TRACE = msgspec.json.Decoder(_OfTrace)
_TRACE_TYPES: Final = frozenset(type_of(event) for event in get_args(TraceEvent))


def names_of(body: str) -> Names | None:
    """The names in a document; None where it is no event any more."""
    try:
        head = _HEAD.decode(body)
        of_trace = head.type in _TRACE_TYPES
        trace_id = _OF_TRACE.decode(head.data).trace_id if of_trace else None
    except (msgspec.MsgspecError, ValueError, TypeError):
        return None
    return Names(head.id, head.source, trace_id)


def _event_id(body: object) -> str | None:
    names = names_of(body) if isinstance(body, str) else None
    return None if names is None else names.event_id


def add_functions(connection: sqlite3.Connection) -> None:
    """Let SQL of this connection say `event_id(body)`."""
    connection.create_function("event_id", 1, _event_id, deterministic=True)


NAMED: Final = "(instr(body, ?1) OR instr(body, '\\')) AND event_id(body) = ?1"
"""Facts whose event has the name ?1: a cheap look first, which only an escaped text can defeat."""
