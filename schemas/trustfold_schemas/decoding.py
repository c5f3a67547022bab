"""From bytes to events: strict decoding, the canonical content, and errors that name their path.

What one document can be judged by is judged here, whatever the topic or store it came through.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Union, cast

import msgspec

from trustfold_schemas import events, policy_events
from trustfold_schemas.amounts import MicroUsd, Ppm, micro_usd, ppm
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import Event, type_of
from trustfold_schemas.instants import EARLIEST, Instant, format_instant, parse_instant, shorten

EVENT_BYTES_MAX = 1 << 20
"""An event's document is at most 1 MiB."""
NESTING_MAX = 64
"""Levels of arrays and objects, the document's own included. A fixed bound, so that no document
passes here and meets the interpreter's own bound further down a deeper stack."""

Tree = Any
"""JSON as it was decoded, before anything is known of it."""

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
    if not math.isfinite(float(text)):
        raise ValueError(f"Expected a finite number, got `{shorten(text)}`")
    return number


_EVENT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    Union[tuple(EVENT_TYPES.values())],  # noqa: UP007 - of however many there are
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
        event: Event = _EVENT.decode(document)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        # What is malformed is that first, whatever else is wrong and wherever it was noticed.
        fault = _fault(document)
        if fault is None and isinstance(error, msgspec.ValidationError):
            raise _explained(error, document) from None
        raise EventRefused(Reason.MALFORMED, fault or str(error)) from None
    if _is_too_deep(tree, document, event) or _doubles_a_key(tree, document):
        raise EventRefused(Reason.MALFORMED, _fault(document) or "Expected each key once")
    if event.time < EARLIEST:
        raise EventRefused(
            Reason.INVALID,
            f"Expected a time from 2020 on, got `{format_instant(event.time)}` - at `$.time`",
        )
    return event


def decode_admitted(document: bytes) -> Event:
    """Read a document that `decode_event` has read before; half the time.

    Raises EventRefused for what no event can be made of; what else `decode_event` would refuse,
    such as a key that stands twice, is not looked for again.
    """
    try:
        event: Event = _EVENT.decode(document)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return decode_event(document)
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
    kept = bytes(digits).rstrip(b"\0")
    if not kept:
        return 0
    exponent += len(digits) - len(kept)
    number = Decimal((sign, tuple(kept), exponent))
    # Exact: a whole number of fewer than 310 digits, or the decode before would have refused it.
    return int(number) if exponent >= 0 else number


_CONTENT_IN = msgspec.json.Decoder(float_hook=_plain_number)
_CONTENT_OUT = msgspec.json.Encoder(order="sorted", decimal_format="number")

_TOO_DEEP = f"Expected at most {NESTING_MAX} levels of arrays and objects, got more"


def _is_too_deep(tree: Tree, document: bytes, event: Event) -> bool:
    # However they nest, steps are one level; and most documents have few brackets beside them.
    steps = len(event.data.steps) if isinstance(event, events.TraceClosedEvent) else 0
    if document.count(b"{") + document.count(b"[") - steps < NESTING_MAX:
        return False
    level: list[Tree] = [tree]
    for _ in range(NESTING_MAX):
        level = [v for one in level for _, v in _members(one) if isinstance(v, (dict, list))]
        if not level:
            return False
    return True


def _members(tree: Tree) -> Iterable[tuple[str | int, Any]]:
    if isinstance(tree, dict):
        return cast("dict[str, Any]", tree).items()
    return enumerate(cast("list[Any]", tree))


def _doubles_a_key(tree: Tree, document: bytes) -> bool:
    # A document with a doubled key cannot come out as it went in, but for white space; only what
    # differs otherwise, by an escape or by the spelling of a number, is worth the slower look.
    again = _AGAIN.encode(tree)
    if again == document or again == msgspec.json.format(document, indent=-1):
        return False
    doubled = False

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal doubled
        distinct = dict(pairs)
        doubled |= len(distinct) < len(pairs)
        return distinct

    json.loads(document, object_pairs_hook=members, parse_int=str, parse_float=str)
    return doubled


class _Fault(str):
    """Stands in a decoded document for what no event may hold."""

    __slots__ = ()


def _distinct(pairs: list[tuple[str, object]]) -> object:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Fault(f"Expected each key once, got `{_printable(key)}` twice")
        seen.add(key)
    raise AssertionError("the members are fewer than the pairs")


def _finite(text: str) -> object:
    try:
        return _number(text)
    except ValueError as error:
        return _Fault(error)


def _whole(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return _Fault(f"Expected an integer of at most 4300 digits, got `{shorten(text)}`")


def _fault(document: bytes) -> str | None:
    """Say why and where a document is malformed (SPEC 2); None if it is not. Slow.

    The standard library reads more than an event may hold (doubled keys, NaN, lone surrogates)
    and so can name the path; where it stops too, it counts lines and columns.
    """
    try:
        tree = json.loads(
            document.decode(),
            object_pairs_hook=_distinct,
            parse_int=_whole,
            parse_float=_finite,
            parse_constant=_finite,
        )
    except RecursionError:
        return _TOO_DEEP
    except ValueError as place:
        return f"Expected one JSON document in UTF-8: {place}"
    found = _fault_in(tree, 1)
    return None if found is None else f"{found[0]} - at `${found[1]}`"


def _fault_in(value: Tree, level: int) -> tuple[str, str] | None:
    """The first fault in a tree and its path from there; `level` counts the value itself."""
    if isinstance(value, _Fault):
        return value, ""
    if isinstance(value, str) and not _is_unicode(value):
        return f"Expected no lone surrogates, got `{_printable(value)}`", ""
    if not isinstance(value, (dict, list)):
        return None
    if level > NESTING_MAX:
        return _TOO_DEEP, ""
    for key, member in _members(value):
        if isinstance(key, str) and not _is_unicode(key):
            return f"Expected no lone surrogates, got the key `{_printable(key)}`", ""
        if found := _fault_in(member, level + 1):
            return found[0], (f".{shorten(key)}" if isinstance(key, str) else f"[{key}]") + found[1]
    return None


_SURROGATE = re.compile("[\ud800-\udfff]")


def _is_unicode(text: str) -> bool:
    return text.isascii() or _SURROGATE.search(text) is None


def _printable(text: str) -> str:
    return shorten(text.encode("utf-8", "backslashreplace").decode())


_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _explained(error: msgspec.ValidationError, document: bytes) -> EventRefused:
    """Turn msgspec's words into path, got and wanted, and tell an unknown type apart."""
    match = _AT.match(str(error))
    assert match is not None
    what, path = match["what"], match["path"] or "$"
    tree = _TREE.decode(document)
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
    elif what.startswith("Object missing"):
        what = f"Expected the {what.removeprefix('Object missing ')}, got an object without it"
    elif "got " not in what:
        what = f"{what}, got {_shown(got)}"
    return EventRefused(Reason.INVALID, f"{what} - at `{path}`")


def _value(tree: Tree, parts: list[str | int]) -> object:
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
    if isinstance(value, list):
        return f"an array of {len(cast('list[object]', value))}"
    if isinstance(value, str):
        return f"`{json.dumps(shorten(value), ensure_ascii=False)}`"
    return f"`{shorten(json.dumps(value, ensure_ascii=False, default=str))}`"
