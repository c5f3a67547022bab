"""One worker as a process of its own that can end or freeze itself at a named moment.

    python -m tests.broker.worker_process ORDERS

ORDERS and every line on the standard input are JSON: `Orders`, and the list of traps that stand
from then on, in place of those before. It says `ready` once it has joined, and which trap it walked
into. SIGTERM is an orderly leave. When its standard input ends, so did the test, and it ends too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from typing import Literal

import msgspec
from msgspec import Struct

from trustfold_streams.kafka import worker as product
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.worker import Worker, end_process

Moment = Literal["fenced", "restoring", "restored", "sent", "acknowledged", "committed"]

EXIT_ORPHAN = 71
"""Nobody holds the other end of the standard input any more."""


class Trap(Struct):
    """What the worker does to itself at the n-th coming of a moment of a stage."""

    stage: str
    moment: Moment
    n: int = 1
    signal: Literal["SIGKILL", "SIGSTOP"] = "SIGKILL"


class Orders(Struct):
    """What one worker process is told when it starts."""

    settings: KafkaSettings
    history: bool = True
    traps: list[Trap] = []
    progress_seconds: float = 0.1


class Traps:
    """The hook of a worker: signals this very process, in the middle of what it does."""

    def __init__(self, traps: list[Trap]) -> None:
        self._set = traps

    def replace(self, line: bytes) -> None:
        """Set these in place of those that stand, from their JSON."""
        self._set = msgspec.json.decode(line, type=list[Trap])

    def __call__(self, stage: str, partition: int, moment: str) -> None:
        """Count down, and act at zero. After SIGSTOP it goes on from here when it is thawed."""
        for trap in self._set:
            if (trap.stage, trap.moment) == (stage, moment):
                trap.n -= 1
                if trap.n == 0:
                    say(f"{trap.signal} at {stage}/{partition} {moment}")
                    os.kill(os.getpid(), signal.Signals[trap.signal])


def say(word: str) -> None:
    """Tell whoever reads the log of this process, at once."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


async def listen(traps: Traps) -> None:
    """Take traps from the standard input, until it ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async for line in reader:
        traps.replace(line)
    os._exit(EXIT_ORPHAN)


async def work(orders: Orders) -> None:
    """Run the worker until it fails, or until it is asked to leave."""
    traps = Traps(orders.traps)
    listening = asyncio.create_task(listen(traps))
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    worker = Worker(orders.settings, history=orders.history, hook=traps)
    await worker.start()
    say("ready")
    failing = asyncio.create_task(worker.run())
    leaving = asyncio.create_task(leave.wait())
    await asyncio.wait({failing, leaving, listening}, return_when=asyncio.FIRST_COMPLETED)
    if failing.done():
        failing.result()
    failing.cancel()
    await worker.stop()
    say("left")
    os._exit(0)


def main() -> None:
    """Run with the orders of the command line; any error ends the process as a worker ends."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # While a broker is away its client says so thousands of times.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    product.PROGRESS_SECONDS = orders.progress_seconds
    try:
        asyncio.run(work(orders))
    except BaseException as error:  # noqa: BLE001 - whatever it is, this is how a worker ends
        end_process(error)


if __name__ == "__main__":
    main()
