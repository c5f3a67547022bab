"""Whether a worker does its work: what its stages tell each second, and who stands still.

`Observer` listens to a running worker and asks it nothing, so that it also knows when the worker
has fallen silent. `metrics` shows what is seen here.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from trustfold_schemas.instants import SECOND
from trustfold_streams.clock import Clock
from trustfold_streams.kafka.fold import FoldTask
from trustfold_streams.kafka.records import Progress
from trustfold_streams.kafka.stage import Lookup, Record
from trustfold_streams.kafka.task import Hook, no_hook
from trustfold_streams.kafka.worker import Worker

STILL_SECONDS = 30.0
"""A partition that is behind and has not moved for so long stands still."""
SILENT_SECONDS = 45.0
"""A worker that measured nothing for so long is cut off from the broker, or hangs."""
TICK_SECONDS_MAX = 2.0
"""What one look adds to a silence at most: a process that was frozen has not been silent."""


class Still(Struct, frozen=True):
    """A partition that is behind and does not move. `seconds`: for how long."""

    stage: str
    partition: int
    seconds: float
    why: str


class Health(Struct, frozen=True, kw_only=True):
    """What /health answers; `ok` follows from the others."""

    ok: bool
    started: bool
    partitions: int
    standing_still: tuple[Still, ...] = ()
    silent_seconds: float = 0.0


class Movement:
    """Tells from a row of progress reports which partitions stand still."""

    def __init__(self) -> None:
        self._since: dict[bytes, tuple[Mapping[str, int], float]] = {}

    def see(self, reports: Iterable[Progress], moment: float) -> None:
        """Take the reports of one round, all that there are, at a monotonic moment in seconds."""
        since: dict[bytes, tuple[Mapping[str, int], float]] = {}
        for one in reports:
            before = self._since.get(one.key)
            moved = before is None or before[0] != one.positions or one.state == "refolding"
            since[one.key] = (one.positions, moment) if moved or before is None else before
        self._since = since

    def standing_still(self, reports: Iterable[Progress], moment: float) -> list[Still]:
        """Of these reports, those that are neither caught up nor moving.

        One is caught up if the last moment that it reached is no older than the bound.
        """
        found: list[Still] = []
        for one in reports:
            _, since = self._since.get(one.key, ({}, moment))
            still = moment - since
            behind = (one.written - one.caught_up) / SECOND
            if still >= STILL_SECONDS and behind >= STILL_SECONDS:
                why = "never caught up" if one.caught_up == 0 else f"behind by {behind:.0f} s"
                found.append(Still(one.stage, one.partition, still, why))
        return found


class Reporting(Protocol):
    """What can be overheard: a stage that is asked for its progress."""

    async def progress(self) -> list[Progress]:
        """How far each partition is."""
        ...


class Observer:
    """Listens to a worker: give it the `hook`, `observe` it, and say when it has `begun`."""

    def __init__(
        self,
        clock: Clock,
        hook: Hook = no_hook,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.worker: Worker | None = None
        self.started = False
        self.refolds: dict[int, int] = {}
        self.agents: Callable[[], list[Still]] = list
        """What of the agents stands still; none of them is known here."""
        self.started_at = clock.now()
        self._clock = clock
        self._hook = hook
        self._heard: dict[str, list[Progress]] = {}
        self._movement = Movement()
        self._silent = 0.0
        self._monotonic = monotonic
        self._ticked = monotonic()

    # ---- listening -----------------------------------------------------------------------------

    def observe(self, worker: Worker) -> None:
        """Know the worker, before it starts."""
        self.worker = worker

    def begun(self) -> None:
        """The worker has started: listen to what its stages answer when it asks for progress."""
        assert self.worker is not None
        assert self.worker.ingest is not None
        self._overhear("ingest", self.worker.ingest)
        for manager in self.worker.managers:
            self._overhear(manager.stage.name, manager)
        self._silent, self._ticked = 0.0, self._monotonic()
        self.started = True

    def _overhear(self, name: str, stage: Reporting) -> None:
        tell: Callable[[], Awaitable[list[Progress]]] = stage.progress

        async def progress() -> list[Progress]:
            made = await tell()
            self._heard[name] = made
            self._silent = 0.0
            self._movement.see(self.reports(), self._monotonic())
            return made

        vars(stage)["progress"] = progress

    def hook(self, stage: str, partition: int, moment: str) -> None:
        """Stand in for the worker's hook: a fold task that opened has its refolds counted."""
        if stage == "fold" and moment == "restored":
            self._count_refolds(partition)
        self._hook(stage, partition, moment)

    def _count_refolds(self, partition: int) -> None:
        managers = [] if self.worker is None else self.worker.managers
        for manager in managers:
            task = manager.tasks.get(partition)
            if task is not None and isinstance(task.work, FoldTask):
                task.work.lookup = self._counting(task.work.lookup)

    def _counting(self, lookup: Lookup) -> Lookup:
        # A fold task looks its ledger up again for nothing else.
        def counted(topic: str, partition: int, first: int, end: int) -> AsyncIterator[Record]:
            self.refolds[partition] = self.refolds.get(partition, 0) + 1
            return lookup(topic, partition, first, end)

        return counted

    # ---- telling -------------------------------------------------------------------------------

    def reports(self) -> list[Progress]:
        """The last report of every partition that this worker has."""
        return [one for made in self._heard.values() for one in made]

    def seconds_behind(self, progress: Progress) -> float:
        """How old the moment is that a partition is known to have caught up with."""
        return max(0, self._clock.now() - (progress.caught_up or self.started_at)) / SECOND

    def tick(self) -> float:
        """Call each second; for how many seconds nothing was heard."""
        now = self._monotonic()
        self._silent += min(now - self._ticked, TICK_SECONDS_MAX)
        self._ticked = now
        return self._silent

    def health(self) -> Health:
        """Whether all is well, and if not, what is not."""
        now = self._monotonic()
        found = self._movement.standing_still(self.reports(), now) + self._unopened(now)
        found += self.agents()
        return Health(
            ok=self.started and not found and self._silent < STILL_SECONDS,
            started=self.started,
            partitions=len(self.reports()),
            standing_still=tuple(found),
            silent_seconds=round(self._silent, 1),
        )

    def _unopened(self, now: float) -> list[Still]:
        """Partitions whose states are not restored yet, and of which nothing was restored long."""
        managers = [] if self.worker is None else self.worker.managers
        return [
            Still(manager.stage.name, partition, now - task.alive_at, "does not open")
            for manager in managers
            for partition, task in manager.tasks.items()
            if not task.opened and now - task.alive_at >= STILL_SECONDS
        ]
