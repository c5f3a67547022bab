"""The proof of decisions: each stands as it was given, and the same past gives it again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby

from trustfold_projections.laws.fold import fold, refold
from trustfold_projections.laws.policy import Policy, PolicyLog
from trustfold_projections.laws.policy.hindsight import verdict_again
from trustfold_schemas.decisions import Decision, ReasonCode
from trustfold_schemas.findings import UNREADABLE
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import decisions, rows, thresholds
from trustfold_streams.embedded.findings import Report, head_named, subject_named
from trustfold_streams.embedded.reader import history_of

PROOF = "decisions"


def check_decisions(connection: sqlite3.Connection, report: Report) -> None:
    """Name every decision that was changed, or that its subject's past does not give."""
    try:
        sound = _check_chain(connection, report)
        policies = _Policies(connection)
        by_subject = groupby(decisions.by_subject(connection), lambda row: row[0])
        for subject, some in by_subject:
            made = [decision for _, decision in some if decision.decision_id in sound]
            _check_subject(connection, subject, made, policies, report)
    except UNREADABLE as error:
        report.unreadable(PROOF, "the table decisions", error)


def _check_chain(connection: sqlite3.Connection, report: Report) -> set[str]:
    """Walk the chain; the ids of the decisions that stand as they were written."""
    sound: set[str] = set()
    head = rows.GENESIS
    for decision_id, holds, head in decisions.chain_of(connection):
        report.decisions += 1
        report.passed(head)
        if holds:
            sound.add(decision_id)
        else:
            words = "the chain breaks here: the decision or one before it differs"
            report.found(PROOF, f"decision {decision_id}", words)
    noted = decisions.noted_head(connection)
    if head != noted:
        report.found(
            PROOF,
            "the end of the log",
            f"it ends at {head_named(head)}, noted beside it is {head_named(noted)}: decisions "
            "were cut off, or added by another hand",
        )
    report.decisions_head = head_named(head)
    return sound


def _check_subject(
    connection: sqlite3.Connection,
    subject: Subject,
    made: Sequence[Decision],
    policies: _Policies,
    report: Report,
) -> None:
    try:
        states = _states(subject, _entries(connection, subject), made)
        for decision, state in states:
            if ReasonCode.CORRUPT in decision.verdict.reasons:
                continue  # what the record said then is gone, and was no trust
            again = verdict_again(decision, state, policies.at(decision.verdict.policy_version))
            if again != decision.verdict:
                report.found(
                    PROOF,
                    f"decision {decision.decision_id}",
                    f"was {decision.verdict.verdict} on digest {decision.verdict.digest}; the "
                    f"same past gives {again.verdict} ({again.reason}) on {again.digest}",
                )
    except UNREADABLE as error:
        report.unreadable(PROOF, f"decisions on {subject_named(subject)}", error)


def _entries(connection: sqlite3.Connection, subject: Subject) -> list[Entry]:
    row = connection.execute(
        "SELECT subject_id FROM subjects WHERE (scope, tool, effect) = (?, ?, ?)", subject
    ).fetchone()
    return [] if row is None else history_of(connection, row[0], subject)


def _states(
    subject: Subject, entries: Sequence[Entry], made: Sequence[Decision]
) -> Iterator[tuple[Decision, State | None]]:
    """Each decision with the state it rested on, in one pass over the subject's ledger."""
    state, folded = State(subject=subject), 0
    for decision in sorted(made, key=lambda one: one.verdict.version):
        version = decision.verdict.version
        while folded < min(version, len(entries)):
            entry, folded = entries[folded], folded + 1
            if not fold(state, entry):
                state = refold(subject, entries[:folded])
        yield decision, state if version else None


class _Policies:
    """The policy at each version of its log, made when it is first asked for."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._facts = thresholds.read_policy(connection)
        self._known: dict[int, Policy] = {0: Policy()}

    def at(self, version: int) -> Policy:
        """The policy after so many facts. Raises KeyError where its log does not reach."""
        if version not in self._known:
            log = PolicyLog()
            for fact in self._facts[:version]:
                log.take(fact)
            if log.version == version:
                self._known[version] = log.policy
        return self._known[version]
