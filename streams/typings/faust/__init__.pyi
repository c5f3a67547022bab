# What this project uses of faust-streaming 0.15, whose own annotations leave much unknown.
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Generic, NoReturn, TypeVar

from faust.app import base
from faust.types import FutureMessage, Message
from mode import Service

__all__ = ["App", "Event", "Stream", "Table", "Topic", "Worker"]

_K = TypeVar("_K")
_V = TypeVar("_V")

class Event:
    message: Message

class Stream(Generic[_V]):
    def __aiter__(self) -> AsyncIterator[_V]: ...
    def noack(self) -> Stream[_V]: ...
    def events(self) -> AsyncIterator[Event]: ...
    async def ack(self, event: Event) -> bool: ...

class Topic:
    async def send(
        self, *, key: bytes, value: bytes, partition: int | None = None
    ) -> Awaitable[Any]: ...

class Table(Service, Generic[_K, _V]):
    def __init__(
        self,
        app: App,
        *,
        name: str,
        partitions: int,
        beacon: Any,
        key_type: type[_K] | None = None,
        value_type: type[_V] | None = None,
    ) -> None: ...
    def get(self, key: _K) -> _V | None: ...
    def __setitem__(self, key: _K, value: _V) -> None: ...
    def send_changelog(
        self,
        partition: int | None,
        key: Any,
        value: Any,
        key_serializer: Any = None,
        value_serializer: Any = None,
    ) -> FutureMessage: ...

class _Tables:
    beacon: Any
    def add(self, table: Table[Any, Any]) -> Table[Any, Any]: ...

class App(Service):
    BootStrategy: type[base.BootStrategy]
    boot_strategy: base.BootStrategy
    conf: Any
    tables: _Tables
    def __init__(self, name: str, /, **settings: Any) -> None: ...
    def topic(self, *topics: str, **options: Any) -> Topic: ...
    def agent(
        self, channel: Topic, *, name: str | None = None, concurrency: int = 1
    ) -> Callable[[Callable[[Stream[bytes]], Awaitable[None]]], Any]: ...
    def Table(self, name: str, **options: Any) -> Any: ...  # noqa: N802 - its name
    def main(self) -> NoReturn: ...

class Worker(Service):
    spinner: Any
    def __init__(
        self, app: App, *, loop: AbstractEventLoop, quiet: bool, override_logging: bool
    ) -> None: ...
    def execute_from_commandline(self) -> NoReturn: ...
