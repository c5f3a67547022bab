"""What is open until it is closed: for `with` and `async with`, whatever it holds."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """A context manager that is closed at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held."""


class AsyncClosing(ABC):
    """An asynchronous context manager that lets go of what it entered; of all, if one fails."""

    _open: contextlib.AsyncExitStack

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as opening:
            await self._enter(opening)
            self._open = opening.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.aclose()

    @abstractmethod
    async def _enter(self, opening: contextlib.AsyncExitStack) -> None:
        """Open what is needed, each with its end."""
