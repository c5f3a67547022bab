"""The proofs of SPEC 4 on one file: facts unbroken, ledger derived from them, table folded from it.

Every difference is named; `ok` follows from the differences found. A row that no law can read is a
difference too, and the proofs go on after it. The triggers are not proven: they keep accidents
from the rows, and what gets past them is what the proofs are for.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from trustfold_projections.laws.correlation import key_of
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.events import type_of
from trustfold_schemas.findings import UNREADABLE, Finding
from trustfold_schemas.scores import State, content_json
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import decisions, rows, thresholds
from trustfold_streams.embedded.database import any_text, layout, layout_of, snapshot
from trustfold_streams.embedded.dead_letters import seal_of
from trustfold_streams.embedded.decisions_proof import check_decisions
from trustfold_streams.embedded.derivation import Derivation
from trustfold_streams.embedded.findings import Report, moment_named, subject_named
from trustfold_streams.embedded.folding import fold_ledger
from trustfold_streams.embedded.memory import SCORE_COLUMNS, open_score
from trustfold_streams.embedded.reader import load_subjects

__all__ = ["Finding", "Report", "verify"]

Advance = Callable[[int], None]


def verify(
    connection: sqlite3.Connection, anchor: str | None = None, advance: Advance = lambda _: None
) -> Report:
    """Prove the file, all of it at one moment. `anchor` is a head of a chain kept elsewhere.

    `advance` is told of every fact that was checked.
    """
    report = Report(anchor=anchor, anchored=None if anchor is None else False)
    with snapshot(connection), any_text(connection):
        _check_file(connection, report)
        subjects = load_subjects(connection)
        derivation = Derivation(connection, subjects, report)
        event_ids = _check_facts(connection, derivation, report, advance)
        derivation.finish()
        _check_table(connection, subjects, report)
        _check_thresholds(connection, report)
        check_decisions(connection, report)
        _check_dead_letters(connection, event_ids, report)
    if report.anchored is False:
        report.found(
            "facts",
            "the chain",
            f"the anchor {anchor} is no head that this log ever had, nor that of its decisions: "
            "some were cut off or changed after it was noted",
        )
    return report


# ---- the file --------------------------------------------------------------------------------


def _check_file(connection: sqlite3.Connection, report: Report) -> None:
    for (line,) in connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            report.found("file", "SQLite's own check", line)
    stored = layout_of(connection)
    for name, made in layout().items():
        if stored.get(name) != made:
            report.found(
                "file", f"the layout of {' '.join(name)}", "is not as this version makes it"
            )
    if dict(connection.execute("SELECT kind, name FROM kinds")) != rows.KIND_NAMES:
        report.found("file", "the table kinds", f"is not {rows.KIND_NAMES}")
    for name, value in connection.execute("SELECT name, value FROM meta"):
        if name == decisions.HEAD:
            continue  # held against the decisions
        if name != "settled":
            report.found("file", f"meta {name}", "no such name is known")
        elif not isinstance(value, int) or value < 0:
            report.found("file", "meta settled", f"{value!r} is no moment")


# ---- facts, and the ledger from them ---------------------------------------------------------


def _check_facts(
    connection: sqlite3.Connection, derivation: Derivation, report: Report, advance: Advance
) -> set[str]:
    """Walk the chain of facts, re-deriving the ledger on the way.

    Of the event ids under which dead letters were replayed, those that the log holds.
    """
    replayed = {
        name
        for (name,) in connection.execute(
            "SELECT replayed_as FROM dead_letters WHERE replayed_as IS NOT NULL"
        )
    }
    held: set[str] = set()
    chain = rows.GENESIS
    report.passed(chain)
    for row in connection.execute("SELECT * FROM facts ORDER BY recorded"):
        report.facts += 1
        where = f"fact {moment_named(row[0])}"
        stored = row[-1]
        try:
            if rows.chained(chain, row) != stored:
                report.found(
                    "facts", where, "the chain breaks here: the fact or one before it differs"
                )
        except UNREADABLE as error:
            report.unreadable("facts", where, error)
        if isinstance(stored, bytes):
            chain = stored
        report.passed(chain)
        try:
            event_id = _check_fact(row, derivation, report, where)
            held.update({event_id} & replayed)
        except UNREADABLE as error:
            report.unreadable("facts", where, error)
        advance(report.facts)
    report.head = chain.hex()
    return held


def _check_fact(row: rows.Row, derivation: Derivation, report: Report, where: str) -> str:
    recorded, hashed, kind, role, identity, scopes, body, _ = row
    fact = rows.fact_of((recorded, role, identity, scopes, body))
    key = key_of(fact.event)
    if rows.key_hash(key) != hashed:
        report.found("facts", where, f"key_hash {hashed} is not that of {key}")
    if f"{rows.TYPE_PREFIX}{kind}" != type_of(fact.event):
        report.found("facts", where, f"type {kind} is not that of its body")
    derivation.take(key, fact)
    return fact.event.id


# ---- the table from the ledger ---------------------------------------------------------------


def _check_table(
    connection: sqlite3.Connection, subjects: dict[int, Subject], report: Report
) -> None:
    folded = fold_ledger(connection, subjects, report)
    for number in sorted(subjects.keys() - folded.keys()):
        report.found("table", f"subject {number}", "the ledger has no entry of it")
    known = connection.execute(
        f"SELECT subject_id, {SCORE_COLUMNS} FROM scores ORDER BY subject_id"
    )
    for number, *columns in known:
        report.subjects += 1
        subject = subjects.get(number)
        if subject is None:
            report.found("table", f"score {number}", "belongs to no subject")
            continue
        where = f"score of {subject_named(subject)}"
        ours = folded.pop(number, None)
        try:
            table = open_score(tuple(columns), subject)
            if ours is not None:
                _compare_states(report, where, table, (ours.state, ours.head))
        except TrustCorruptionError as error:
            report.found("table", where, str(error))
        except UNREADABLE as error:
            report.unreadable("table", where, error)
    for number in folded:
        where = f"score of {subject_named(subjects[number])}"
        report.found("table", where, "the ledger has entries of it, the table lacks it")


def _compare_states(
    report: Report, where: str, table: tuple[State, int | None], ledger: tuple[State, int]
) -> None:
    if content_json(table[0]) != content_json(ledger[0]):
        report.found(
            "table",
            where,
            f"the table has {content_json(table[0]).decode()}, "
            f"the ledger folds to {content_json(ledger[0]).decode()}",
        )
    beside = [(state.rollbacks, state.version, head) for state, head in (table, ledger)]
    if beside[0] != beside[1]:
        report.found(
            "table",
            where,
            f"rollbacks, version and position are {beside[0]}, the ledger gives {beside[1]}",
        )


def _check_thresholds(connection: sqlite3.Connection, report: Report) -> None:
    """The table of thresholds is what the facts of `policy` have set."""
    try:
        found = thresholds.stored(connection)
        expected = thresholds.derived(thresholds.read_policy(connection))
        for effect, band in sorted({*found, *expected}):
            report.thresholds += 1
            ours, theirs = expected.get((effect, band)), found.get((effect, band))
            if ours != theirs:
                where = f"threshold {effect} {band}"
                report.found("thresholds", where, f"is {theirs}, the facts give {ours}")
    except UNREADABLE as error:
        report.unreadable("thresholds", "the table thresholds", error)


# ---- dead letters ----------------------------------------------------------------------------


def _check_dead_letters(
    connection: sqlite3.Connection, event_ids: set[str], report: Report
) -> None:
    """Their bytes, reason and publisher, and that what was replayed is in the log.

    When one came, from where, how often, and its prose are not proven: nothing follows from them.
    """
    for number, *row in connection.execute(
        "SELECT dead_letter_id, reason, role, identity, scopes, body, body_sha256, seal, "
        "replayed, replayed_as, detail, origin FROM dead_letters"
    ):
        report.dead_letters += 1
        where = f"dead letter {number}"
        try:
            for difference in _differences_of_letter(row, event_ids):
                report.found("dead letters", where, difference)
        except UNREADABLE as error:
            report.unreadable("dead letters", where, error)


def _differences_of_letter(row: list[Any], event_ids: set[str]) -> Iterator[str]:
    reason, role, identity, scopes, body, digest, seal, replayed, name, detail, origin = row
    if reason not in set(Reason):
        yield f"no such reason: {reason!r}"
    if hashlib.sha256(body).digest() != digest:
        yield "its bytes were changed"
    elif seal_of(reason, role, identity, scopes, body) != seal:
        yield "its reason or its publisher was changed"
    if (replayed is None) != (name is None):
        yield f"replayed {replayed!r} as {name!r}"
    if name is not None and name not in event_ids:
        yield f"replayed as {name!r}, which the log does not hold"
    (detail + origin).encode()  # what is not UTF-8 could not be listed
