"""Records as Faust hands them to an agent, and what an agent has around it: no broker, no Faust."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from trustfold_streams.agents.rows import Poison, Sent, Tally
from trustfold_streams.kafka.settings import KafkaSettings

SETTINGS = KafkaSettings("one:9092", "p.", 4)


class Message(NamedTuple):
    """What an agent looks at of a record."""

    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes | None


class Written(NamedTuple):
    """A record on an agent's own topic."""

    key: bytes
    value: bytes
    partition: int


class Table:
    """Rows in a dict. A row that is sent is `lost` when told so, as if we ended before."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.lost = False

    def get(self, key: bytes) -> bytes | None:
        """A row."""
        return self.rows.get(key)

    def put(self, key: bytes, row: bytes) -> Awaitable[None]:
        """Keep a row."""
        if not self.lost:
            self.rows[key] = row
        return asyncio.sleep(0)


class Agent(Protocol):
    """What both agents are."""

    tally: Tally

    async def take(self, message: Any) -> Sequence[Sent]:
        """Take one record."""
        ...


class Bench:
    """An agent at work; `made` builds it around the table and the topic here."""

    def __init__(self, made: Callable[[Any, Any], Agent]) -> None:
        self.table = Table()
        self.written: list[Written] = []
        self._made = made
        self.agent = made(self.table, self._send)

    async def _send(self, key: bytes, value: bytes, partition: int) -> Sent:
        self.written.append(Written(key, value, partition))
        return asyncio.sleep(0)

    def restart(self) -> None:
        """A new process: the table is restored, everything else forgotten."""
        self.agent = self._made(self.table, self._send)

    def take(self, *messages: Message) -> None:
        """Hand records to the agent as its loop does."""

        async def taken() -> None:
            for message in messages:
                try:
                    sent = await self.agent.take(message)
                except Poison:
                    self.agent.tally.poison += 1
                else:
                    await asyncio.gather(*sent)

        asyncio.run(taken())
