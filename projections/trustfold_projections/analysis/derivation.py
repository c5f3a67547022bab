"""The second proof of a verification: the archived ledger derived again from the archived facts.

Facts of one trace meet nothing but each other and the medians, so they are read trace by trace,
and one trace's state is all that is held. Facts of no trace are few; their states are all held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import duckdb
import msgspec

from trustfold_projections.analysis.records import entries_of, facts_of, letters_of, medians_of
from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.rows import EntryRow
from trustfold_projections.laws.correlation import Key, KeyState, correlate, key_of, new_state
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.events import TraceEvent
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import format_instant
from trustfold_schemas.ledger import Entry

if TYPE_CHECKING:
    from trustfold_projections.analysis.verify import Report

Place = tuple[int, bool, bytes, int, int]
"""(partition, of a trace, trace, offset, number): the order in which both sides are read."""

_BY_TRACE = "partition, trace_id NULLS FIRST"


def check_ledger(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    report: Report,
    advance: Callable[[int], None],
) -> None:
    """Hold every entry recorded up to the settled moment against what the facts derive."""
    # Two readings go on side by side, and a connection has one at a time.
    with connection.cursor() as other:
        stored = _stored(other, archive)
        held = next(stored, None)
        for place, entry in _derived(connection, archive, report, advance):
            while held is not None and held[0] < place:
                _surplus(report, held)
                held = next(stored, None)
            if held is None or held[0] != place:
                report.found(
                    "ledger",
                    f"entry {entry.entry_id}",
                    f"the facts derive it at {format_instant(entry.recorded)}, the ledger lacks it",
                )
                continue
            if held[1].entry != entry:
                report.found("ledger", _name(held), _difference(held[1].entry, entry))
            held = next(stored, None)
        while held is not None:
            _surplus(report, held)
            held = next(stored, None)


def _stored(
    connection: duckdb.DuckDBPyConnection, archive: Archive
) -> Iterator[tuple[Place, EntryRow]]:
    order = "fact_partition, trace_id NULLS FIRST, fact_offset, fact_number"
    for _, row in entries_of(connection, archive, archive.settled, order):
        trace_id = row.entry.trace_id
        yield (
            (
                row.fact_partition,
                trace_id is not None,
                (trace_id or "").encode(),
                row.fact_offset,
                row.fact_number,
            ),
            row,
        )


def _derived(
    connection: duckdb.DuckDBPyConnection,
    archive: Archive,
    report: Report,
    advance: Callable[[int], None],
) -> Iterator[tuple[Place, Entry]]:
    law = _Law(connection, archive)
    singles: dict[tuple[int, Key], KeyState] = {}
    state: KeyState | None = None
    known: tuple[int, str] | None = None
    last = 0
    for partition, fact in facts_of(
        connection,
        archive,
        where="recorded_us <= $moment",
        order=f'{_BY_TRACE}, "offset"',
        moment=archive.settled,
    ):
        report.facts += 1
        advance(report.facts)
        event = fact.event
        trace_id = event.data.trace_id if isinstance(event, TraceEvent) else None
        if trace_id is None:
            key = key_of(event)
            single = singles.setdefault((partition, key), new_state(key))
            made, _ = law.take(single, fact)
        else:
            forgotten = law.memory is not None and fact.recorded - last > law.memory
            if state is None or known != (partition, trace_id) or forgotten:
                known = (partition, trace_id)
                state = new_state(key_of(event))
            made, remembered = law.take(state, fact)
            last = fact.recorded if remembered else last
        report.entries += len(made)
        for number, entry in enumerate(made):
            yield (
                (partition, trace_id is not None, (trace_id or "").encode(), fact.position, number),
                entry,
            )


class _Law:
    """Correlation as the log had it: its medians, its memory, and what it found too old.

    A worker that was opened for history refuses nothing as too old, so only the dead letters tell.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, archive: Archive) -> None:
        self.memory = archive.manifest.memory
        self._medians = medians_of(connection, archive)
        self._too_old = letters_of(connection, archive, Reason.TOO_OLD)

    def take(self, state: KeyState, fact: Fact) -> tuple[tuple[Entry, ...], bool]:
        """What a fact makes, and whether it is remembered."""
        judged = self.memory if fact.document in self._too_old else None
        outcome = correlate(state, fact, self._medians, judged)
        return outcome.entries, outcome.remembered


def _surplus(report: Report, held: tuple[Place, EntryRow]) -> None:
    report.found(
        "ledger",
        _name(held),
        f"recorded {format_instant(held[1].entry.recorded)}: no fact derives it",
    )


def _name(held: tuple[Place, EntryRow]) -> str:
    return f"entry {held[1].entry.entry_id} at offset {held[1].offset}"


def _difference(stored: Entry, derived: Entry) -> str:
    ours, theirs = (msgspec.structs.asdict(entry) for entry in (stored, derived))
    return "; ".join(
        f"{name} is {ours[name]!r}, the facts give {theirs[name]!r}"
        for name in ours
        if ours[name] != theirs[name]
    )
