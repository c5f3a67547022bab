"""Decisions followed back to the facts: why one was made, and what rests on what is taken back.

The state of a decision is derived twice, from the ledger and from the facts, so that damage to
either shows and has a name.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from trustfold_projections.laws.correlation import Key, KeyState, correlate, key_of, new_state
from trustfold_projections.laws.medians import MedianTable
from trustfold_projections.laws.policy import Policy, PolicyLog
from trustfold_projections.laws.policy.hindsight import (
    Differing,
    Impact,
    TakenBack,
    differing,
    impact,
)
from trustfold_schemas.decisions import Decision
from trustfold_schemas.errors import UnknownNameError
from trustfold_schemas.events import (
    RollbackLiftedEvent,
    SubjectRolledBackEvent,
    TraceEvent,
)
from trustfold_schemas.facts import Fact
from trustfold_schemas.findings import UNREADABLE
from trustfold_schemas.ledger import Entry
from trustfold_schemas.policy_events import TrustRevokedEvent
from trustfold_schemas.scores import Rollback
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded import audit, decisions, rows, thresholds
from trustfold_streams.embedded.errors import StoreDamagedError
from trustfold_streams.embedded.findings import moment_named
from trustfold_streams.embedded.memory import load_medians
from trustfold_streams.embedded.names import NAMED
from trustfold_streams.policy_hindsight import (
    Stored,
    acted,
    acted_before,
    digest_of,
    subjects_of,
    why_of,
)
from trustfold_streams.policy_port import Difference, Impacts, Why

# ---- why ---------------------------------------------------------------------------------------


def why(connection: sqlite3.Connection, decision_id: str) -> Why:
    """A decision, its step and feedback, and its state had again. Raises UnknownNameError."""
    decision = decisions.read_decision(connection, decision_id)
    subject, count = decision.action.subject, decision.verdict.version
    found: list[Difference] = []
    if not decisions.is_sound(connection, decision.position):
        words = "its row, or the one before, was changed"
        found.append(Difference(f"decision {decision_id}", words))
    stored = list(_stored(connection, subject, count))
    derived, damaged = _derived_from(connection, subject, stored)
    if digest_of(subject, derived) != decision.verdict.digest or damaged:
        # Something is wrong, so what the entries name cannot be relied on to find the facts.
        derived, damaged = _derived(subject, count, MedianTable(), _all_facts(connection))
    return why_of(
        decision,
        audit.read_facts(connection, Key("trace", decision.action.trace_id)),
        stored,
        derived,
        _policy_then(connection, decision),
        [*found, *damaged],
        # The ledger alone does not say which event made an entry; a fact makes one a subject.
        lambda entry: (entry.recorded, entry.revision),
    )


def _stored(connection: sqlite3.Connection, subject: Subject, count: int) -> Iterator[Stored]:
    """A subject's first entries as the ledger has them.

    By the entries' own subject, so that a broken `prev` leaves nothing out.
    """
    for position, *row in connection.execute(
        f"SELECT position, {rows.ENTRY_COLUMNS} FROM ledger WHERE subject_id = (SELECT subject_id "
        "FROM subjects WHERE (scope, tool, effect) = (?, ?, ?)) ORDER BY position LIMIT ?",
        (*subject, count),
    ):
        where = f"ledger entry {position}"
        try:
            yield Stored(where, rows.entry_of(tuple(row), subject))
        except UNREADABLE:
            yield Stored(where, None)


def _derived_from(
    connection: sqlite3.Connection, subject: Subject, stored: Sequence[Stored]
) -> tuple[list[Entry], list[Difference]]:
    """A subject's entries had again from all facts of the keys that these entries are of."""
    moments = [one.entry.recorded for one in stored if one.entry is not None]
    hashes: set[int] = set()
    for some in _batches(moments):
        marks = ", ".join("?" * len(some))
        query = f"SELECT DISTINCT key_hash FROM facts WHERE recorded IN ({marks})"
        hashes.update(hashed for (hashed,) in connection.execute(query, some))
    facts: list[rows.Row] = []
    for some in _batches(sorted(hashes)):
        marks = ", ".join("?" * len(some))
        query = f"SELECT {rows.FACT_COLUMNS} FROM facts WHERE key_hash IN ({marks})"
        facts += connection.execute(query, some).fetchall()
    facts.sort(key=lambda row: row[0])
    return _derived(subject, len(stored), load_medians(connection), facts)


def _all_facts(connection: sqlite3.Connection) -> Iterable[rows.Row]:
    return connection.execute(f"SELECT {rows.FACT_COLUMNS} FROM facts ORDER BY recorded")


def _batches(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), 500):
        yield numbers[start : start + 500]


def _derived(
    subject: Subject, count: int, medians: MedianTable, facts: Iterable[rows.Row]
) -> tuple[list[Entry], list[Difference]]:
    """A subject's first entries as facts in log order give them, and the facts that say nothing."""
    found: list[Difference] = []
    made: list[Entry] = []
    states: dict[Key, KeyState] = {}
    for row in facts:
        if len(made) >= count:
            break
        try:
            fact = rows.fact_of(row)
            key = key_of(fact.event)
            state = states.get(key)
            if state is None:
                state = states[key] = new_state(key)
            entries = correlate(state, fact, medians).entries
        except StoreDamagedError as error:
            found.append(Difference(f"fact {moment_named(row[0])}", str(error)))
            continue
        made += [entry for entry in entries if entry.subject == subject]
    return made[:count], found


# ---- what rests on what ------------------------------------------------------------------------


def impact_of(connection: sqlite3.Connection, name: str) -> Impacts:
    """The promotions that a trace's steps acted by, and those that rested on its evidence.

    `name` is a trace, or an event: feedback means its trace, a rollback its interval, a revocation
    what those whom it names did before, any other event of no trace its own entries. Raises
    UnknownNameError.
    """
    trace_id, what = name, f"trace {name}"
    asked = any(True for _ in decisions.of_trace(connection, name))
    if not asked and not audit.knows_trace(connection, name):
        fact = _fact_named(connection, name)
        event = fact.event
        if isinstance(event, TrustRevokedEvent):
            return _impact_of_revocation(connection, name, fact)
        if isinstance(event, SubjectRolledBackEvent | RollbackLiftedEvent):
            return _impact_of_rollback_event(connection, name, event)
        if not isinstance(event, TraceEvent):
            return _impact_of_event(connection, name)
        trace_id, what = event.data.trace_id, f"event {name} of trace {event.data.trace_id}"
    facts = audit.read_facts(connection, Key("trace", trace_id))
    return Impacts(
        name=name,
        what=what,
        acted=tuple(acted(decisions.of_trace(connection, trace_id), facts)),
        rested=tuple(_rested(connection, subjects_of(facts), TakenBack(trace_id=trace_id))),
    )


def _impact_of_event(connection: sqlite3.Connection, name: str) -> Impacts:
    subjects = [
        Subject(*row)
        for row in connection.execute(
            "SELECT DISTINCT scope, tool, effect FROM ledger JOIN facts USING (recorded) "
            f"JOIN subjects USING (subject_id) WHERE {NAMED} ORDER BY scope, tool, effect",
            (name,),
        )
    ]
    rested = _rested(connection, subjects, TakenBack(event_id=name))
    return Impacts(name=name, what=f"event {name}", acted=(), rested=tuple(rested))


def _impact_of_revocation(connection: sqlite3.Connection, name: str, fact: Fact) -> Impacts:
    every = (decision for _, decision in decisions.by_subject(connection))
    made = acted_before(
        fact, every, lambda trace_id: audit.read_facts(connection, Key("trace", trace_id))
    )
    by_position = sorted(made, key=lambda one: one.position)
    return Impacts(name=name, what=f"revocation {name}", acted=tuple(by_position), rested=())


def _impact_of_rollback_event(
    connection: sqlite3.Connection, name: str, event: SubjectRolledBackEvent | RollbackLiftedEvent
) -> Impacts:
    rollback_id = name if isinstance(event, SubjectRolledBackEvent) else event.data.rollback_id
    subject = event.data.subject
    (interval,) = [
        Rollback(rollback_id, entry.to, entry.recorded)
        for entry in audit.read_entries(connection, subject)
        if entry.kind == "rollback" and entry.event_id == rollback_id and entry.to is not None
    ]
    rested = _rested(connection, [subject], TakenBack(rollback=interval))
    return Impacts(
        name=name, what=f"rollback {rollback_id} of {subject}", acted=(), rested=tuple(rested)
    )


def impact_of_rollback(connection: sqlite3.Connection, subject: Subject, to: int) -> list[Impact]:
    """The promotions that rested on what a rollback to a moment, made now, would take back."""
    taken = TakenBack(rollback=Rollback("", to, 2**62))
    return list(_rested(connection, [subject], taken))


def _rested(
    connection: sqlite3.Connection, subjects: Iterable[Subject], taken: TakenBack
) -> Iterator[Impact]:
    for subject in subjects:
        made = list(decisions.of_subject(connection, subject))
        if made:
            entries = audit.read_entries(connection, subject)
            yield from impact(_with_policies(connection, made), entries, taken)


def differing_without(
    connection: sqlite3.Connection, subject: Subject, name: str
) -> list[Differing]:
    """A subject's decisions that would differ had an event or a trace never been."""
    other = audit.entries_without(connection, subject, name)
    made = list(decisions.of_subject(connection, subject))
    entries = audit.read_entries(connection, subject)
    return differing(_with_policies(connection, made), entries, other)


def _with_policies(
    connection: sqlite3.Connection, made: Sequence[Decision]
) -> list[tuple[Decision, Policy]]:
    """Decisions, each with the policy of its time; the log `policy` is read once."""
    wanted = {decision.verdict.policy_version for decision in made}
    log, policies = PolicyLog(), {0: Policy()}
    for fact in thresholds.read_policy(connection):
        log.take(fact)
        if log.version in wanted:
            policies[log.version] = log.policy
    return [(decision, _one_of(policies, decision)) for decision in made]


def _policy_then(connection: sqlite3.Connection, decision: Decision) -> Policy:
    ((_, policy),) = _with_policies(connection, [decision])
    return policy


def _one_of(policies: dict[int, Policy], decision: Decision) -> Policy:
    policy = policies.get(decision.verdict.policy_version)
    if policy is None:
        raise StoreDamagedError(
            f"the decision {decision.decision_id} rests on version "
            f"{decision.verdict.policy_version} of the policy, which its log does not reach; "
            "`trustfold verify` names what is missing"
        )
    return policy


def _fact_named(connection: sqlite3.Connection, name: str) -> Fact:
    row = connection.execute(
        f"SELECT {rows.FACT_COLUMNS} FROM facts WHERE {NAMED} ORDER BY recorded LIMIT 1",
        (name,),
    ).fetchone()
    if row is None:
        raise UnknownNameError(f"no event and no trace of the log is named {name!r}")
    return rows.fact_of(row)
