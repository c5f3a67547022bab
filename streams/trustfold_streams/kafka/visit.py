"""One visit to a pipeline: its table and its publishers, opened when they are first needed.

Here is what waits and what refuses; what is asked for is in `command_store`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping

from trustfold_schemas.errors import NotSettledError
from trustfold_schemas.facts import Stamp
from trustfold_schemas.instants import format_instant
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock
from trustfold_streams.kafka.admin import TopicState
from trustfold_streams.kafka.errors import ReaderRoleError, StaleTableError
from trustfold_streams.kafka.pipeline_progress import PipelineProgress, alive
from trustfold_streams.kafka.publisher import Publisher
from trustfold_streams.kafka.reaching import require_topics
from trustfold_streams.kafka.settings import INPUT_TOPICS, ROLES, KafkaSettings
from trustfold_streams.kafka.table import TableReader

FRESH_SECONDS_MAX = 20.0
"""So long a reader waits for a table that a living worker is about to call complete."""
SIGN_SECONDS_MAX = 8.0
"""So long it waits for any word of a worker: one that lives speaks every 5 seconds, and one that
was started in the line before takes its time."""
SHOWN_SECONDS_MAX = 60.0
"""So long a call waits for what it published to show in the table."""
LOAD_SECONDS_MAX = 300.0
"""So long the table may take to be read."""
LOOK_SECONDS = 1.0


class Visit:
    """What a store on a broker holds open; `have` are the topics that are there, by full name."""

    def __init__(
        self, settings: KafkaSettings, clock: Clock, have: Mapping[str, TopicState]
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.have = have
        self._table: TableReader | None = None
        self._publishers: dict[str, Publisher] = {}

    async def stop(self) -> None:
        """Let go of everything; what was acknowledged is there."""
        for publisher in self._publishers.values():
            await publisher.__aexit__(None, None, None)
        if self._table is not None:
            await self._table.stop()

    def need(self, *topics: str) -> None:
        """Raise UnsafeTopicsError unless these topics are there."""
        require_topics(self.settings, self.have, topics)

    # ---- the table -----------------------------------------------------------------------------

    async def table(self) -> TableReader:
        """The table, once it is complete as of the last minute. Raises StaleTableError."""
        table = self._table
        if table is None:
            self.need("scores", "progress", "policy")
            table = self._table = TableReader(self.settings, self.clock)
            async with asyncio.timeout(LOAD_SECONDS_MAX):
                await table.start()
        began = time.monotonic()
        while time.monotonic() < began + _patience(alive(table, self.clock)):
            with contextlib.suppress(StaleTableError):
                table.refuse_if_stale()
                break
            await table.changed(LOOK_SECONDS)
        table.refuse_if_stale()
        return table

    async def shown(self, subject: Subject, rollback_id: str, *, there: bool) -> None:
        """Wait until the table shows a rollback of a subject, or shows it no more."""
        until = time.monotonic() + SHOWN_SECONDS_MAX
        while True:
            table = await self.table()
            state = table.state(subject)
            if state is not None and (rollback_id in rollbacks_of(state)) == there:
                return
            if time.monotonic() > until:
                raise StaleTableError(
                    f"rollback {rollback_id} is published and durable, but the table does not "
                    f"show it after {SHOWN_SECONDS_MAX:.0f} s: see `trustfold dead-letters` and "
                    "`trustfold status`"
                )
            await table.changed(LOOK_SECONDS)

    # ---- how far the stages are ----------------------------------------------------------------

    async def progress(self) -> PipelineProgress:
        """What the stages said last."""
        self.need("progress")
        return await PipelineProgress.read(self.settings, self.clock)

    async def complete(self) -> None:
        """Raise StaleTableError unless what the stages hold is complete as of the last minute."""
        began = time.monotonic()
        while True:
            found = await self.progress()
            with contextlib.suppress(StaleTableError):
                found.table.refuse_if_stale()
                return
            if time.monotonic() > began + _patience(found.alive):
                found.table.refuse_if_stale()
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def settle(self, moment: int) -> None:
        """Raise NotSettledError unless nothing will be recorded at or before a moment any more."""
        now = self.clock.now()
        if moment > now:
            raise NotSettledError(
                f"{format_instant(moment)} has not come: it is {format_instant(now)} by this clock"
            )
        reach = (await self.progress()).settled_up_to()
        if moment > reach:
            raise NotSettledError(
                f"the log has settled up to {format_instant(reach)}; ask as of that moment or "
                "before, or again in a few seconds"
                if reach
                else "the log is not known to have settled at any moment: no worker has told of "
                "every partition yet; is one running?"
            )

    # ---- publishing ----------------------------------------------------------------------------

    async def publisher(self, stamp: Stamp) -> Publisher:
        """A publisher in the role of a stamp; its scopes are those of the topic's settings."""
        if stamp.role == "reader":
            raise ReaderRoleError("the role reader publishes nothing: choose another with --as")
        publisher = self._publishers.get(stamp.role)
        if publisher is None:
            self.need(*(name for name in INPUT_TOPICS if stamp.role in ("owner", ROLES[name])))
            publisher = Publisher(self.settings, stamp.role)
            await publisher.__aenter__()
            self._publishers[stamp.role] = publisher
        return publisher


def _patience(worker_lives: bool) -> float:
    return FRESH_SECONDS_MAX if worker_lives else SIGN_SECONDS_MAX


def rollbacks_of(state: State) -> set[str]:
    """The ids of the rollbacks of a subject that are in force."""
    return {rollback.rollback_id for rollback in state.rollbacks}
