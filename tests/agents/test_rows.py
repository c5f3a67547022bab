"""The agents' loop: acknowledged in order and never too early; what is unexpected ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agents.messages import Message
from trustfold_streams.agents.driver import Handover
from trustfold_streams.agents.rows import Poison, Sent, Tally, each


class Stream:
    """A stream of records that stays open, and what was acknowledged of it."""

    def __init__(self, count: int) -> None:
        self.acknowledged: list[int] = []
        self.messages = [Message("t", 0, n, 0.0, b"k", b"v") for n in range(count)]

    def noack(self) -> Stream:
        """Itself."""
        return self

    async def events(self) -> AsyncIterator[Any]:
        """The records; then nothing more comes."""
        for message in self.messages:
            yield SimpleNamespace(message=message)
        await asyncio.Event().wait()

    async def ack(self, event: Any) -> bool:
        """Note the offset."""
        self.acknowledged.append(event.message.offset)
        return True


class Loop:
    """The loop over a stream; a record's writes become durable when told."""

    def __init__(self, count: int) -> None:
        self.stream = Stream(count)
        self.tally = Tally()
        self.crashes: list[BaseException] = []
        self.handover = Handover()
        self.durable: dict[int, asyncio.Future[None]] = {}

    async def take(self, message: Any) -> Sequence[Sent]:
        """Offsets 1 and 4 write nothing, offset 3 is poison."""
        if message.offset == 3:
            raise Poison("no record")
        if message.offset in (1, 4):
            return ()
        self.durable[message.offset] = asyncio.get_running_loop().create_future()
        return [self.durable[message.offset]]

    async def run(self) -> None:
        """Run the loop until it is cancelled."""
        stream: Any = self.stream
        await each(stream, self.take, self.tally, "agent", self.handover, self.crashes.append)


async def turns() -> None:
    """Let everything that can go on, go on."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_acknowledged_in_order_and_not_before_they_are_durable() -> None:
    """A record that wrote nothing waits for the one before it: Faust would commit over that."""

    async def told() -> None:
        loop = Loop(6)
        running = asyncio.create_task(loop.run())
        await turns()
        assert set(loop.durable) == {0, 2, 5}  # all were taken, nobody waited
        assert loop.stream.acknowledged == []
        loop.durable[2].set_result(None)
        await turns()
        assert loop.stream.acknowledged == []
        loop.durable[0].set_result(None)
        await turns()
        assert loop.stream.acknowledged == [0, 1, 2, 3, 4]
        loop.durable[5].set_result(None)
        await turns()
        assert loop.stream.acknowledged == [0, 1, 2, 3, 4, 5]
        assert (loop.tally.poison, loop.crashes) == (1, [])
        running.cancel()

    asyncio.run(told())


def test_a_write_that_fails_ends_the_process() -> None:
    """What did not become durable is not acknowledged, nor anything behind it."""

    async def told() -> None:
        loop = Loop(3)
        running = asyncio.create_task(loop.run())
        await turns()
        loop.durable[0].set_exception(OSError("no broker"))
        loop.durable[2].set_result(None)
        await turns()
        assert [type(one) for one in loop.crashes] == [OSError]
        assert loop.stream.acknowledged == []
        running.cancel()

    # The settler fails once the process, which here goes on, should have ended.
    asyncio.run(told())


def test_an_error_in_the_agent_ends_the_process() -> None:
    """Anything but poison is no reason to go on with the next record."""

    async def told() -> None:
        loop = Loop(2)

        async def take(_: Any) -> Sequence[Sent]:
            raise ZeroDivisionError

        stream: Any = loop.stream
        with pytest.raises(ZeroDivisionError):
            await each(stream, take, loop.tally, "agent", loop.handover, loop.crashes.append)
        assert [type(one) for one in loop.crashes] == [ZeroDivisionError]
        assert loop.stream.acknowledged == []

    asyncio.run(told())


def test_a_record_that_vanished_ends_the_process() -> None:
    """What was handed to the agent and never came out is noticed before anything behind it."""

    async def told() -> None:
        loop = Loop(3)
        for offset in range(3):
            loop.handover.hand("t", 0, offset)
        loop.stream.messages.pop(1)
        stream: Any = loop.stream
        with pytest.raises(RuntimeError, match=r"t/0: offset 1 .* vanished before 2"):
            await each(stream, loop.take, loop.tally, "agent", loop.handover, loop.crashes.append)
        assert len(loop.crashes) == 1
        assert set(loop.durable) == {0}

    asyncio.run(told())
