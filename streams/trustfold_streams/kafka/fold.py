"""The stage `fold`: ledger entries to the materialized table, one partition of the ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from trustfold_projections.laws import fold as law
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.ledger import Entry
from trustfold_schemas.packed import unpack_envelope
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.kafka.records import Output
from trustfold_streams.kafka.score_records import Position, pack_score, unpack_score
from trustfold_streams.kafka.stage import Batch, Lookup, Record

HIGH_WATER = b"\0hwm"
"""Per partition of facts the last (offset, number) folded: a second line of defence against an
entry that arrives twice."""

_NOTHING = (-1, -1)
_HIGH_WATER = msgspec.json.Decoder(dict[str, tuple[int, int]])


class FoldStage:
    """Names the topics of the stage and makes its tasks."""

    name = "fold"

    def __init__(self, topic: Callable[[str], str]) -> None:
        self.inputs = (topic("ledger"),)
        self.state_topic = topic("scores")

    def task(self, partition: int, lookup: Lookup) -> FoldTask:
        """The work on one partition of the ledger."""
        return FoldTask(self, partition, lookup)


class FoldTask:
    """The states of one partition's subjects: bytes until they are touched."""

    def __init__(self, stage: FoldStage, partition: int, lookup: Lookup) -> None:
        self.stage = stage
        self.partition = partition
        self.lookup = lookup
        self.recorded = 0
        self.refolding = False
        self.folded_twice = 0
        self._packed: dict[bytes, bytes] = {}
        self._states: dict[Subject, State] = {}
        self._high_water: dict[str, tuple[int, int]] = {}

    def load(self, key: bytes, value: bytes | None) -> None:
        """Take one row of the state partition."""
        if key == HIGH_WATER:
            self._high_water = _HIGH_WATER.decode(value or b"{}")
        elif value is None:
            self._packed.pop(key, None)
        else:
            self._packed[key] = value

    async def _load_state(self, subject: Subject, end: int) -> State:
        """Unpack a subject's state; a corrupt one is refolded from the ledger before `end`."""
        packed = self._packed.pop(subject.key, None)
        if packed is None:
            state = State(subject=subject)
        else:
            try:
                state = unpack_score(packed)[0]
            except TrustCorruptionError:
                state = law.refold(subject, await self._entries(subject, end))
        self._states[subject] = state
        return state

    async def process(self, records: Sequence[Record]) -> Batch:
        """Fold envelopes in order; one record a touched subject."""
        touched: dict[Subject, tuple[int, int]] = {}
        undone: set[Subject] = set()
        first, held = records[0].offset, self._states
        for record in records:
            partition, source, folded = -1, "", _NOTHING
            for number, located in enumerate(unpack_envelope(record.value or b"")):
                if located.partition != partition:
                    partition, source = located.partition, str(located.partition)
                    folded = self._high_water.get(source, _NOTHING)
                at = (located.offset, located.number)
                if at <= folded:
                    self.folded_twice += 1
                    continue
                self._high_water[source] = folded = at
                entry = located.entry
                subject = entry.subject
                if entry.recorded > self.recorded:
                    self.recorded = entry.recorded
                state = held.get(subject)
                if state is None:
                    state = await self._load_state(subject, first)
                touched[subject] = (record.offset, number)
                if not law.fold(state, entry):
                    undone.add(subject)
        if undone:
            await self._refold(undone, records[-1].offset + 1)
        states: dict[bytes, bytes | None] = {
            subject.key: pack_score(held[subject], Position(*place))
            for subject, place in touched.items()
        }
        states[HIGH_WATER] = msgspec.json.encode(self._high_water)
        return Batch(states, [])

    async def _refold(self, subjects: set[Subject], end: int) -> None:
        """A rollback changes which entries count: reread the ledger up to the batch's end."""
        self.refolding = True
        found: dict[Subject, list[Entry]] = {subject: [] for subject in subjects}
        async for entry in self._ledger(end):
            if entry.subject in found:
                found[entry.subject].append(entry)
        for subject, entries in found.items():
            self._states[subject] = law.refold(subject, entries)
        self.refolding = False

    async def _entries(self, subject: Subject, end: int) -> list[Entry]:
        return [entry async for entry in self._ledger(end) if entry.subject == subject]

    async def _ledger(self, end: int) -> AsyncIterator[Entry]:
        """Every entry of this partition before `end`, each once."""
        seen: dict[int, tuple[int, int]] = {}
        async for record in self.lookup(self.stage.inputs[0], self.partition, 0, end):
            for located in unpack_envelope(record.value or b""):
                at = (located.offset, located.number)
                if at > seen.get(located.partition, _NOTHING):
                    seen[located.partition] = at
                    yield located.entry

    async def tick(self, now: int) -> list[Output]:  # noqa: ARG002 - the port
        """No timers here."""
        return []
