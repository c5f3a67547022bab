"""The publisher for Python runtimes: idempotent, acknowledged, bounded, with receipts.

An event is durable when `publish` returns. What may be tried again is tried again: an event that
arrives twice has no effect, since correlation knows its id.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, NodeNotReadyError
from msgspec import Struct
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_delay,
    wait_random_exponential,
)

from trustfold_projections.laws.admission import admit
from trustfold_projections.laws.correlation import log_key_of
from trustfold_schemas.decoding import EVENT_BYTES_MAX, EVENT_TYPES
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import (
    ApprovalDecidedEvent,
    Event,
    UndoExecutedEvent,
)
from trustfold_schemas.facts import Role, Stamp
from trustfold_streams.kafka.clients import new_producer, stop_producer
from trustfold_streams.kafka.errors import (
    BrokerRefusedError,
    BrokerSlowError,
    BrokerUnreachableError,
    ReaderRoleError,
)
from trustfold_streams.kafka.records import CONTENT_TYPE, Output
from trustfold_streams.kafka.settings import INPUT_TOPICS, ROLES, InputTopic, KafkaSettings

IN_FLIGHT_MAX = 10_000
"""Events that wait for their acknowledgement; a further `publish` waits for room."""
LINGER_MS = 5
GIVE_UP_SECONDS = 60.0
"""So long an event may take to be acknowledged; after that it may still arrive, or not."""
STOP_SECONDS_MAX = 10.0
KEPT_BYTES_MAX: Final = (2 << 20) - (64 << 10)
"""Of a document that is too large to be an event so much is sent, and kept as its dead letter: an
input topic takes records of 2 MiB."""

LOGS: Final = frozenset({"policy", "cost-median"})
"""Input topics that are logs of their own: no stage reads them, so nothing is refused there."""


class Receipt(Struct, frozen=True):
    """Where an event became durable."""

    topic: str
    partition: int
    offset: int


class Publisher:
    """Publishes events in one role. Use with `async with`; any number of tasks may call it."""

    def __init__(
        self,
        settings: KafkaSettings,
        role: Role = "owner",
        *,
        in_flight_max: int = IN_FLIGHT_MAX,
        give_up_seconds: float | None = None,
    ) -> None:
        """`give_up_seconds` None: GIVE_UP_SECONDS."""
        self.settings = settings
        self.role: Role = role
        self._room = asyncio.Semaphore(in_flight_max)
        self._give_up_seconds = GIVE_UP_SECONDS if give_up_seconds is None else give_up_seconds
        self._producer: AIOKafkaProducer | None = None

    async def __aenter__(self) -> Self:
        self._producer = new_producer(
            self.settings, f"{self.settings.app_id}-publisher", linger_ms=LINGER_MS
        )
        try:
            await self._producer.start()
        except KafkaConnectionError as error:
            await self._producer.stop()
            raise BrokerUnreachableError(
                f"no broker answers at {self.settings.bootstrap}: {error}"
            ) from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._producer is not None:
            await stop_producer(self._producer, STOP_SECONDS_MAX)

    async def publish(self, document: bytes) -> Receipt:
        """Publish one event's document; durable when this returns.

        What the stages would refuse by itself is sent all the same, so that it is kept as a dead
        letter, and EventRefused says so here.

        Raises:
            EventRefused: it becomes a dead letter.
            ReaderRoleError: nothing was sent.
            BrokerError: by its kind; it was not acknowledged.
        """
        if self.role == "reader":
            raise ReaderRoleError("the role reader publishes nothing: choose another")
        topic, key, refused = route(document, self.role, self.settings)
        if refused is not None:
            document = document[:KEPT_BYTES_MAX]
        name = self.settings.topic(topic)
        receipt = await self.send(Output(name, -1, key, document, [CONTENT_TYPE]))
        if refused is not None:
            raise refused
        return receipt

    async def send(self, output: Output) -> Receipt:
        """Send a record as it is, with its own key and headers; durable when this returns.

        Partition -1 leaves the choice to the client.
        """
        async with self._room:
            return await self._send(output)

    async def _send(self, output: Output) -> Receipt:
        assert self._producer is not None
        try:
            # A client that is idempotent tries for ever by itself.
            async with asyncio.timeout(self._give_up_seconds):
                return await self._try(self._producer, output)
        except (KafkaError, TimeoutError) as error:
            said = f"{type(error).__name__} {error}".rstrip()
            if isinstance(error, KafkaError) and not _may_be_tried_again(error):
                raise BrokerRefusedError(
                    f"the broker took no event for {output.topic}: {said}"
                ) from error
            raise BrokerSlowError(
                f"an event for {output.topic} was not acknowledged within "
                f"{self._give_up_seconds:g} s: {said}"
            ) from error

    async def _try(self, producer: AIOKafkaProducer, output: Output) -> Receipt:
        partition = None if output.partition < 0 else output.partition
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(_may_be_tried_again),
            wait=wait_random_exponential(multiplier=0.05, max=2.0),
            stop=stop_after_delay(self._give_up_seconds),
            reraise=True,
        ):
            with attempt:
                sent = await producer.send_and_wait(
                    output.topic,
                    output.value,
                    key=output.key,
                    partition=partition,
                    headers=list(output.headers),
                )
                return Receipt(sent.topic, sent.partition, sent.offset)
        raise AssertionError("tenacity ends by an answer or an error")


def _may_be_tried_again(error: BaseException) -> bool:
    return isinstance(error, KafkaTimeoutError | KafkaConnectionError | NodeNotReadyError) or (
        isinstance(error, KafkaError) and bool(error.retriable)
    )


class Route(NamedTuple):
    """Where a document goes and under which key; why the stages will refuse it, if they will."""

    topic: InputTopic
    key: bytes
    refused: EventRefused | None = None


def route(document: bytes, role: Role, settings: KafkaSettings) -> Route:
    """Where a publisher of this role sends a document.

    On Kafka the topic says the role, and its configuration the scopes: both are judged as the
    stages will judge them.
    """
    try:
        event = admit(document, Stamp(role))
    except EventRefused as error:
        return Route(refusal_topic(document, role), b"", error)
    topic, key = topic_of(event, role), log_key_of(event).encode()
    stamp = settings.stamp(topic)
    if stamp.scopes is not None:
        try:
            admit(document, stamp)
        except EventRefused as error:
            return Route(topic, key, error)
    return Route(topic, key)


def topic_of(event: Event, role: Role) -> InputTopic:
    """The input topic of an event. Approvals and undos by rule or policy travel on `step`."""
    if isinstance(event, ApprovalDecidedEvent | UndoExecutedEvent):
        by = event.data.decided_by if isinstance(event, ApprovalDecidedEvent) else event.data.by
        if role == "runtime" or (by.kind != "human" and role != "human"):
            return "step"
    topic: InputTopic = event.topic  # type: ignore[assignment]
    return topic


class _Typed(msgspec.Struct):
    type: Any = None


def refusal_topic(document: bytes, role: Role) -> InputTopic:
    """Where a document goes that will be refused.

    The topic of its type, if it says one and the role may write there, so that a repaired one can
    follow it; else a topic of the role.
    """
    by_role: dict[Role, InputTopic] = {"human": "approval", "operator": "signals"}
    fallback = by_role.get(role, "step")
    if len(document) > EVENT_BYTES_MAX:
        return fallback
    try:
        said = msgspec.json.decode(document, type=_Typed).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return fallback
    event = EVENT_TYPES.get(said) if isinstance(said, str) else None
    for topic in INPUT_TOPICS:
        if event is not None and topic == event.topic and topic not in LOGS:
            return topic if role in ("owner", ROLES[topic]) else fallback
    return fallback
