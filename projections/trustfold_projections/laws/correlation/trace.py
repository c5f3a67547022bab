"""The law of a trace: take one fact in, then write what it changed as ledger entries.

Entries are differences between what the trace now says and what the ledger already holds of it,
so they telescope to the same sums in any order of arrival.
"""

from __future__ import annotations

from trustfold_projections.laws.correlation.contribution import contribution
from trustfold_projections.laws.correlation.intake import Intake
from trustfold_projections.laws.correlation.knowledge import Given, TraceState
from trustfold_projections.laws.correlation.outcome import (
    Outcome,
    Verdict,
    at_the_door,
    remember,
)
from trustfold_projections.laws.fold import later
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry, Five, Kind
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
    own = any(refusal.position == fact.position for refusal in intake.refusals)
    return Outcome(
        Verdict.REFUSED if own else Verdict.ACCEPTED,
        entries=tuple(_entries(state, fact, intake)),
        refusals=tuple(intake.refusals),
        remembered=True,
    )


def _entries(state: TraceState, fact: Fact, intake: Intake) -> list[Entry]:
    entries: list[Entry] = []
    written: set[Subject] = set()
    if intake.folds:
        for subject in _subjects(state):
            entries.append(_evidence(state, fact, subject, intake))
            written.add(subject)
    elif state.folded:
        for subject in intake.dirty:
            correction = _correction(state, fact, subject, intake)
            if correction is not None:
                entries.append(correction)
                written.add(subject)
    for subject, moved in intake.moved.items():
        if subject in written:
            continue
        given = state.given.setdefault(subject, Given())
        bad_at, grant_at = _exceeding(given, *moved)
        if bad_at is not None or grant_at is not None:
            _mark(given, bad_at, grant_at)
            entries.append(
                _entry(
                    state,
                    fact,
                    subject,
                    given,
                    kind="brake",
                    occurred=fact.event.time,
                    chain=(fact.recorded,),
                    bad_at=bad_at,
                    grant_at=grant_at,
                )
            )
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


def _evidence(state: TraceState, fact: Fact, subject: Subject, intake: Intake) -> Entry:
    made = contribution(state, subject)
    given = state.given.setdefault(subject, Given())
    bad_at, grant_at = _exceeding(given, *intake.moved.get(subject, (None, None)))
    _mark(given, bad_at, grant_at)
    given.amounts, given.weights, given.n_samples = made.amounts, made.weights, made.n_samples
    given.chain = (*given.chain, fact.recorded)
    assert state.close is not None
    return _entry(
        state,
        fact,
        subject,
        given,
        kind="evidence",
        occurred=state.close.time,
        chain=given.chain,
        amounts=made.amounts,
        weights=made.weights,
        n_samples=made.n_samples,
        bad_at=bad_at,
        grant_at=grant_at,
        clean=made.clean,
        median_usd=state.medians.get(subject) if state.close.cost_usd is not None else None,
    )


def _correction(state: TraceState, fact: Fact, subject: Subject, intake: Intake) -> Entry | None:
    made = contribution(state, subject)
    given = state.given[subject]
    old = (given.amounts, given.weights, given.n_samples)
    if (made.amounts, made.weights, made.n_samples) == old:
        return None
    bad_at, grant_at = _exceeding(given, *intake.moved.get(subject, (None, None)))
    _mark(given, bad_at, grant_at)
    amounts = _difference(made.amounts, given.amounts)
    weights = _difference(made.weights, given.weights)
    n_samples = made.n_samples - given.n_samples
    given.amounts, given.weights, given.n_samples = made.amounts, made.weights, made.n_samples
    given.chain = (*given.chain, fact.recorded)
    assert state.close is not None
    return _entry(
        state,
        fact,
        subject,
        given,
        kind="correction",
        occurred=state.close.time,
        chain=given.chain,
        amounts=amounts,
        weights=weights,
        n_samples=n_samples,
        bad_at=bad_at,
        grant_at=grant_at,
    )


def _difference(new: Five, old: Five) -> Five:
    a, b, c, d, e = (n - o for n, o in zip(new, old, strict=True))
    return a, b, c, d, e


def _exceeding(
    given: Given, bad_at: int | None, grant_at: int | None
) -> tuple[int | None, int | None]:
    """Of two moments those that exceed what this trace gave the subject before."""
    if bad_at is not None and given.bad_at is not None and bad_at <= given.bad_at:
        bad_at = None
    if grant_at is not None and given.grant_at is not None and grant_at <= given.grant_at:
        grant_at = None
    return bad_at, grant_at


def _mark(given: Given, bad_at: int | None, grant_at: int | None) -> None:
    given.bad_at = later(given.bad_at, bad_at)
    given.grant_at = later(given.grant_at, grant_at)


def _entry(
    state: TraceState,
    fact: Fact,
    subject: Subject,
    given: Given,
    *,
    kind: Kind,
    occurred: int,
    chain: tuple[int, ...],
    amounts: Five = (0, 0, 0, 0, 0),
    weights: Five = (0, 0, 0, 0, 0),
    n_samples: int = 0,
    bad_at: int | None = None,
    grant_at: int | None = None,
    clean: bool = False,
    median_usd: int | None = None,
) -> Entry:
    given.revision += 1
    return Entry(
        kind=kind,
        subject=subject,
        trace_id=state.trace_id,
        event_id=fact.event.id,
        source=fact.event.source,
        occurred=occurred,
        recorded=fact.recorded,
        chain=chain,
        revision=given.revision,
        amounts=amounts,
        weights=weights,
        n_samples=n_samples,
        bad_at=bad_at,
        grant_at=grant_at,
        clean=clean,
        median_usd=median_usd,
    )
