"""A large archive as columns for the fast path: entries from its ledger, actions from its facts.

Most traces are one fact, their close, of which nobody ever spoke: DuckDB reads their steps. All
others, with feedback, violations or steps told singly, go through the law of correlation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Literal

import duckdb
import numpy as np
import pyarrow as pa

from trustfold_projections.analysis.backtest.actions import (
    PastAction,
    actions_of,
    state_of_one_close,
)
from trustfold_projections.analysis.backtest.archived_queries import (
    ENTRIES,
    OTHERS,
    PLAIN_ACTIONS,
    SEVERAL,
)
from trustfold_projections.analysis.backtest.columns import (
    ASKED,
    BANDS,
    DENIED,
    FAILED,
    UNDONE,
    VIOLATED,
    ActionColumns,
    EntryColumns,
    band_of,
    flags_of,
)
from trustfold_projections.analysis.backtest.fast import judged, one_ahead, tallied
from trustfold_projections.analysis.backtest.history import History, SubjectHistory
from trustfold_projections.analysis.backtest.reference import judge
from trustfold_projections.analysis.backtest.rules import Policy
from trustfold_projections.analysis.backtest.tally import Tally, with_totals
from trustfold_projections.analysis.records import columns_of, list_of, medians_of
from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.rows import entry_of, fact_of
from trustfold_projections.archive.schema import FACTS, LEDGER
from trustfold_projections.laws.correlation import TraceState, correlate_trace
from trustfold_projections.laws.correlation.outcome import FUTURE_MAX
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.events import TraceClosedEvent
from trustfold_schemas.facts import Fact
from trustfold_schemas.instants import DAY
from trustfold_schemas.subject import Subject, subject_from_key

BATCH: Final = 1 << 17
"""Rows that DuckDB hands over at once."""
RANGE: Final = 1 << 19
"""Entries that are sorted at once, unless one subject has more."""

_EXTRA: Final = pa.schema(
    [
        pa.field("number", pa.int32()),
        pa.field("moment", pa.int64()),
        pa.field("band", pa.int8()),
        pa.field("flags", pa.int8()),
    ]
)
_APART: Final = pa.schema([pa.field("number", pa.int32())])
_SUBJECTS: Final = pa.schema(
    [
        pa.field("number", pa.int32()),
        pa.field("subject", pa.string()),
        pa.field("scope", pa.string()),
        pa.field("tool", pa.string()),
        pa.field("effect", pa.string()),
    ]
)

LARGE_FACTS: Final = 20_000
"""From so many facts on an archive is judged as columns: about 100,000 actions."""


def is_large(archive: Archive) -> bool:
    """Whether an archive is better judged as columns."""
    return sum(line.rows for line in archive.manifest.segments("facts")) >= LARGE_FACTS


def backtest_archive(
    connection: duckdb.DuckDBPyConnection, archive: Archive, policies: Sequence[Policy]
) -> tuple[list[Tally], bool]:
    """What each policy would have done to an archived log, and whether that looks imported.

    The connection must be fresh. Raises TypeError for a policy that has no fast path.
    """
    medians = medians_of(connection, archive)
    ledger, facts = archive.files("ledger"), archive.files("facts")
    made = ArchivedBacktest(connection, ledger, facts, medians, archive.settled)
    return made.run(policies), made.imported()


class ArchivedBacktest:
    """One backtest over the segments of an archive; the connection is its own while it lasts."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        ledger: Sequence[str],
        facts: Sequence[str],
        medians: MedianTable,
        settled: int,
    ) -> None:
        self._connection = connection
        self._medians = medians
        self._settled = settled
        # Every join has its small side on the right, where the table is built; of steps within JSON
        # DuckDB expects so few that it would build it of them.
        connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        for name, files, schema in (("ledger", ledger, LEDGER), ("facts", facts, FACTS)):
            if files:
                connection.execute(
                    f"CREATE VIEW {name} AS SELECT {columns_of(schema)} "
                    f"FROM read_parquet({list_of(list(files))})"
                )
            else:
                self._create(name, schema.empty_table())
        self._numbers: dict[Subject, int] = {}
        self._counts: list[tuple[str, int]] = []

    def run(self, policies: Sequence[Policy]) -> list[Tally]:
        """What each policy would have done; none may be one that has no fast path."""
        self._number_subjects()
        self._connection.execute(SEVERAL, {"settled": self._settled})
        self._create_subjects()
        self._connection.execute(PLAIN_ACTIONS, {"settled": self._settled})
        extra = self._extra_actions(self._other_facts())
        self._create("extra", extra)
        rolled_back = self._rolled_back()
        apart = pa.Table.from_pydict(
            {"number": [self._numbers[subject] for subject in rolled_back]}, schema=_APART
        )
        self._create("apart", apart)
        subjects = list(self._numbers)
        scopes = sorted({subject.scope for subject in subjects})
        places = {scope: place for place, scope in enumerate(scopes)}
        scope_of = np.array([places[subject.scope] for subject in subjects], np.int64)
        made = judged(self._entries(), self._actions("NOT IN"), policies, subjects)
        tallies = tallied(made, policies, scopes, scope_of)
        tallies += judge(self._exact_history(rolled_back), policies)
        return with_totals(tallies, [policy.name for policy in policies])

    def imported(self) -> bool:
        """Whether most of the ledger was recorded more than a day after it happened."""
        (found,) = self._connection.execute(
            f"SELECT 2 * count(*) FILTER (recorded_us - occurred_us > {DAY}) > count(*) FROM ledger"
        ).fetchall()[0]
        return bool(found)

    def _create(self, name: str, table: pa.Table) -> None:
        """A table that other cursors see, too; a registered one is of its connection only."""
        self._connection.register("made", table)
        self._connection.execute(f"CREATE TABLE {name} AS FROM made")
        self._connection.unregister("made")

    # ---- subjects ------------------------------------------------------------------------------

    def _number_subjects(self) -> None:
        """Number the subjects of steps in the order of their keys, as the segments stand."""
        self._counts = self._connection.execute(
            "SELECT subject, count(*) FROM ledger WHERE recorded_us <= $settled "
            "GROUP BY subject ORDER BY subject",
            {"settled": self._settled},
        ).fetchall()
        for key, _ in self._counts:
            self._number(subject_from_key(key))

    def _number(self, subject: Subject) -> int:
        return self._numbers.setdefault(subject, len(self._numbers))

    def _create_subjects(self) -> None:
        # So far these are the subjects of the ledger: the law gives numbers to others later.
        keys = (key for key, _ in self._counts)
        some = [
            (number, key, subject)
            for key, (subject, number) in zip(keys, self._numbers.items(), strict=True)
            if not subject.is_global
        ]
        self._create(
            "subjects",
            pa.Table.from_pydict(
                {
                    "number": [number for number, _, _ in some],
                    "subject": [key for _, key, _ in some],
                    "scope": [subject.scope for _, _, subject in some],
                    "tool": [subject.tool for _, _, subject in some],
                    "effect": [subject.effect for _, _, subject in some],
                },
                schema=_SUBJECTS,
            ),
        )

    def _rolled_back(self) -> list[Subject]:
        """The subjects with a rollback, which need the exact path."""
        rows = self._connection.execute(
            "SELECT DISTINCT subject FROM ledger WHERE kind IN (6, 7) AND recorded_us <= $settled "
            "ORDER BY subject",
            {"settled": self._settled},
        ).fetchall()
        return [subject_from_key(key) for (key,) in rows]

    # ---- actions -------------------------------------------------------------------------------

    def _other_facts(self) -> Iterator[Mapping[str, Any]]:
        """The facts of all traces that may be more than a plain lone close, trace by trace."""
        reader = (
            self._connection.cursor()
            .sql(OTHERS, params={"settled": self._settled})
            .to_arrow_reader(BATCH >> 4)
        )
        for batch in one_ahead(iter(reader)):
            yield from batch.to_pylist()

    def _extra_actions(self, facts: Iterable[Mapping[str, Any]]) -> pa.Table:
        """The actions of those traces, but for the plain ones, by the law."""
        rows: list[tuple[int, int, int, int]] = []
        for trace_id, group in groupby(facts, key=itemgetter("trace_id")):
            rows += (
                (
                    self._number(action.subject),
                    action.moment,
                    band_of(action.reversibility),
                    flags_of(action),
                )
                for action in self._actions_of_trace(trace_id, group)
            )
        return pa.Table.from_pydict(
            {name: [row[i] for row in rows] for i, name in enumerate(_EXTRA.names)}, schema=_EXTRA
        )

    def _actions_of_trace(
        self, trace_id: str, rows: Iterable[Mapping[str, Any]]
    ) -> Iterator[PastAction]:
        facts = [fact_of(dict(row)) for row in rows]
        if len(facts) == 1 and _is_plain(facts[0]):
            return iter(())  # DuckDB has it
        state = state_of_one_close(trace_id, facts)
        if state is not None:
            return actions_of(state, facts)
        state = TraceState(trace_id=trace_id)
        remembered = [
            fact for fact in facts if correlate_trace(state, fact, self._medians).remembered
        ]
        return actions_of(state, remembered)

    def _actions(self, chosen: Literal["IN", "NOT IN"]) -> Iterator[ActionColumns]:
        """The actions of subjects that are, or are not, among those set apart."""
        reader = (
            self._connection.cursor()
            .sql(
                "SELECT number, moment, band, flags FROM (FROM plain UNION ALL FROM extra) "
                f"WHERE number IS NOT NULL AND number {chosen} (FROM apart) ORDER BY number, moment"
            )
            .to_arrow_reader(BATCH)
        )
        for batch in reader:
            yield ActionColumns(*(_ints(batch, name) for name in _EXTRA.names))

    # ---- entries -------------------------------------------------------------------------------

    def _entries(self) -> Iterator[EntryColumns]:
        """Entries range by range of subjects; the next is sorted while this one is judged."""
        ranges = (self._range(first, last) for first, last in self._ranges())
        for part in one_ahead(ranges):
            yield from part

    def _range(self, first: str, last: str) -> list[EntryColumns]:
        values = {"settled": self._settled, "first": first, "last": last}
        reader = self._connection.cursor().sql(ENTRIES, params=values).to_arrow_reader(BATCH)
        return [_entry_columns(batch) for batch in reader]

    def _ranges(self) -> Iterator[tuple[str, str]]:
        first, last, held = None, "", 0
        for key, count in self._counts:
            if first is not None and held + count > RANGE:
                yield first, last
                first, held = None, 0
            first, last, held = first if first is not None else key, key, held + count
        if first is not None:
            yield first, last

    def _exact_history(self, subjects: Sequence[Subject]) -> History:
        """The entries and actions of a few subjects, for the exact path."""
        history: History = {subject: SubjectHistory([], []) for subject in subjects}
        if not history:
            return history
        for subject, one in history.items():
            table: pa.Table = self._connection.sql(
                f"SELECT {columns_of(LEDGER)} FROM ledger WHERE subject = $subject "
                'AND recorded_us <= $settled ORDER BY recorded_us, partition, "offset", idx',
                params={"subject": subject.key.decode(), "settled": self._settled},
            ).to_arrow_table()
            one.entries.extend(entry_of(row).entry for row in table.to_pylist())
        by_number = {self._numbers[subject]: subject for subject in subjects}
        for part in self._actions("IN"):
            for row in range(len(part)):
                subject = by_number[int(part.subject[row])]
                history[subject].actions.append(_action(subject, part, row))
        return history


def _is_plain(fact: Fact) -> bool:
    """Whether a trace's only fact is one whose steps DuckDB reads: the same terms as there."""
    event = fact.event
    return (
        isinstance(event, TraceClosedEvent)
        and event.time <= fact.recorded + FUTURE_MAX
        and event.data.step_count is None
        and not event.data.violations
    )


def _action(subject: Subject, part: ActionColumns, row: int) -> PastAction:
    band, flags = int(part.band[row]), int(part.flags[row])
    return PastAction(
        subject=subject,
        reversibility=BANDS[band] if band >= 0 else None,
        moment=int(part.moment[row]),
        trace_id="",
        step_id="",
        asked=bool(flags & ASKED),
        denied=bool(flags & DENIED),
        failed=bool(flags & FAILED),
        undone=bool(flags & UNDONE),
        violated=bool(flags & VIOLATED),
    )


def _ints(batch: pa.RecordBatch, name: str) -> Any:
    return batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64)


def _bools(batch: pa.RecordBatch, name: str) -> Any:
    return batch.column(name).to_numpy(zero_copy_only=False).astype(np.bool_)


def _entry_columns(batch: pa.RecordBatch) -> EntryColumns:
    return EntryColumns(
        subject=_ints(batch, "number"),
        recorded=_ints(batch, "recorded_us"),
        era=_ints(batch, "era"),
        m=_ints(batch, "m"),
        amounts=[_ints(batch, f"a{c}") for c in range(5)],
        weights=[_ints(batch, f"w{c}") for c in range(5)],
        n=_ints(batch, "n"),
        updated=_ints(batch, "updated"),
        bad_at=_ints(batch, "bad_at"),
        grant_at=_ints(batch, "grant_at"),
        good=_bools(batch, "good"),
        worse=_bools(batch, "worse"),
    )
