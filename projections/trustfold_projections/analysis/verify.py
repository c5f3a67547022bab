"""The proofs of SPEC 4 on an archive, as far as one holds them; every difference is named.

`archive`: the manifest's chain is unbroken, every file is what its line says, every rollup is that
of its segment, nothing is missing, doubled or foreign. `ledger`: each entry is derived again from
the archived facts. `table`: the sums that DuckDB makes are the fold of the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

from trustfold_projections.analysis.as_of import rollbacks_as_of, states_as_of
from trustfold_projections.analysis.derivation import check_ledger
from trustfold_projections.analysis.records import entries_of
from trustfold_projections.archive import manifest as manifests
from trustfold_projections.archive.checks import check_files
from trustfold_projections.archive.opening import Archive
from trustfold_projections.laws.fold import fold
from trustfold_schemas import findings
from trustfold_schemas.errors import TrustfoldError
from trustfold_schemas.findings import Findings
from trustfold_schemas.scores import State, check_ranges, content_json

Advance = Callable[[int], None]

UNREADABLE = (*findings.UNREADABLE, duckdb.Error)
"""What a damaged row may raise on its way through laws and queries for sound ones."""


class Report(Findings, kw_only=True):
    """The outcome of a verification; `settled` is the moment up to which all was proven."""

    lines: int = 0
    segments: int = 0
    facts: int = 0
    entries: int = 0
    subjects: int = 0
    settled: int = 0
    head: str = manifests.GENESIS
    anchor: str | None = None


def verify(
    connection: duckdb.DuckDBPyConnection,
    folder: Path,
    anchor: str | None = None,
    advance: Advance = lambda _: None,
) -> Report:
    """Prove an archive. `anchor` is a head of its chain that was kept elsewhere.

    `advance` is told of every fact that was checked. Raises NoArchiveError.
    """
    manifest = manifests.read(folder)
    report = Report(
        lines=len(manifest.lines),
        segments=sum(len(lines) for lines in manifest.live.values()),
        settled=manifest.settled,
        head=manifest.head,
        anchor=anchor,
    )
    if anchor is not None and anchor not in manifest.heads:
        report.found(
            "archive",
            "the chain",
            f"the anchor {anchor} is no head that this archive ever had: lines were cut off or "
            "changed after it was noted",
        )
    for where, what in (*manifest.problems, *check_files(folder, manifest)):
        report.found("archive", where, what)
    if report.ok or _only_leftovers(report):
        archive = Archive(folder, manifest)
        try:
            check_ledger(connection, archive, report, advance)
            _check_table(connection, archive, report)
        except UNREADABLE as error:
            report.found("ledger", "a row", f"cannot be read: {type(error).__name__}: {error}")
    return report


def _only_leftovers(report: Report) -> bool:
    """Whether the segments that count are sound, whatever else lies about or is anchored."""
    return all(finding.where.startswith(("file ", "the chain")) for finding in report.findings)


def _check_table(connection: duckdb.DuckDBPyConnection, archive: Archive, report: Report) -> None:
    summed = {state.subject: state for state in states_as_of(connection, archive, archive.settled)}
    for state in _folded(connection, archive):
        report.subjects += 1
        where = f"score of {state.subject.key.decode()}"
        ours = summed.pop(state.subject, None)
        if ours is None:
            report.found("table", where, "the ledger has entries of it, the sums lack it")
        elif content_json(ours) != content_json(state):
            report.found(
                "table",
                where,
                f"the sums give {content_json(ours).decode()}, "
                f"the ledger folds to {content_json(state).decode()}",
            )
        elif (ours.version, ours.rollbacks) != (state.version, state.rollbacks):
            report.found(
                "table",
                where,
                f"version and rollbacks are {(ours.version, ours.rollbacks)}, "
                f"the ledger gives {(state.version, state.rollbacks)}",
            )
        try:
            check_ranges(state)
        except TrustfoldError as error:
            report.found("table", where, str(error))
    for subject in summed:
        report.found("table", f"score of {subject.key.decode()}", "the ledger has no entry of it")


def _folded(connection: duckdb.DuckDBPyConnection, archive: Archive) -> Iterator[State]:
    """The fold of every subject's entries in Python, one subject at a time."""
    rollbacks = rollbacks_as_of(connection, archive, archive.settled)
    state: State | None = None
    order = 'subject, partition, "offset", idx'
    for _, row in entries_of(connection, archive, archive.settled, order):
        entry = row.entry
        if state is None or state.subject != entry.subject:
            if state is not None:
                yield state
            in_force = rollbacks.get(entry.subject.key.decode(), ())
            state = State(subject=entry.subject, rollbacks=in_force)
        if not fold(state, entry):
            state.version += 1
    if state is not None:
        yield state
