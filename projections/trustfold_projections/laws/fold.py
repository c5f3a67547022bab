"""The fold: adding ledger entries to a state, exactly, rollbacks by interval and chain (SPEC 4).

Integer addition is associative and commutative, so no order, batching or machine changes a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trustfold_projections.laws.time_weights import g
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import Rollback, State
from trustfold_schemas.subject import Subject

_FRESHENING = frozenset({"evidence", "initial"})
_ROLLBACKS = frozenset({"rollback", "rollback_lifted"})


def fold(state: State, entry: Entry) -> bool:
    """Add one entry to its subject's state, in place.

    False if the entry changes which others count (a rollback, or one lifted): then nothing was
    added and the subject must be refolded from its ledger with `refold`.
    """
    if entry.kind in _ROLLBACKS:
        return False
    state.version += 1
    _add(state, entry, counts=not state.rollbacks or counts(entry.chain, state.rollbacks))
    return True


def refold(subject: Subject, entries: Iterable[Entry]) -> State:
    """The state of a subject from all of its entries, in log order."""
    ledger: Sequence[Entry] = list(entries)
    state = State(subject=subject, rollbacks=rollbacks_in_force(ledger), version=len(ledger))
    for entry in ledger:
        if entry.kind not in _ROLLBACKS:
            _add(state, entry, counts=counts(entry.chain, state.rollbacks))
    return state


def refold_as_of(subject: Subject, entries: Iterable[Entry], moment: int) -> State:
    """The state of a subject as of a moment: from the entries recorded at or before it."""
    return refold(subject, (entry for entry in entries if entry.recorded <= moment))


def rollbacks_in_force(entries: Iterable[Entry]) -> tuple[Rollback, ...]:
    """The rollbacks among a subject's entries that were not lifted, in log order."""
    active: dict[str, Rollback] = {}
    for entry in entries:
        if entry.kind == "rollback" and entry.to is not None:
            active[entry.event_id] = Rollback(entry.event_id, entry.to, entry.recorded)
        elif entry.kind == "rollback_lifted" and entry.lifts is not None:
            active.pop(entry.lifts, None)
    return tuple(active.values())


def counts(chain: tuple[int, ...], rollbacks: tuple[Rollback, ...]) -> bool:
    """Whether no moment of the chain lies in (to, at] of a rollback in force."""
    for rollback in rollbacks:
        for moment in chain:
            if rollback.to < moment <= rollback.at:
                return False
    return True


def _add(state: State, entry: Entry, *, counts: bool) -> None:  # noqa: C901 - ten plain sums
    # What is bad is never taken back: a rollback must not lift a brake.
    if entry.bad_at is not None:
        state.last_bad_at = later(state.last_bad_at, entry.bad_at)
    if not counts:
        return
    if entry.grant_at is not None:
        state.last_grant_at = later(state.last_grant_at, entry.grant_at)
    if entry.clean and entry.kind in _FRESHENING:
        state.last_updated = later(state.last_updated, entry.occurred)
    state.n_samples += entry.n_samples
    # Written out, one product at a time: this is where a long replay spends its time.
    weight = g(entry.occurred)
    num, den = state.num, state.den
    a, b, c, d, e = entry.amounts
    if a:
        num[0] += a * weight
    if b:
        num[1] += b * weight
    if c:
        num[2] += c * weight
    if d:
        num[3] += d * weight
    if e:
        num[4] += e * weight
    a, b, c, d, e = entry.weights
    if a:
        den[0] += a * weight
    if b:
        den[1] += b * weight
    if c:
        den[2] += c * weight
    if d:
        den[3] += d * weight
    if e:
        den[4] += e * weight
    if entry.self_play is not None:
        state.self_play_num += entry.self_play[0] * weight
        state.self_play_den += entry.self_play[1] * weight


def later(known: int | None, other: int | None) -> int | None:
    """The greater of two moments; None is before all."""
    if known is None or (other is not None and other > known):
        return other
    return known
