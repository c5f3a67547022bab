"""The command of the broker without Docker.

    python -m compose.kafka up [--port PORT | --free-port] [--data DIR]
    python -m compose.kafka status|down [--data DIR]

Standard library only, so that it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from compose.kafka.broker import (
    DEFAULT_PORT,
    KEPT,
    Broker,
    BrokerError,
    answers,
    free_port,
    number_in,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 fine, 1 it could not be done or nothing runs, 2 wrong use."""
    parser = argparse.ArgumentParser(
        prog="python -m compose.kafka", description="Apache Kafka without Docker."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, told in (
        ("up", "start the broker and wait until it answers"),
        ("down", "end the broker with SIGTERM"),
        ("status", "say where it runs; exit 1 if it does not"),
    ):
        command = commands.add_parser(name, help=told, description=told)
        command.add_argument("--data", type=Path, default=KEPT / "data", metavar="DIR")
        if name == "up":
            where = command.add_mutually_exclusive_group()
            where.add_argument("--port", type=int, default=DEFAULT_PORT)
            where.add_argument("--free-port", action="store_true")
    asked = parser.parse_args(arguments)
    try:
        sys.stdout.write(f"broker: {_done(asked)}\n")
    except BrokerError as error:
        sys.stderr.write(f"broker: {error}\n")
        return 1
    return 0


def _done(asked: argparse.Namespace) -> str:
    broker = Broker(asked.data)
    if asked.command == "up":
        broker.port = free_port() if asked.free_port else asked.port
        broker.start()
        return f"up on {broker.bootstrap}, pid {broker.pid}, log {broker.log}"
    if asked.command == "down":
        broker.stop()
        return f"down, its data stays in {broker.data}"
    pid = broker.pid
    if pid is None:
        raise BrokerError(f"no broker runs on the data in {broker.data}")
    broker.port = number_in(broker.data / "broker.port") or broker.port
    state = "answers" if answers(broker.port) else "does not answer"
    return f"{state} on {broker.bootstrap}, pid {pid}, log {broker.log}"


if __name__ == "__main__":
    sys.exit(main())
