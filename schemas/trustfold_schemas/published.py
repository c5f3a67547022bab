"""JSON Schema (draft 2020-12) for other languages, generated from the same types that decode.

One document a type, each complete in itself. Where a limit cannot be said in JSON Schema, the
description says it. `python -m trustfold_schemas.published DIR` writes them all; those of this
version are in `docs/schemas`.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Final

import msgspec

from trustfold_schemas import events
from trustfold_schemas.amounts import MICRO_USD_MAX, PPM, MicroUsd, Ppm
from trustfold_schemas.decisions import Decision
from trustfold_schemas.decoding import EVENT_BYTES_MAX, EVENT_TYPES, NESTING_MAX
from trustfold_schemas.instants import Instant
from trustfold_schemas.ledger import COMPONENTS, Entry
from trustfold_schemas.scores import TrustScore
from trustfold_schemas.subject import RUNTIME

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
URN: Final = "urn:trustfold:"

Schema = dict[str, Any]

_DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
INSTANT_PATTERN: Final = f"^{_DATE}[Tt]{_CLOCK}:[0-5][0-9]([.][0-9]+)?([Zz]|[+-]{_CLOCK})$"
"""RFC 3339 with a zone and without leap seconds; that the day exists is beyond a pattern."""

_ATTRIBUTES: Final = {
    "type": "What happened, with the version of the shape of `data`.",
    "specversion": "The version of CloudEvents.",
    "id": "With `source` the key of idempotency: again with the same content is a duplicate.",
    "source": "Which system speaks.",
    "time": "When it happened: from 2020 on, at most 5 minutes ahead of the log.",
    "subject": "An attribute of CloudEvents; not read.",
    "traceparent": "The W3C trace context; not read.",
}

_EVERYWHERE: Final = (
    "Fields that are not listed are accepted and ignored. Beyond what JSON Schema can say: a "
    f"document is at most {EVENT_BYTES_MAX} bytes of UTF-8 without a byte order mark and at most "
    f"{NESTING_MAX} levels deep; no key occurs twice in an object, in fields that are not listed "
    "too; strings have no lone surrogates, lengths count code points; numbers are finite as a "
    "double, and an integer is written without fraction and exponent; days exist in the calendar."
)

_BEYOND: Final[dict[type[events.Event], str]] = {
    events.TraceClosedEvent: (
        "The step ids in `steps` are distinct, and `step_count` is at least their number."
    ),
    events.SelfPlayCompletedEvent: ("Winner and loser are two, and the critic is neither of them."),
}
"""What one type alone refuses and JSON Schema cannot say."""

_OF_STEPS: Final = (
    events.SignalsReportedEvent,
    events.ApprovalDecidedEvent,
    events.UndoExecutedEvent,
)
"""Types whose subjects are those of steps; a rollback may name a global subject too."""


def event_schema(type_name: str) -> Schema:
    """The schema of one event's document. Raises KeyError for a type that nobody knows."""
    event = EVENT_TYPES[type_name]
    schema = _document(event, type_name)
    for name, text in _ATTRIBUTES.items():
        schema["properties"][name]["description"] = text
    data = next(field.type for field in msgspec.structs.fields(event) if field.name == "data")
    said = (_prose(event), _prose(data), f"Topic `{event.topic}`.", _BEYOND.get(event, ""))
    schema["description"] = " ".join(filter(None, (*said, _EVERYWHERE)))
    parts = schema["$defs"]
    if "Step" in parts:
        parts["Step"]["properties"]["tool"]["not"] = {"const": RUNTIME}
    if event in _OF_STEPS:
        parts["Subject"]["prefixItems"][1]["not"] = {"const": RUNTIME}
    return schema


def entry_schema() -> Schema:
    """The schema of a ledger entry."""
    schema = _document(Entry, "entry")
    for name in ("amounts", "weights"):
        schema["properties"][name]["description"] = f"In this order: {', '.join(COMPONENTS)}."
    return schema


def score_schema() -> Schema:
    """The schema of a TrustScore."""
    schema = _document(TrustScore, "score")
    for name in (*COMPONENTS, "raw_score", "freshness", "score"):
        schema["properties"][name] |= {"minimum": 0, "maximum": 1}
    for name in ("n_samples", "effective_samples", "effective_grants"):
        schema["properties"][name]["minimum"] = 0
    for name in ("last_updated", "last_bad_at", "last_grant_at"):
        schema["properties"][name]["anyOf"][0]["format"] = "date-time"
    return schema


def decision_schema() -> Schema:
    """The schema of a decision: an action, and its verdict with all that it rested on."""
    schema = _document(Decision, "decision")
    verdict = schema["$defs"]["Verdict"]["properties"]
    for name in ("raw_score", "freshness", "score", "human_coverage"):
        verdict[name] |= {"minimum": 0, "maximum": 1}
    return schema


def all_schemas() -> dict[str, Schema]:
    """Every published schema by its file's name, in order of the names."""
    schemas = {f"{type_name}.json": event_schema(type_name) for type_name in EVENT_TYPES}
    schemas |= {
        "decision.json": decision_schema(),
        "entry.json": entry_schema(),
        "score.json": score_schema(),
    }
    return dict(sorted(schemas.items()))


def file_of(schema: Schema) -> bytes:
    """A schema as its file holds it."""
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"


def _document(shape: type[msgspec.Struct], name: str) -> Schema:
    """One self-contained document: the struct itself on top, what it refers to in `$defs`."""
    made = msgspec.json.schema(shape, schema_hook=_written)
    parts: dict[str, Schema] = made["$defs"]
    for part in parts.values():
        part["description"] = " ".join(part["description"].split())
    top = parts.pop(shape.__name__) | {"title": name}
    return {"$schema": DIALECT, "$id": URN + name, **top, "$defs": parts}


def _written(shape: type) -> Schema:
    """How the types that JSON does not have are written."""
    if shape is Instant:
        return {"type": "string", "format": "date-time", "pattern": INSTANT_PATTERN}
    if shape is MicroUsd:
        return {
            "type": "number",
            "minimum": 0,
            "maximum": MICRO_USD_MAX // PPM,
            "description": "US dollars, rounded half to even to millionths.",
        }
    if shape is Ppm:
        return {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "description": "A share, rounded half to even to millionths.",
        }
    raise NotImplementedError(shape)


def _prose(shape: type) -> str:
    return " ".join((inspect.getdoc(shape) or "").split())


def main(arguments: list[str]) -> None:
    """Write every schema into a folder that exists."""
    if len(arguments) != 1:
        print("usage: python -m trustfold_schemas.published DIR", file=sys.stderr)  # noqa: T201
        raise SystemExit(2)
    for name, schema in all_schemas().items():
        with open(f"{arguments[0]}/{name}", "wb") as file:  # noqa: PTH123 - no paths in schemas
            file.write(file_of(schema))


if __name__ == "__main__":
    main(sys.argv[1:])
