"""The topics as an AsyncAPI 3.0 document, generated from the types that are written and read.

`python -m trustfold_streams.asyncapi FILE` writes it; that of this version is docs/asyncapi.json,
beside the JSON Schemas in docs/schemas that its messages refer to. What a topic must be set to
stands in `kafka.topic_rules`, and is copied from there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import click
import msgspec
from msgspec import Struct

from trustfold_schemas.decoding import EVENT_TYPES
from trustfold_schemas.published import DIALECT, event_schema
from trustfold_streams.agents.synapse import SynapseRecord
from trustfold_streams.agents.watch import WatchRecord
from trustfold_streams.kafka.apart import APART
from trustfold_streams.kafka.records import Progress, Replayed
from trustfold_streams.kafka.score_records import ScoreJson
from trustfold_streams.kafka.settings import INPUT_TOPICS, ROLES, InputTopic, KafkaSettings
from trustfold_streams.kafka.topics import declared

Json = dict[str, Any]

BINDING: Final = "0.5.0"
CLOUDEVENTS: Final = "application/cloudevents+json"
JSON_SCHEMA: Final = "application/schema+json;version=draft-2020-12"
BYTES: Final = "application/octet-stream"

ON_STEP: Final = ("trustfold.approval.decided.v1", "trustfold.undo.executed.v1")
"""What travels on `step`, too, where a rule or a policy decided and no human."""

OWN: Final[Mapping[str, str]] = {
    "facts": "Every accepted event, with the stamp of its publisher as headers. The timestamp is "
    "the log's: the event's recorded moment. Kept for ever.",
    "ledger": "Envelopes of ledger entries, a batch each: everything that ever moved a score. Kept "
    "for ever.",
    "scores": "The materialized table: the last record of a key is the subject's score. A key that "
    "begins with a NUL byte is a worker's bookkeeping.",
    "traces": "What correlation knows of each trace; a worker's own.",
    "decisions": "Verdicts, each recorded before it was answered.",
    "synapse": "The weights of self-play: the last record of a key is that of its context.",
    "watch": "Crossings of thresholds and drift of scores.",
    "progress": "How far each stage is in each partition, at least every 5 seconds.",
    "dead-letters": "What was refused: its bytes and headers, with reason and origin as headers; "
    "and marks of those that were replayed.",
    "agents-synapse-changelog": "The table of an agent; a worker's own.",
    "agents-watch-changelog": "The table of an agent; a worker's own.",
}

STAMP: Final[Json] = {
    "tf-role": {"type": "string", "description": "The role in which it was published."},
    "tf-identity": {"type": "string", "description": "As whom; absent: nobody in particular."},
    "tf-scopes": {
        "type": "string",
        "description": "A JSON array of the scopes the publisher may speak of; absent: all.",
    },
}
ORIGIN: Final[Json] = {"type": "string", "description": "topic/partition/offset that it came from."}


def document(settings: KafkaSettings | None = None) -> Json:
    """The whole document, for the default prefix and number of partitions unless told."""
    known = KafkaSettings("localhost:9092") if settings is None else settings
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "trustfold on Kafka",
            "version": "1",
            "description": "Publishers write CloudEvents 1.0 to the input topics; the pipeline "
            "folds them into the compacted topic `scores`. All topics take a prefix from the "
            "configuration. See docs/kafka.md.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": CLOUDEVENTS,
        "servers": {
            "broker": {
                "host": "{bootstrap}",
                "protocol": "kafka",
                "variables": {"bootstrap": {"default": known.bootstrap}},
            }
        },
        "channels": {name: _channel(name, known) for name in (*INPUT_TOPICS, *OWN)},
        "operations": {
            **{f"receive.{name}": _operation("receive", name) for name in INPUT_TOPICS},
            **{f"send.{name}": _operation("send", name) for name in OWN},
        },
        "components": {"messages": _messages()},
    }


def _channel(name: str, settings: KafkaSettings) -> Json:
    topic = declared(settings)[settings.topic(name)]
    rules = {rule.key: rule.create for rule in topic.rules}
    messages = _messages_of(name)
    return {
        "address": topic.name,
        "description": _prose_of(name),
        "messages": {one: {"$ref": f"#/components/messages/{one}"} for one in messages},
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": topic.new_partitions,
                "topicConfiguration": {
                    "cleanup.policy": [rules["cleanup.policy"]],
                    **(
                        {"retention.ms": int(rules["retention.ms"])}
                        if "retention.ms" in rules
                        else {}
                    ),
                    **(
                        {"max.message.bytes": int(rules["max.message.bytes"])}
                        if "max.message.bytes" in rules
                        else {}
                    ),
                },
                "bindingVersion": BINDING,
            }
        },
    }


def _prose_of(name: str) -> str:
    if name in OWN:
        return OWN[name]
    topic: InputTopic = next(one for one in INPUT_TOPICS if one == name)
    apart = " One partition, kept for ever." if topic in APART else ""
    return f"Events of publishers in the role `{ROLES[topic]}`: the topic says the role.{apart}"


def _operation(action: str, name: str) -> Json:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{name}"},
        "messages": [{"$ref": f"#/channels/{name}/messages/{one}"} for one in _messages_of(name)],
    }


def _messages_of(name: str) -> list[str]:
    """The messages of a topic, by their names in `components`."""
    types = [
        type_name
        for type_name, event in EVENT_TYPES.items()
        if event.topic == name or (name == "step" and type_name in ON_STEP)
    ]
    if types:
        return types
    if name == "facts":
        return [
            f"fact.{type_name}"
            for type_name, event in EVENT_TYPES.items()
            if event.topic not in APART
        ]
    return [one for one, (topic, _) in _OWN_MESSAGES.items() if topic == name]


# ---- messages ------------------------------------------------------------------------------------


def _messages() -> Json:
    made: Json = {}
    for name, event in EVENT_TYPES.items():
        schema = event_schema(name)
        message = {
            "name": name,
            "title": schema["title"],
            "summary": _prose(event),
            "contentType": CLOUDEVENTS,
            "payload": _payload({"$ref": f"schemas/{name}.json"}),
        }
        made[name] = message
        if event.topic not in APART:
            made[f"fact.{name}"] = message | {
                "name": f"fact.{name}",
                "headers": _headers({**STAMP, "tf-origin": ORIGIN}, "tf-role", "tf-origin"),
            }
    return made | {name: {"name": name, **message} for name, (_, message) in _OWN_MESSAGES.items()}


def _payload(schema: Json) -> Json:
    return {"schemaFormat": JSON_SCHEMA, "schema": schema}


def _headers(properties: Json, *required: str) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


def _of(shape: type[Struct], **more: Json) -> Json:
    """The schema of a record, complete in itself."""
    made = msgspec.json.schema(shape, ref_template="#/$defs/{name}")
    # One document holds many: what a record refers to is written where it is referred to.
    parts: Json = made["$defs"]

    def inlined(value: object) -> Any:
        if isinstance(value, list):
            return [inlined(one) for one in cast("list[object]", value)]
        if not isinstance(value, dict):
            return value
        said = cast("Json", value)
        if "$ref" in said:
            return inlined(parts[said["$ref"].rpartition("/")[2]])
        return {key: inlined(one) for key, one in said.items()}

    schema: Json = inlined(made)
    schema.pop("$defs", None)
    schema["description"] = _prose(shape)
    schema["properties"] |= more
    return {"$schema": DIALECT, **schema}


def _prose(shape: type) -> str:
    return " ".join(re.sub(r"\s+", " ", inspect.getdoc(shape) or "").split())


_LETTER: Final[Json] = {
    **STAMP,
    "tf-reason": {"type": "string", "description": "Why it was refused; a closed enumeration."},
    "tf-detail": {"type": "string", "description": "What was got and what was wanted."},
    "tf-origin": ORIGIN,
}

_OWN_MESSAGES: Final[Mapping[str, tuple[str, Json]]] = {
    "envelope": (
        "ledger",
        {
            "summary": "An array of [partition, offset, number, entry] in MessagePack: where the "
            "fact stood, the number of the entry among the fact's, and the entry as the array of "
            "its fields in the order of schemas/entry.json. (offset, number) grows within a "
            "partition of facts; what is not greater came before.",
            "contentType": "application/msgpack",
        },
    ),
    "score": (
        "scores",
        {
            "summary": "The score of a subject; the key is the subject's.",
            "contentType": "application/json",
            "payload": _payload(
                _of(
                    ScoreJson,
                    checksum={"type": "string", "description": "SHA-256 of all before it, as hex."},
                )
            ),
        },
    ),
    "decision": (
        "decisions",
        {
            "summary": "A verdict with the action it answers; the key is the action's trace. Of "
            "several on one question within a day the first holds, unless a later one asks where "
            "it allowed.",
            "contentType": "application/json",
            "payload": _payload({"$ref": "schemas/decision.json"}),
        },
    ),
    "synapse": (
        "synapse",
        {
            "summary": "The weights of a context; the key is the context.",
            "contentType": "application/json",
            "payload": _payload(_of(SynapseRecord)),
        },
    ),
    "finding": (
        "watch",
        {
            "summary": "A crossing or a drift; the key is the subject's.",
            "contentType": "application/json",
            "payload": _payload(_of(WatchRecord)),
        },
    ),
    "progress": (
        "progress",
        {
            "summary": "How far a stage is in a partition; the key is stage/partition.",
            "contentType": "application/json",
            "payload": _payload(_of(Progress)),
        },
    ),
    "letter": (
        "dead-letters",
        {
            "summary": "What was refused, byte for byte; the key is its origin.",
            "contentType": BYTES,
            "headers": _headers(_LETTER, "tf-reason", "tf-detail", "tf-origin", "tf-role"),
        },
    ),
    "replayed": (
        "dead-letters",
        {
            "summary": "That a dead letter was taken in after all; void if that was refused, too.",
            "contentType": "application/json",
            "headers": _headers({"tf-replayed": {"type": "string"}}, "tf-replayed"),
            "payload": _payload(_of(Replayed)),
        },
    ),
}


def file_of(made: Json) -> bytes:
    """A document as its file holds it."""
    return msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n"


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def main(file: Path) -> None:
    """Write the document to FILE."""
    file.write_bytes(file_of(document()))


if __name__ == "__main__":
    main()
