"""Many documents through one publisher: side by side, and reported in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trustfold_schemas.errors import EventRefused
from trustfold_schemas.receipts import Receipt
from trustfold_streams.kafka.publisher import Publisher

SIDE_BY_SIDE = 1_000
"""Documents on their way at once."""


class Sender:
    """Publishes runs of documents."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._room = asyncio.Semaphore(SIDE_BY_SIDE)

    async def send(self, bodies: Sequence[bytes]) -> tuple[list[Receipt], Exception | None]:
        """Publish documents; receipts of all up to the first that failed, and its error."""
        results = await asyncio.gather(
            *(self._publish(body) for body in bodies), return_exceptions=True
        )
        receipts: list[Receipt] = []
        for result in results:
            if isinstance(result, Receipt):
                receipts.append(result)
            elif isinstance(result, Exception):
                return receipts, result
            else:
                raise result
        return receipts, None

    async def _publish(self, body: bytes) -> Receipt:
        async with self._room:
            try:
                await self._publisher.publish(body)
            except EventRefused as refused:
                return Receipt("dead_letters", None, refused.reason, refused.detail)
        return Receipt("accepted")
