"""The stage `correlate`: facts to ledger entries, one partition of facts at a time."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from trustfold_projections.laws.correlation import (
    Key,
    KeyState,
    Refusal,
    TraceState,
    correlate,
    key_of,
    new_state,
)
from trustfold_projections.laws.correlation.abandoned import PATIENCE, abandoned_close
from trustfold_projections.laws.correlation.never_closed import never_closed
from trustfold_projections.laws.correlation.packed import (
    pack_key,
    pack_state,
    unpack_key,
    unpack_state,
)
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.facts import Fact, Stamp
from trustfold_schemas.ledger import Entry
from trustfold_schemas.packed import envelopes, pack_entry
from trustfold_streams.kafka.records import (
    CONTENT_TYPE,
    Letter,
    Output,
    letter_output,
    partition_of,
    stamp_from,
)
from trustfold_streams.kafka.stage import Batch, Lookup, Record

log = logging.getLogger("trustfold.kafka.correlate")

CLOCK = b"\0clock"
"""The row of the greatest moment read; a broker's clock may step back when a leader changes."""

SERVICE = Stamp("runtime", "trustfold")


class _Held(Struct, gc=False):
    """What is known of one key: bytes until it is touched, then the state itself."""

    last_recorded: int
    packed: bytes
    state: KeyState | None = None
    open: bool = False


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
        self._held: OrderedDict[Key, _Held] = OrderedDict()
        self._open: dict[Key, None] = {}

    # ---- restoring -----------------------------------------------------------------------------

    def load(self, key: bytes, value: bytes | None) -> None:
        """Take one row of the state partition: `last_recorded` in 8 bytes, then the state."""
        if key == CLOCK:
            self.recorded = int.from_bytes(value or b"", "big")
            return
        name = unpack_key(key)
        self._held.pop(name, None)
        self._open.pop(name, None)
        if value is not None:
            still_open = bool(value[8])
            self._held[name] = _Held(int.from_bytes(value[:8], "big"), value[9:], None, still_open)
            if still_open:
                self._open[name] = None

    def _state(self, key: Key) -> _Held:
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = _Held(0, b"", new_state(key))
        elif held.state is None:
            held.state = unpack_state(key, held.packed)
        return held

    # ---- a batch -------------------------------------------------------------------------------

    async def process(self, records: Sequence[Record]) -> Batch:
        """Correlate facts in log order; entries leave as envelopes, refusals as dead letters."""
        medians = await self.stage.medians()
        touched: dict[Key, _Held] = {}
        entries: dict[int, list[bytes]] = {}
        refusals: list[tuple[Refusal, int]] = []
        bodies: dict[int, Record] = {}
        for record in records:
            # Milliseconds of the log; the clock of a partition never goes back.
            self.recorded = max(self.recorded, record.timestamp * 1_000)
            bodies[record.offset] = record
            fact = self._fact(record)
            key = key_of(fact.event)
            held = self._state(key)
            assert held.state is not None
            outcome = correlate(held.state, fact, medians, self.stage.memory)
            if outcome.remembered:
                held.last_recorded = fact.recorded
                touched[key] = held
                self._held.move_to_end(key)
            elif not held.packed and not held.last_recorded:
                del self._held[key]
            self._emit(record.offset, outcome.entries, entries)
            refusals += [(refusal, fact.recorded) for refusal in outcome.refusals]
        states: dict[bytes, bytes | None] = {
            pack_key(key): self._pack(key, held) for key, held in touched.items()
        }
        for key, refusal_list in self._forgotten():
            states[pack_key(key)] = None
            refusals += [(refusal, self.recorded) for refusal in refusal_list]
        states[CLOCK] = self.recorded.to_bytes(8, "big")
        outputs = [
            Output(self.stage.topic("ledger"), partition, None, envelope)
            for partition, packed in sorted(entries.items())
            for envelope in envelopes(packed)
        ]
        for refusal, _ in refusals:
            outputs.append(await self._letter(refusal, bodies))
        return Batch(states, outputs)

    def _fact(self, record: Record) -> Fact:
        try:
            event = decode_event(record.value or b"")
        except EventRefused as error:
            # Only ingest writes here, and it let this in: the log itself is wrong.
            raise RuntimeError(
                f"{record.topic}/{record.partition}/{record.offset} is no event: {error}"
            ) from error
        stamp = stamp_from(record.headers)
        return Fact(record.offset, self.recorded, stamp, event, record.value or b"")

    def _emit(self, offset: int, made: Sequence[Entry], entries: dict[int, list[bytes]]) -> None:
        for number, entry in enumerate(made):
            partition = partition_of(entry.subject.key, self.stage.partitions)
            entries.setdefault(partition, []).append(
                pack_entry(self.partition, offset, number, entry)
            )

    def _pack(self, key: Key, held: _Held) -> bytes:
        assert held.state is not None
        held.packed = pack_state(held.state)
        held.open = isinstance(held.state, TraceState) and not held.state.folded
        if held.open:
            self._open[key] = None
        else:
            self._open.pop(key, None)
            held.state = None
        return held.last_recorded.to_bytes(8, "big") + bytes([held.open]) + held.packed

    def _forgotten(self) -> list[tuple[Key, list[Refusal]]]:
        """Drop the traces and self-plays whose memory ended, by the log's own clock."""
        made: list[tuple[Key, list[Refusal]]] = []
        kept: list[Key] = []
        until = self.recorded - self.stage.forget_after
        while self._held:
            key, held = next(iter(self._held.items()))
            if held.last_recorded >= until:
                break
            if key.kind not in ("trace", "self-play"):
                kept.append(key)
                self._held.move_to_end(key)
                if len(kept) > 1_000:
                    break
                continue
            del self._held[key]
            self._open.pop(key, None)
            state = held.state or unpack_state(key, held.packed)
            made.append((key, never_closed(state) if isinstance(state, TraceState) else []))
        return made

    async def _letter(self, refusal: Refusal, bodies: dict[int, Record]) -> Output:
        self.refused[refusal.reason.value] = self.refused.get(refusal.reason.value, 0) + 1
        facts = self.stage.inputs[0]
        record = bodies.get(refusal.position)
        if record is None:
            async for found in self.lookup(
                facts, self.partition, refusal.position, refusal.position + 1
            ):
                record = bodies[refusal.position] = found
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
        made: list[Output] = []
        topic = self.stage.topic("trace-closed")
        for key in list(self._open):
            held = self._state(key)
            if isinstance(held.state, TraceState):
                close = held.state.close
                since = held.last_recorded if close is None else close.recorded
                body = abandoned_close(held.state) if since <= now - PATIENCE else None
                if body is not None:
                    made.append(Output(topic, -1, key.name.encode(), body, [CONTENT_TYPE]))
        return made
