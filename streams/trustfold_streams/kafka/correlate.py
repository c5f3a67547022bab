"""The stage `correlate`: facts to ledger entries, one partition of facts at a time."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from msgspec import Struct

from trustfold_projections.laws.correlation import (
    Key,
    KeyState,
    Refusal,
    TraceState,
    correlate,
    key_of,
    lone_close,
    new_state,
)
from trustfold_projections.laws.correlation.abandoned import PATIENCE, abandoned_close
from trustfold_projections.laws.correlation.never_closed import never_closed
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.decoding import decode_admitted
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry
from trustfold_schemas.packed import envelopes, pack_entry
from trustfold_schemas.subject import Subject
from trustfold_streams.kafka.records import (
    CONTENT_TYPE,
    Letter,
    Output,
    letter_output,
    partition_of,
    stamp_from,
)
from trustfold_streams.kafka.stage import Batch, Lookup, Record
from trustfold_streams.kafka.trace_rows import CLOCK, Row, Rows, lone_row, records_of, row_of

log = logging.getLogger("trustfold.kafka.correlate")

NEAR = 500
"""Offsets between two facts that are looked up in one go."""
FORGOTTEN_MAX = 1_000
"""Keys that are dropped a batch: after a long silence there may be very many."""


@lru_cache(maxsize=65_536)
def _partition_of(subject: Subject, partitions: int) -> int:
    return partition_of(subject.key, partitions)


class _Held(Struct, gc=False):
    """What is known of one key: its row in the topic, and while a batch needs it the state.

    An open trace keeps its state.
    """

    row: Row
    last_recorded: int
    state: KeyState | None = None
    committed: bool = False
    """Whether the topic holds the row; one of which nothing was remembered is no row at all."""


class CorrelateStage:
    """Names the topics of the stage and makes its tasks."""

    name = "correlate"

    def __init__(
        self,
        topic: Callable[[str], str],
        partitions: int,
        memory: int | None,
        forget_after: int,
        medians: Callable[[], Awaitable[MedianTable]],
    ) -> None:
        """`memory` judges what is too old (None: open for history); `forget_after` drops states.

        Both in microseconds. `medians` gives the table once it holds all that was published.
        """
        self.topic = topic
        self.partitions = partitions
        self.memory = memory
        self.forget_after = forget_after
        self.medians = medians
        self.inputs = (topic("facts"),)
        self.state_topic = topic("traces")

    def task(self, partition: int, lookup: Lookup) -> CorrelateTask:
        """The work on one partition of facts."""
        return CorrelateTask(self, partition, lookup)


class CorrelateTask:
    """States of one partition's keys; traces are forgotten `forget_after` their last fact."""

    def __init__(self, stage: CorrelateStage, partition: int, lookup: Lookup) -> None:
        self.stage = stage
        self.partition = partition
        self.lookup = lookup
        self.recorded = 0
        self.refolding = False
        self.refused: dict[str, int] = {}
        self._restored = Rows()
        self._held: OrderedDict[Key, _Held] = OrderedDict()
        self._open: dict[Key, None] = {}

    # ---- restoring -----------------------------------------------------------------------------

    def load(self, key: bytes, value: bytes | None) -> None:
        """Take one row of the state partition."""
        if key == CLOCK:
            self.recorded = int.from_bytes(value or b"", "big")
        else:
            self._restored.take(key, value)

    def _end_restoring(self) -> None:
        """All rows are there: know their keys, the longest silent first."""
        for key, row in self._restored.rows.items():
            self._held[key] = _Held(row, row.last_recorded, None, True)
            if row.open:
                self._open[key] = None
        self._restored = Rows()

    def _lone(self, key: Key, fact: Fact, medians: MedianTable) -> tuple[Entry, ...] | None:
        """The entries of a close of which nothing else is known, held as it is; None: of others."""
        if key in self._held:
            return None
        entries = lone_close(fact, medians, self.stage.memory)
        row = None if entries is None else lone_row(fact)
        if row is None:
            return None
        self._held[key] = _Held(row, fact.recorded)
        return entries

    def _state(self, key: Key, medians: MedianTable) -> KeyState:
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(Row(), 0)
            held.state = new_state(key)
        elif held.state is None:
            held.state = held.row.state(key, medians)
        return held.state

    # ---- a batch -------------------------------------------------------------------------------

    async def process(self, records: Sequence[Record]) -> Batch:
        """Correlate facts in log order; entries leave as envelopes, refusals as dead letters."""
        self._end_restoring()
        medians = await self.stage.medians()
        touched: dict[Key, _Held] = {}
        visited: list[_Held] = []
        entries: dict[int, list[bytes]] = {}
        refusals: list[Refusal] = []
        bodies: dict[int, Record] = {}
        for record in records:
            # Milliseconds of the log; the clock of a partition never goes back.
            self.recorded = max(self.recorded, record.timestamp * 1_000)
            bodies[record.offset] = record
            fact = self._fact(record)
            key = key_of(fact.event)
            made = self._lone(key, fact, medians)
            if made is not None:
                touched[key] = self._held[key]
                self._emit(record.offset, made, entries)
                continue
            outcome = correlate(self._state(key, medians), fact, medians, self.stage.memory)
            held = self._held[key]
            if outcome.remembered:
                held.last_recorded = fact.recorded
                touched[key] = held
                self._held.move_to_end(key)
            elif not held.committed and not held.last_recorded:
                del self._held[key]
            visited.append(held)
            self._emit(record.offset, outcome.entries, entries)
            refusals += outcome.refusals
        states: dict[bytes, bytes | None] = {}
        for key, held in touched.items():
            states |= self._pack(key, held)
        for held in visited:
            if not held.row.open:
                held.state = None
        for key, row, never in self._forgotten(medians):
            states |= records_of(key, None, row)
            refusals += never
        states[CLOCK] = self.recorded.to_bytes(8, "big")
        outputs = [
            Output(self.stage.topic("ledger"), partition, None, envelope)
            for partition, packed in sorted(entries.items())
            for envelope in envelopes(packed)
        ]
        await self._look_up({one.position for one in refusals} - bodies.keys(), bodies)
        outputs += [self._letter(refusal, bodies) for refusal in refusals]
        return Batch(states, outputs)

    def _fact(self, record: Record) -> Fact:
        try:
            event = decode_admitted(record.value or b"")
        except EventRefused as error:
            # Only ingest writes here, and it let this in: the log itself is wrong.
            raise RuntimeError(
                f"{record.topic}/{record.partition}/{record.offset} is no event: {error}"
            ) from error
        stamp = stamp_from(record.headers)
        return Fact(record.offset, self.recorded, stamp, event, record.value or b"")

    def _emit(self, offset: int, made: Sequence[Entry], entries: dict[int, list[bytes]]) -> None:
        for number, entry in enumerate(made):
            partition = _partition_of(entry.subject, self.stage.partitions)
            entries.setdefault(partition, []).append(
                pack_entry(self.partition, offset, number, entry)
            )

    def _pack(self, key: Key, held: _Held) -> dict[bytes, bytes | None]:
        held.committed = True
        before = held.row
        if held.state is None:
            return records_of(key, before, None)
        still_open = isinstance(held.state, TraceState) and not held.state.folded
        held.row = row_of(held.state, held.last_recorded, open=still_open)
        if still_open:
            self._open[key] = None
        else:
            self._open.pop(key, None)
        return records_of(key, held.row, before)

    def _forgotten(self, medians: MedianTable) -> list[tuple[Key, Row, list[Refusal]]]:
        """Drop traces and self-plays whose memory ended, by the log's own clock; some a batch."""
        made: list[tuple[Key, Row, list[Refusal]]] = []
        kept: list[Key] = []
        until = self.recorded - self.stage.forget_after
        while self._held and len(made) < FORGOTTEN_MAX:
            key, held = next(iter(self._held.items()))
            if held.last_recorded >= until:
                break
            if key.kind not in ("trace", "self-play"):
                kept.append(key)
                self._held.move_to_end(key)
                if len(kept) > 1_000:
                    break
                continue
            letters: list[Refusal] = []
            if held.row.open:
                state = self._state(key, medians)
                assert isinstance(state, TraceState)
                letters = never_closed(state)
            del self._held[key]
            self._open.pop(key, None)
            made.append((key, held.row, letters))
        return made

    async def _look_up(self, positions: AbstractSet[int], bodies: dict[int, Record]) -> None:
        """Read facts of earlier batches again; those that lie close together in one go."""
        waiting = deque(sorted(positions))
        while waiting:
            first = last = waiting.popleft()
            while waiting and waiting[0] - last <= NEAR:
                last = waiting.popleft()
            async for found in self.lookup(self.stage.inputs[0], self.partition, first, last + 1):
                if found.offset in positions:
                    bodies[found.offset] = found

    def _letter(self, refusal: Refusal, bodies: dict[int, Record]) -> Output:
        self.refused[refusal.reason.value] = self.refused.get(refusal.reason.value, 0) + 1
        facts = self.stage.inputs[0]
        record = bodies.get(refusal.position)
        if record is None:
            raise RuntimeError(
                f"{facts}/{self.partition}/{refusal.position} is gone from the log, "
                f"and is needed as the dead letter {refusal.reason.value}"
            )
        return letter_output(
            self.stage.topic("dead-letters"),
            partition_of(record.value or b"", self.stage.partitions),
            Letter(
                reason=refusal.reason,
                detail=refusal.detail,
                origin=dict(record.headers).get("tf-origin", b"").decode()
                or f"{facts}/{self.partition}/{refusal.position}",
                stamp=stamp_from(record.headers),
                body=record.value or b"",
            ),
        )

    # ---- timers --------------------------------------------------------------------------------

    async def tick(self, now: int) -> list[Output]:
        """The service's closes of traces that nobody finished, as events on `trace-closed`."""
        self._end_restoring()
        made: list[Output] = []
        topic = self.stage.topic("trace-closed")
        for key in list(self._open):
            state = self._state(key, MedianTable())  # medians measure what is folded
            if isinstance(state, TraceState):
                close = state.close
                since = self._held[key].last_recorded if close is None else close.recorded
                body = abandoned_close(state) if since <= now - PATIENCE else None
                if body is not None:
                    made.append(Output(topic, -1, key.name.encode(), body, [CONTENT_TYPE]))
        return made
