"""What the agents share: rows that are durable before an event counts as done, and their loop.

Faust itself acknowledges an event whose agent failed, and only logs a changelog record that was
not written. So an event is acknowledged when what came of it is durable, and whatever is unexpected
ends the process at once: the next one begins behind the last event that was acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import faust
from faust.types import FutureMessage, Message
from msgspec import Struct

from trustfold_schemas.errors import TrustfoldError
from trustfold_streams.agents.driver import Handover

log = logging.getLogger("trustfold.agents")

BYTES: dict[str, Any] = {"key_type": bytes, "value_type": bytes}
"""Tables carry bytes, which Faust keeps raw; what they mean is ours to decode."""
RAW: dict[str, Any] = {**BYTES, "key_serializer": "raw", "value_serializer": "raw"}
"""So do topics, and there it must be said."""

HighWater = dict[str, int]
"""Per `topic/partition` the offset of the last record that a row counted."""

Sent = Awaitable[Any]
"""Ends when something that was sent is durable; raises if it never will be."""

Send = Callable[[bytes, bytes, int], Awaitable[Sent]]
"""Sends key and value to a partition of an agent's own topic."""

IN_FLIGHT_MAX = 500
"""Events whose writes are on their way: waiting for each would cost every event a linger."""

Crash = Callable[[BaseException], Any]
"""Ends the process at once; only a test lets it return."""


class Tally(Struct):
    """What an agent did with its records since it started."""

    counted: int = 0
    ignored: int = 0
    repeated: int = 0
    poison: int = 0
    written: int = 0
    """Records written to the agent's own topic."""


class Poison(TrustfoldError):
    """A record that cannot be read: it is counted, and the next one is taken."""


class AckedTable(faust.Table[bytes, bytes]):
    """A table that tells when a row is durable, for one agent of concurrency 1.

    Rows are assigned anew, never mutated and never deleted: Faust would not notice the one, and
    loses track of the other.
    """

    _sent: FutureMessage | None = None

    @classmethod
    def of(cls, app: faust.App, name: str, partitions: int) -> AckedTable:
        """Register a table with an application; its changelog must exist (kafka.topic_rules)."""
        table = cls(app, name=name, partitions=partitions, beacon=app.tables.beacon, **BYTES)
        app.tables.add(table)
        return table

    def send_changelog(
        self,
        partition: int | None,
        key: Any,
        value: Any,
        key_serializer: Any = None,
        value_serializer: Any = None,
    ) -> FutureMessage:
        """Send a row to the changelog, and remember its acknowledgement."""
        self._sent = super().send_changelog(partition, key, value, key_serializer, value_serializer)
        return self._sent

    def put(self, key: bytes, row: bytes) -> Sent:
        """Assign a row; what is returned ends when it is durable."""
        self[key] = row
        assert self._sent is not None
        return self._sent


async def each(
    stream: faust.Stream[bytes],
    take: Callable[[Message], Awaitable[Sequence[Sent]]],
    tally: Tally,
    name: str,
    handover: Handover,
    crash: Crash,
) -> None:
    """Hand every record of a stream to `take`, one after the other.

    It answers with what it sent; the record is acknowledged when all of that is durable, while
    those behind it are already taken. A record that it finds to be Poison is logged and counted;
    any other error ends the process.
    """
    settling: asyncio.Queue[tuple[faust.Event, Sequence[Sent]]] = asyncio.Queue(IN_FLIGHT_MAX)
    settler = asyncio.create_task(
        _settle(stream, settling, handover, crash), name=f"{name}-settler"
    )
    try:
        async for event in stream.noack().events():
            message = event.message
            handover.take(message.topic, message.partition, message.offset)
            sent: Sequence[Sent] = ()
            try:
                sent = await take(message)
            except Poison as error:
                tally.poison += 1
                log.warning(
                    "%s: %s cannot be read and is passed over: %s",
                    name, _offset(message), error,
                )  # fmt: skip
            await settling.put((event, sent))
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        crash(error)
        raise
    finally:
        settler.cancel()


async def _settle(
    stream: faust.Stream[bytes],
    settling: asyncio.Queue[tuple[faust.Event, Sequence[Sent]]],
    handover: Handover,
    crash: Crash,
) -> None:
    """Acknowledge records when they are durable, strictly in order.

    A trap: Faust commits up to what was acknowledged last, whatever before it was not.
    """
    try:
        while True:
            event, sent = await settling.get()
            await asyncio.gather(*sent)
            await stream.ack(event)
            handover.settle(event.message.topic, event.message.partition)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        crash(error)
        raise


def _offset(message: Message) -> str:
    return f"{place(message)}/{message.offset}"


def place(message: Message) -> str:
    """The source partition of a record, as high-water marks name it."""
    return f"{message.topic}/{message.partition}"
