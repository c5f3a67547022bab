"""The law of a trace: take one fact in, then write what it changed as ledger entries.

Entries are differences between what the trace now says and what the ledger already holds of it,
so they telescope to the same sums in any order of arrival.
"""

from __future__ import annotations

from trustfold_projections.laws.correlation.contribution import contribution
from trustfold_projections.laws.correlation.intake import Intake
from trustfold_projections.laws.correlation.knowledge import Close, Given, TraceState
from trustfold_projections.laws.correlation.marks import Moved
from trustfold_projections.laws.correlation.outcome import (
    Outcome,
    Verdict,
    at_the_door,
    remember,
)
from trustfold_projections.laws.fold import later
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry, Five
from trustfold_schemas.subject import Subject, global_subject


def correlate_trace(
    state: TraceState, fact: Fact, medians: MedianTable, memory: int | None = None
) -> Outcome:
    """Take one fact of a trace in; `state` is changed in place, only if the fact is remembered.

    `medians` must hold what was recorded before the trace's close; `memory` is how long traces
    are remembered, in microseconds (None: for ever).
    """
    turned_away = at_the_door(state.seen, fact, memory)
    if turned_away is not None:
        return turned_away
    intake = Intake(state, fact, medians)
    refusal = intake.take()
    if refusal is not None:
        return Outcome(Verdict.REFUSED, refusals=(refusal,))
    remember(state.seen, fact)
    entries, refusals = tuple(_entries(state, fact, intake)), tuple(intake.refusals)
    own = any(refusal.position == fact.position for refusal in refusals) if refusals else False
    return Outcome(Verdict.REFUSED if own else Verdict.ACCEPTED, entries, refusals, True)


def _entries(state: TraceState, fact: Fact, intake: Intake) -> list[Entry]:
    entries: list[Entry] = []
    written: set[Subject] = set()
    if intake.folds:
        assert state.close is not None
        for subject in _subjects(state):
            moved = intake.moved.get(subject) if intake.moved else None
            entries.append(_evidence(state, state.close, fact, subject, moved))
        if intake.moved:
            written.update(entry.subject for entry in entries)
    elif state.folded:
        for subject in intake.dirty:
            correction = _correction(state, fact, subject, intake)
            if correction is not None:
                entries.append(correction)
                written.add(subject)
    for subject, marks in intake.moved.items():
        if subject not in written:
            brake = _brake(state, fact, subject, marks)
            if brake is not None:
                entries.append(brake)
    return entries


def _subjects(state: TraceState) -> tuple[Subject, ...]:
    """Whom the fold of a trace writes evidence for, its global subject last."""
    close = state.close
    assert close is not None
    if close.signals is not None:
        return (close.signals.subject,)
    assert state.scope is not None
    assert close.outcome is not None
    return (*state.subjects, global_subject(state.scope, close.outcome))


def _evidence(
    state: TraceState, close: Close, fact: Fact, subject: Subject, moved: Moved | None
) -> Entry:
    made = contribution(state, subject)
    given = state.given.get(subject)
    bad_at, grant_at = (None, None) if moved is None else moved
    revision, chain = 1, (fact.recorded,)
    if given is None:
        state.given[subject] = Given(
            made.amounts, made.weights, made.n_samples, bad_at, grant_at, 1, chain
        )
    else:
        bad_at, grant_at = _newly_marked(given, moved)
        given.amounts, given.weights, given.n_samples = made.amounts, made.weights, made.n_samples
        given.chain = chain
        given.revision += 1
        revision = given.revision
    event = fact.event
    return Entry(
        kind="evidence",
        subject=subject,
        trace_id=state.trace_id,
        event_id=event.id,
        source=event.source,
        occurred=close.time,
        recorded=fact.recorded,
        chain=chain,
        revision=revision,
        amounts=made.amounts,
        weights=made.weights,
        n_samples=made.n_samples,
        bad_at=bad_at,
        grant_at=grant_at,
        clean=made.clean,
        median_usd=state.medians.get(subject),
    )


def _correction(state: TraceState, fact: Fact, subject: Subject, intake: Intake) -> Entry | None:
    made = contribution(state, subject)
    given = state.given[subject]
    old = (given.amounts, given.weights, given.n_samples)
    if (made.amounts, made.weights, made.n_samples) == old:
        return None
    bad_at, grant_at = _newly_marked(given, intake.moved.get(subject))
    given.amounts, given.weights, given.n_samples = made.amounts, made.weights, made.n_samples
    given.chain = (*given.chain, fact.recorded)
    given.revision += 1
    assert state.close is not None
    return Entry(
        kind="correction",
        subject=subject,
        trace_id=state.trace_id,
        event_id=fact.event.id,
        source=fact.event.source,
        occurred=state.close.time,
        recorded=fact.recorded,
        chain=given.chain,
        revision=given.revision,
        amounts=_difference(made.amounts, old[0]),
        weights=_difference(made.weights, old[1]),
        n_samples=made.n_samples - old[2],
        bad_at=bad_at,
        grant_at=grant_at,
    )


def _brake(state: TraceState, fact: Fact, subject: Subject, moved: Moved) -> Entry | None:
    given = state.given.setdefault(subject, Given())
    bad_at, grant_at = _newly_marked(given, moved)
    if bad_at is None and grant_at is None:
        return None
    given.revision += 1
    return Entry(
        kind="brake",
        subject=subject,
        trace_id=state.trace_id,
        event_id=fact.event.id,
        source=fact.event.source,
        occurred=int(fact.event.time),
        recorded=fact.recorded,
        chain=(fact.recorded,),
        revision=given.revision,
        bad_at=bad_at,
        grant_at=grant_at,
    )


def _difference(new: Five, old: Five) -> Five:
    a, b, c, d, e = (n - o for n, o in zip(new, old, strict=True))
    return a, b, c, d, e


def _newly_marked(given: Given, moved: Moved | None) -> Moved:
    """Of a brake and a grant those that exceed what this trace gave the subject; noted as given."""
    if moved is None:
        return None, None
    bad_at, grant_at = moved
    if bad_at is not None and given.bad_at is not None and bad_at <= given.bad_at:
        bad_at = None
    if grant_at is not None and given.grant_at is not None and grant_at <= given.grant_at:
        grant_at = None
    given.bad_at = later(given.bad_at, bad_at)
    given.grant_at = later(given.grant_at, grant_at)
    return bad_at, grant_at
