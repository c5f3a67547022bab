"""The proofs of SPEC 4 on a pipeline: its log is archived for the moment, and that is proven.

The table is read first, so that the archive has gone further than it. A score says how many entries
it is the fold of: it must be that of so many first entries of its subject.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from trustfold_projections.analysis.records import entries_of
from trustfold_projections.analysis.verify import Report
from trustfold_projections.archive.duck import in_memory
from trustfold_projections.archive.opening import Archive
from trustfold_projections.laws.fold import refold
from trustfold_schemas.facts import Stamp
from trustfold_schemas.instants import MINUTE
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import Corrupt, State, content_json
from trustfold_schemas.subject import Subject
from trustfold_streams.archiver.from_kafka import kafka_log
from trustfold_streams.archiver.run import open_archiver
from trustfold_streams.archiver.store import verify_archive
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka.command_store import KafkaStore
from trustfold_streams.kafka.settings import KafkaSettings

BEHIND_MAX: Final = 2 * MINUTE
"""What was recorded so long before the table was read must be in it: readers accept one minute."""
_FOR_EVER: Final = 2**62


def verify_pipeline(
    settings: KafkaSettings, stamp: Stamp, advance: Callable[[int], None] = lambda _: None
) -> Report:
    """Prove a pipeline. Raises StaleTableError where its table is not known to be complete."""
    before = SystemClock().now() - BEHIND_MAX
    with KafkaStore.open(settings, stamp) as store:
        table = store.states()
    with tempfile.TemporaryDirectory(prefix="trustfold-verify-") as name:
        folder = Path(name)
        with open_archiver(folder) as archiver:
            archiver.run(functools.partial(kafka_log, settings))
        report = verify_archive(folder, advance=advance)
        if not any(finding.proof == "archive" for finding in report.findings):
            compare_table(table, Archive.open(folder), report, before)
    return report


def compare_table(
    table: Iterable[State | Corrupt], archive: Archive, report: Report, before: int
) -> None:
    """Hold a table against the archived entries; what was recorded by `before` must be in it."""
    known = {one.subject: one for one in table}
    for subject, entries in _by_subject(archive):
        where = f"score of {subject.key.decode()}"
        state = known.pop(subject, None)
        if isinstance(state, Corrupt):
            report.found("table", where, state.error)
            continue
        folded = 0 if state is None else state.version
        if folded > len(entries):
            report.found(
                "table", where, f"is of {folded} entries, the ledger has {len(entries)} of them"
            )
            continue
        missing = sum(entry.recorded <= before for entry in entries[folded:])
        if missing:
            report.found("table", where, f"lacks {missing} entries that were recorded long before")
        if state is not None:
            _compare(report, where, state, refold(subject, entries[:folded]))
    for subject in known:
        report.found("table", f"score of {subject.key.decode()}", "the ledger has no entry of it")


def _compare(report: Report, where: str, state: State, ours: State) -> None:
    if content_json(state) != content_json(ours):
        report.found(
            "table",
            where,
            f"the table has {content_json(state).decode()}, its first {state.version} entries "
            f"fold to {content_json(ours).decode()}",
        )
    if state.rollbacks != ours.rollbacks:
        report.found(
            "table", where, f"rollbacks are {state.rollbacks}, the ledger gives {ours.rollbacks}"
        )


def _by_subject(archive: Archive) -> Iterator[tuple[Subject, list[Entry]]]:
    with in_memory() as connection:
        rows = entries_of(connection, archive, _FOR_EVER, 'subject, partition, "offset", idx')
        for subject, some in groupby(rows, key=lambda row: row[1].entry.subject):
            yield subject, [row.entry for _, row in some]
