"""Scores under the formula `elapsed/1` beside the table's, subject by subject, from their entries.

Its floats must be added one sample after the other, so no engine sums it: the laws in
`laws.elapsed` and `laws.fold` read each subject's entries. Half-lives are in `whatif`.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import pyarrow.parquet as pq
from msgspec import Struct

from trustfold_projections.archive.opening import Archive
from trustfold_projections.archive.rows import entry_of
from trustfold_projections.archive.schema import LEDGER
from trustfold_projections.laws.elapsed import ElapsedState, elapsed_score, elapsed_state
from trustfold_projections.laws.fold import refold
from trustfold_projections.laws.scoring import score_of
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State, TrustScore
from trustfold_schemas.subject import Subject

BATCH_ROWS: Final = 1_024
"""Of every segment so many rows are in memory, beside the entries of one subject."""

_LOG_ORDER: Final = itemgetter("partition", "offset", "idx")


class Beside(Struct, frozen=True, gc=False, kw_only=True):
    """A subject at a moment: its state and score under `elapsed/1`, and what the table says."""

    elapsed: ElapsedState
    score: float
    table: TrustScore


def beside(subject: Subject, entries: Sequence[Entry], now: int) -> Beside:
    """A subject under both formulas, from the same entries in log order, read at `now`."""
    return _read(elapsed_state(subject, entries), refold(subject, entries), now)


def beside_over_time(
    subject: Subject, entries: Sequence[Entry], moments: Iterable[int]
) -> Iterator[tuple[int, Beside]]:
    """A subject as of each moment, read at that moment; `entries` in log order."""
    known: list[Entry] = []
    elapsed, state = elapsed_state(subject, known), refold(subject, known)
    for moment in moments:
        before, known = len(known), [one for one in entries if one.recorded <= moment]
        if len(known) != before:
            elapsed, state = elapsed_state(subject, known), refold(subject, known)
        yield moment, _read(elapsed, state, moment)


def _read(elapsed: ElapsedState, state: State, now: int) -> Beside:
    return Beside(elapsed=elapsed, score=elapsed_score(elapsed, now), table=score_of(state, now))


def archived_by_subject(archive: Archive, moment: int) -> Iterator[tuple[Subject, list[Entry]]]:
    """Each subject with its entries recorded at or before a moment, in log order.

    Segments are sorted by subject, so they are merged as they are read: only one subject's entries
    are in memory at a time. Subjects come in the order of their keys. Raises NotSettledError,
    ArchiveDamagedError.
    """
    archive.require_settled(moment)
    segments = [_rows(file, moment) for file in archive.files("ledger", moment)]
    by_key = itemgetter("subject")
    for _, rows in groupby(heapq.merge(*segments, key=by_key), key=by_key):
        entries = [entry_of(row).entry for row in sorted(rows, key=_LOG_ORDER)]
        yield entries[0].subject, entries


def _rows(file: str, moment: int) -> Iterator[dict[str, Any]]:
    """The rows of a segment recorded at or before a moment, as they stand there."""
    with contextlib.closing(pq.ParquetFile(file)) as segment:
        for batch in segment.iter_batches(BATCH_ROWS, columns=LEDGER.names):
            for row in batch.to_pylist():
                if row["recorded_us"] <= moment:
                    yield row
