"""The publisher for Python runtimes: idempotent, acknowledged, bounded, with receipts.

An event is durable when `publish` returns. What may be tried again is tried again: an event that
arrives twice has no effect, since correlation knows its id.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, NodeNotReadyError
from msgspec import Struct
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_delay,
    wait_exponential_jitter,
)

from trustfold_projections.laws.admission import admit
from trustfold_projections.laws.correlation import log_key_of
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import (
    ApprovalDecidedEvent,
    Event,
    UndoExecutedEvent,
)
from trustfold_schemas.facts import Role, Stamp
from trustfold_streams.kafka.clients import new_producer
from trustfold_streams.kafka.errors import BrokerSlowError, BrokerUnreachableError
from trustfold_streams.kafka.records import CONTENT_TYPE
from trustfold_streams.kafka.settings import InputTopic, KafkaSettings

IN_FLIGHT_MAX = 10_000
"""Events that wait for their acknowledgement; a further `publish` waits for room."""
LINGER_MS = 5
GIVE_UP_SECONDS = 60.0


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
        give_up_seconds: float = GIVE_UP_SECONDS,
    ) -> None:
        self.settings = settings
        self.role: Role = role
        self._room = asyncio.Semaphore(in_flight_max)
        self._give_up_seconds = give_up_seconds
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
            await self._producer.stop()

    async def publish(self, document: bytes) -> Receipt:
        """Publish one event's document; durable when this returns.

        What the stages would refuse by itself is sent all the same, so that it is kept as a dead
        letter, and EventRefused says so here. Raises BrokerSlowError after the bounded time.
        """
        refused: EventRefused | None = None
        try:
            event = admit(document, Stamp(self.role))
            topic, key = topic_of(event, self.role), log_key_of(event)
        except EventRefused as error:
            refused, topic, key = error, refusal_topic(document, self.role), ""
        async with self._room:
            receipt = await self._send(topic, key.encode(), document)
        if refused is not None:
            raise refused
        return receipt

    async def _send(self, topic: InputTopic, key: bytes, document: bytes) -> Receipt:
        assert self._producer is not None
        try:
            async for attempt in AsyncRetrying(
                retry=retry_if_exception(_may_be_tried_again),
                wait=wait_exponential_jitter(initial=0.05, max=2.0),
                stop=stop_after_delay(self._give_up_seconds),
                reraise=True,
            ):
                with attempt:
                    sent = await self._producer.send_and_wait(
                        self.settings.topic(topic), document, key=key, headers=[CONTENT_TYPE]
                    )
                    return Receipt(sent.topic, sent.partition, sent.offset)
        except KafkaError as error:
            raise BrokerSlowError(
                f"an event for {self.settings.topic(topic)} was not acknowledged within "
                f"{self._give_up_seconds:g} s: {type(error).__name__} {error}"
            ) from error
        raise AssertionError("tenacity ends by an answer or an error")


def _may_be_tried_again(error: BaseException) -> bool:
    return isinstance(error, KafkaTimeoutError | KafkaConnectionError | NodeNotReadyError) or (
        isinstance(error, KafkaError) and bool(error.retriable)
    )


def topic_of(event: Event, role: Role) -> InputTopic:
    """The input topic of an event. Approvals and undos by rule or policy travel on `step`."""
    if isinstance(event, ApprovalDecidedEvent | UndoExecutedEvent):
        by = event.data.decided_by if isinstance(event, ApprovalDecidedEvent) else event.data.by
        if by.kind != "human" or role == "runtime":
            return "step"
    topic: InputTopic = event.topic  # type: ignore[assignment]
    return topic


def refusal_topic(document: bytes, role: Role) -> InputTopic:
    """Where a document goes that will be refused: a topic that the role may write to."""
    del document
    by_role: dict[Role, InputTopic] = {"human": "approval", "operator": "signals"}
    return by_role.get(role, "step")
