"""Reading whole topics once: what the command line and audits ask of a running pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from trustfold_projections.laws.correlation import TraceState
from trustfold_projections.laws.correlation.abandoned import CLOSE_EXPECTED
from trustfold_projections.laws.fold import fold, refold_as_of
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.ledger import Entry
from trustfold_schemas.packed import unpack_envelope
from trustfold_schemas.pending import Pending
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.kafka.records import (
    POSITION,
    Letter,
    letter_from,
    partition_of,
    replayed_from,
)
from trustfold_streams.kafka.scanning import scan
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.trace_rows import CLOCK, Rows


class NumberedLetter:
    """A dead letter and its number: offset * partitions + partition."""

    def __init__(self, number: int, recorded: int, letter: Letter) -> None:
        self.number = number
        self.recorded = recorded
        self.letter = letter


class TopicReader:
    """Reads the topics of one pipeline, from their start to what is committed now."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._every = range(settings.partitions)

    async def entries(self, subject: Subject) -> list[Entry]:
        """A subject's ledger entries, in log order, each once."""
        partition = partition_of(subject.key, self.settings.partitions)
        return [
            # As every store gives them: an envelope's are arrays when they are printed.
            Entry(**msgspec.structs.asdict(entry))
            async for entry in self._once([partition])
            if entry.subject == subject
        ]

    async def ledger(self) -> AsyncIterator[tuple[int, int, int, Entry]]:
        """Every entry of the ledger as it stands, with (partition, offset, number) of its fact."""
        async for record in scan(self.settings, "ledger", self._every):
            for located in unpack_envelope(record.value or b""):
                yield located.partition, located.offset, located.number, located.entry

    async def _once(self, partitions: Sequence[int]) -> AsyncIterator[Entry]:
        """The entries of partitions of the ledger, each once; a subject's are in log order."""
        seen: dict[tuple[int, int], tuple[int, int]] = {}
        async for record in scan(self.settings, "ledger", partitions):
            for located in unpack_envelope(record.value or b""):
                source, at = (record.partition, located.partition), (located.offset, located.number)
                if at > seen.get(source, (-1, -1)):
                    seen[source] = at
                    yield located.entry

    async def states_as_of(self, moment: int) -> list[State]:
        """Every subject's state from the entries recorded at or before a moment, by subject.

        The caller makes sure that the log has settled by then.
        """
        states: dict[Subject, State] = {}
        rolled_back: dict[Subject, list[Entry]] = {}
        async for entry in self._once(self._every):
            if entry.recorded <= moment:
                state = states.setdefault(entry.subject, State(subject=entry.subject))
                if not fold(state, entry):
                    rolled_back[entry.subject] = []
        if rolled_back:
            async for entry in self._once(self._every):
                if entry.subject in rolled_back:
                    rolled_back[entry.subject].append(entry)
        for subject, entries in rolled_back.items():
            states[subject] = refold_as_of(subject, entries, moment)
        return [states[subject] for subject in sorted(states)]

    async def dead_letters(self) -> list[NumberedLetter]:
        """All dead letters, in order of their numbers, each as often as it was written."""
        made = [
            NumberedLetter(
                record.offset * self.settings.partitions + record.partition,
                record.timestamp * 1_000,
                letter_from(record.value, record.headers),
            )
            async for record in scan(self.settings, "dead-letters", self._every, whole=False)
            if replayed_from(record.value, record.headers) is None
        ]
        return sorted(made, key=lambda one: one.number)

    async def pending(self, now: int) -> list[Pending]:
        """Every trace that is not folded, the oldest first."""
        known = Rows()
        async for record in scan(self.settings, "traces", self._every, whole=False):
            if record.key is not None and record.key not in (POSITION, CLOCK):
                known.take(record.key, record.value)
        made: list[Pending] = []
        for key, row in known.rows.items():
            if key.kind == "trace" and row.open:
                state = row.state(key, MedianTable())  # medians measure what is folded
                assert isinstance(state, TraceState)
                made.append(_pending(state, row.last_recorded, now))
        return sorted(made, key=lambda one: (one.last_recorded, one.trace_id))


def _pending(state: TraceState, last: int, now: int) -> Pending:
    close = state.close
    step_count = None if close is None else close.step_count
    waiting = close is not None and step_count is not None
    never = close is None and state.feedback_count > 0 and now - last >= CLOSE_EXPECTED
    return Pending(
        trace_id=state.trace_id,
        scope=state.scope,
        steps=len(state.steps),
        step_count=step_count,
        feedback=state.feedback_count,
        first_recorded=last,
        last_recorded=last,
        age=max(0, now - last),
        waits_for=f"{(step_count or 0) - len(state.steps)} more steps" if waiting else "its close",
        reason=Reason.TRACE_NEVER_CLOSED if never else None,
    )
