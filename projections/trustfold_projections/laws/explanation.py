"""Why a score is what it is: what each entry moved, and what it would be without some of them.

A person can recompute the number from an explanation with a pocket calculator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from trustfold_projections.laws.correlation import TraceState, correlate_trace
from trustfold_projections.laws.fold import counts, fold, refold, rollbacks_in_force
from trustfold_projections.laws.medians import MedianTable
from trustfold_projections.laws.scoring import (
    RAW_SCORE_WEIGHTS,
    WITHOUT_EVIDENCE,
    raw_score_of,
    score_of,
    values_of,
)
from trustfold_projections.laws.time_weights import ZERO, g
from trustfold_schemas.amounts import PPM
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import (
    COMPONENTS,
    HUMAN_APPROVAL_RATE,
    TOOL_SUCCESS,
    UNDO_RATE,
    Entry,
)
from trustfold_schemas.scores import State, TrustScore
from trustfold_schemas.subject import Subject


class Term(Struct, frozen=True, kw_only=True):
    """One component at a moment: value = total / weight, term = share * value (or 1 - value).

    `total` and `weight` are the sums of amounts and weights, each halved per 30 days of age.
    """

    component: str
    total: float
    weight: float
    value: float
    share: float
    term: float


class Movement(Struct, frozen=True, kw_only=True):
    """What one entry did to raw_score; one that does not count moved nothing.

    `weight` is what one unit of it weighs at the moment of the explanation.
    """

    entry: Entry
    counts: bool
    weight: float
    before: float
    after: float


class Explanation(Struct, frozen=True, kw_only=True):
    """A score taken apart at a moment. `human_coverage` is decided / samples, by weight."""

    score: TrustScore
    state: State
    terms: tuple[Term, ...]
    human_coverage: float
    movements: tuple[Movement, ...]
    entries: int


def explain(subject: Subject, entries: Sequence[Entry], now: int, latest: int) -> Explanation:
    """Take a subject's score apart; `entries` is its whole ledger, in log order."""
    state = refold(subject, entries)
    den = state.den
    return Explanation(
        score=score_of(state, now),
        state=state,
        terms=_terms(state, now),
        human_coverage=den[HUMAN_APPROVAL_RATE] / den[UNDO_RATE] if den[UNDO_RATE] else 0.0,
        movements=tuple(_movements(subject, entries, now)[-latest:]) if latest else (),
        entries=len(entries),
    )


def _terms(state: State, now: int) -> tuple[Term, ...]:
    weight_now = g(max(now, ZERO))
    values = values_of(state)
    made: list[Term] = []
    for c, name in enumerate(COMPONENTS):
        num, den = state.num[c], state.den[c]
        if c == TOOL_SUCCESS:
            num, den = num + state.self_play_num, den + state.self_play_den
        value = values[c] if den else WITHOUT_EVIDENCE[c]
        good = 1 - value if c == UNDO_RATE else value
        made.append(
            Term(
                component=name,
                total=num / (PPM * weight_now),
                weight=den / weight_now,
                value=value,
                share=RAW_SCORE_WEIGHTS[c],
                term=RAW_SCORE_WEIGHTS[c] * good,
            )
        )
    return tuple(made)


def _movements(subject: Subject, entries: Sequence[Entry], now: int) -> list[Movement]:
    weight_now = g(max(now, ZERO))
    state = State(subject=subject, rollbacks=rollbacks_in_force(entries))
    made: list[Movement] = []
    after = raw_score_of(values_of(state))
    for entry in entries:
        before = after
        fold(state, entry)
        after = raw_score_of(values_of(state))
        made.append(
            Movement(
                entry=entry,
                counts=counts(entry.chain, state.rollbacks),
                weight=g(entry.occurred) / weight_now,
                before=before,
                after=after,
            )
        )
    return made


def state_if(
    subject: Subject,
    entries: Sequence[Entry],
    now: int,
    *,
    to: int | None = None,
    lift: str | None = None,
) -> State:
    """A subject's state if it were rolled back to a moment, or a rollback were lifted, `now`."""
    recorded = max(now, entries[-1].recorded + 1 if entries else 0)
    supposed = Entry(
        kind="rollback_lifted" if lift else "rollback",
        subject=subject,
        trace_id=None,
        event_id="",
        source="",
        occurred=recorded,
        recorded=recorded,
        chain=(recorded,),
        to=to,
        lifts=lift,
    )
    return refold(subject, [*entries, supposed])


def without_event(
    subject: Subject,
    entries: Sequence[Entry],
    event_id: str,
    facts_of_trace: Mapping[str, Sequence[Fact]],
    medians: MedianTable,
) -> list[Entry]:
    """A subject's ledger as it would be had an event never been published.

    `facts_of_trace` has all facts of each trace that the event belongs to: correlation is run
    over them again without it. Elsewhere (self-play, synthesis, rollbacks) its entries go.
    """
    again: dict[str, list[Entry]] = {}
    for trace_id, facts in facts_of_trace.items():
        state = TraceState(trace_id=trace_id)
        made: list[Entry] = []
        for fact in facts:
            if fact.event.id != event_id:
                made += correlate_trace(state, fact, medians).entries
        again[trace_id] = [entry for entry in made if entry.subject == subject]
    kept = [
        entry
        for entry in entries
        if entry.trace_id not in again
        and not (entry.trace_id is None and entry.event_id == event_id)
    ]
    return sorted(
        kept + [entry for made in again.values() for entry in made],
        key=lambda entry: (entry.recorded, entry.revision),
    )


def without_trace(entries: Sequence[Entry], trace_id: str) -> list[Entry]:
    """A subject's ledger as it would be had a trace never been."""
    return [entry for entry in entries if entry.trace_id != trace_id]
