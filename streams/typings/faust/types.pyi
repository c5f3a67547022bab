from asyncio import Future
from typing import Any

class Message:
    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes | None

class FutureMessage(Future[Any]): ...
