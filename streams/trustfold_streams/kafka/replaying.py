"""Taking a dead letter in again: to the topic it came from, and a mark beside it that it was."""

from __future__ import annotations

from typing import Final

from trustfold_projections.laws.admission import admit
from trustfold_projections.laws.correlation import log_key_of
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.facts import Stamp
from trustfold_schemas.receipts import Receipt
from trustfold_schemas.stored_dead_letters import StoredDeadLetter, replay_body
from trustfold_streams.kafka.publisher import LOGS, Publisher, Route, route
from trustfold_streams.kafka.records import CONTENT_TYPE, Output, Replayed, replayed_output
from trustfold_streams.kafka.settings import INPUT_TOPICS, InputTopic, KafkaSettings

_BY_NAME: Final[dict[str, InputTopic]] = {name: name for name in INPUT_TOPICS}


async def replay(
    publisher: Publisher, letter: StoredDeadLetter, repaired: bytes | None, stamp: Stamp | None
) -> Receipt:
    """Publish a dead letter again; it is marked once the broker has it.

    It goes to the topic it came from, whose role is that of its first publisher, unless a stamp
    is given: then to the topic of that role. What would be refused by itself is not sent.
    """
    settings = publisher.settings
    body = replay_body(letter, repaired)
    origin = None if stamp is not None else origin_topic(settings, letter.origin)
    way = route(body, publisher.role, settings) if origin is None else _back(body, origin, settings)
    if way.refused is not None:
        return Receipt("dead_letters", None, way.refused.reason, way.refused.detail)
    sent = await publisher.send(
        Output(settings.topic(way.topic), -1, way.key, body, [CONTENT_TYPE])
    )
    mark = Replayed(
        letter=letter.dead_letter_id,
        event_id=decode_event(body).id,
        origin=f"{sent.topic}/{sent.partition}/{sent.offset}",
    )
    # In the letter's own partition, so that whoever reads one reads both.
    partition = letter.dead_letter_id % settings.partitions
    await publisher.send(replayed_output(settings.topic("dead-letters"), partition, mark))
    return Receipt("accepted")


def origin_topic(settings: KafkaSettings, origin: str) -> InputTopic | None:
    """The input topic of an origin `topic/partition/offset`; None if it is of no stage's input."""
    name = _BY_NAME.get(origin.split("/", maxsplit=1)[0].removeprefix(settings.prefix))
    return None if name in LOGS else name


def _back(body: bytes, topic: InputTopic, settings: KafkaSettings) -> Route:
    try:
        event = admit(body, settings.stamp(topic))
    except EventRefused as error:
        return Route(topic, b"", error)
    return Route(topic, log_key_of(event).encode())
