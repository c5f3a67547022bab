"""From bytes to events: strict decoding, the canonical content, and errors that name their path.

What one document can be judged by is judged here, whatever the topic or store it came through.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from decimal import Decimal, InvalidOperation
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from trustfold_schemas import events, policy_events
from trustfold_schemas.amounts import MicroUsd, Ppm, micro_usd, ppm
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import Event, type_of
from trustfold_schemas.instants import EARLIEST, Instant, format_instant, parse_instant, shorten

EVENT_BYTES_MAX = 1 << 20
"""An event's document is at most 1 MiB."""

EVENT_TYPES: dict[str, type[Event]] = {
    type_of(event): event
    for event in (
        events.TraceClosedEvent,
        events.SignalsReportedEvent,
        events.StepRecordedEvent,
        events.ApprovalDecidedEvent,
        events.UndoExecutedEvent,
        events.TraceExcludedEvent,
        events.TraceIncludedEvent,
        events.SelfPlayCompletedEvent,
        events.NeuronSynthesizedEvent,
        events.SubjectRolledBackEvent,
        events.RollbackLiftedEvent,
        events.CostMedianEvent,
        policy_events.ThresholdSetEvent,
        policy_events.ThresholdRemovedEvent,
        policy_events.EffectDeclaredEvent,
        policy_events.EffectRemovedEvent,
        policy_events.TrustRevokedEvent,
        policy_events.TrustReinstatedEvent,
        policy_events.PolicyModeEvent,
    )
}
"""Every type that this version knows, by its name in `type`."""


def _typed(wanted: type, got: object) -> object:
    """Read the types that JSON does not have; msgspec adds the path to what this raises."""
    if wanted is Instant:
        if not isinstance(got, str):
            raise ValueError(f"Expected an RFC 3339 time with a zone, got {_shown(got)}")
        return parse_instant(got)
    if wanted is MicroUsd:
        return micro_usd(got)
    if wanted is Ppm:
        return ppm(got)
    raise NotImplementedError(wanted)


def _number(text: str) -> Decimal:
    """Keep a number's exact text; refuse what a double calls infinite or Decimal cannot hold."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"Expected a finite number, got `{shorten(text)}`") from None
    if math.isinf(float(text)):
        raise ValueError(f"Expected a finite number, got `{shorten(text)}`")
    return number


_EVENT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    reduce(or_, EVENT_TYPES.values()),  # type: ignore[arg-type]
    dec_hook=_typed,
    float_hook=_number,
)
_TREE = msgspec.json.Decoder(float_hook=_number)
_AGAIN = msgspec.json.Encoder(decimal_format="number")


def decode_event(document: bytes) -> Event:
    """Read one event's document (SPEC 2). Raises EventRefused with a reason and a path.

    Unknown extra fields are ignored; duplicate keys anywhere are refused.
    """
    if len(document) > EVENT_BYTES_MAX:
        raise EventRefused(
            Reason.TOO_LARGE,
            f"Expected at most {EVENT_BYTES_MAX} bytes, got {len(document)}",
        )
    try:
        tree = _TREE.decode(document)
        # A compact document with a doubled key cannot come out as it went in; only what differs,
        # by white space or by the spelling of a number, is worth the slower look.
        if _AGAIN.encode(tree) != document:
            _refuse_doubled_keys(document)
        event: Event = _EVENT.decode(document)
    except EventRefused:
        raise
    except msgspec.ValidationError as error:
        raise _explained(error, document) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise EventRefused(Reason.MALFORMED, _syntax(error, document)) from None
    if event.time < EARLIEST:
        raise EventRefused(
            Reason.INVALID,
            f"Expected a time from 2020 on, got `{format_instant(event.time)}` - at `$.time`",
        )
    return event


def content_of(event: Event, document: bytes) -> bytes:
    """The SHA-256 of what an event says: type, instant and data (SPEC 2), 32 bytes.

    Two documents of one (source, id) with the same content are duplicates. Keys are sorted by
    code point, strings escaped as in RFC 8785, numbers written as exact decimals, so that white
    space, key order, `1.0` for `1` and another zone of `time` change nothing.
    """
    data = _CONTENT_IN.decode(document)["data"]
    said = _CONTENT_OUT.encode([type_of(event), str(int(event.time)), data])
    return hashlib.sha256(said).digest()


def _plain_number(text: str) -> int | Decimal:
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    while len(digits) > 1 and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    number = Decimal((sign, digits, exponent))
    if not number:
        return 0
    # Exact: a whole number of fewer than 310 digits, or the decode before would have refused it.
    return int(number) if exponent >= 0 else number


_CONTENT_IN = msgspec.json.Decoder(float_hook=_plain_number)
_CONTENT_OUT = msgspec.json.Encoder(order="sorted", decimal_format="number")


def _syntax(error: Exception, document: bytes) -> str:
    """Say where a document stops being JSON; the standard library counts lines and columns."""
    try:
        json.loads(document)
    except (ValueError, RecursionError) as place:
        return f"Expected one JSON document in UTF-8: {place}"
    return f"Expected finite numbers and no lone surrogates: {error}"


def _refuse_doubled_keys(document: bytes) -> None:
    def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) < len(pairs):
            keys = [key for key, _ in pairs]
            doubled = next(key for key in keys if keys.count(key) > 1)
            raise EventRefused(
                Reason.MALFORMED, f"Expected each key once, got `{shorten(doubled)}` twice"
            )
        return members

    json.loads(document, object_pairs_hook=distinct, parse_int=str, parse_float=str)


_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _explained(error: msgspec.ValidationError, document: bytes) -> EventRefused:
    """Turn msgspec's words into path, got and wanted, and tell an unknown type apart."""
    match = _AT.match(str(error))
    assert match is not None
    what, path = match["what"], match["path"] or "$"
    try:
        tree = _TREE.decode(document)
    except (msgspec.MsgspecError, ValueError):
        return EventRefused(Reason.MALFORMED, f"{what} - at `{path}`")
    parts = [name or int(index) for name, index in _PART.findall(path)]
    got = _value(tree, parts)
    if path == "$.type" and isinstance(got, str):
        known = ", ".join(f"`{name}`" for name in EVENT_TYPES)
        return EventRefused(
            Reason.UNKNOWN_TYPE, f"Expected one of {known}; got `{shorten(got)}` - at `$.type`"
        )
    if what.startswith("Invalid enum value"):
        event = EVENT_TYPES.get(tree.get("type"))
        what = f"Expected one of {_choices(event, parts)}, got {_shown(got)}"
    elif "got " not in what and "missing" not in what:
        what = f"{what}, got {_shown(got)}"
    return EventRefused(Reason.INVALID, f"{what} - at `{path}`")


def _value(tree: Any, parts: list[str | int]) -> object:
    """Follow a path through a decoded document as far as it leads."""
    for part in parts:
        try:
            tree = tree[part]
        except (KeyError, IndexError, TypeError):
            break
    return tree


def _choices(event: type[Event] | None, parts: list[str | int]) -> str:
    """The values that an enumerated field allows, found by following a path through its type."""
    place: Any = msgspec.inspect.type_info(event)
    for part in parts:
        if isinstance(place, msgspec.inspect.UnionType):
            place = next(t for t in place.types if not isinstance(t, msgspec.inspect.NoneType))
        if isinstance(part, str):
            place = next(field.type for field in place.fields if field.encode_name == part)
        else:
            place = place.item_type
    options = place.types if isinstance(place, msgspec.inspect.UnionType) else (place,)
    values = [v for option in options for v in getattr(option, "values", ())]
    return ", ".join(f"`{value}`" for value in values)


def _shown(value: object) -> str:
    return f"`{shorten(json.dumps(value, ensure_ascii=False, default=str))}`"
