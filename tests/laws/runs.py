"""Runs a history through the laws, as a store would: correlate, then fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tests.oracles.batch import Sums, Told
from trustfold_projections.laws.correlation import (
    Key,
    KeyState,
    Outcome,
    correlate,
    key_of,
    new_state,
)
from trustfold_projections.laws.fold import fold, refold
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.facts import Fact, Stamp
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State, check_ranges
from trustfold_schemas.subject import Subject


@dataclass
class Run:
    """What a history came to: states, ledger, and what was turned away."""

    keys: dict[Key, KeyState] = field(default_factory=dict)
    states: dict[Subject, State] = field(default_factory=dict)
    ledger: list[Entry] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    medians: MedianTable = field(default_factory=MedianTable)

    @property
    def reasons(self) -> Counter[str]:
        """How often each reason turned something away."""
        return Counter(r.reason.value for outcome in self.outcomes for r in outcome.refusals)

    def take(self, told: Told) -> Outcome:
        """Take one fact through correlation and fold, and check every range after each entry."""
        document = msgspec.json.encode(told.event)
        event = decode_event(document)
        stamp = Stamp(told.role, told.identity, told.scopes)  # type: ignore[arg-type]
        key = key_of(event)
        state = self.keys.get(key)
        if state is None:
            state = self.keys[key] = new_state(key)
        fact = Fact(told.recorded, told.recorded, stamp, event, document)
        outcome = correlate(state, fact, self.medians)
        self.outcomes.append(outcome)
        for entry in outcome.entries:
            self.ledger.append(entry)
            known = self.states.setdefault(entry.subject, State(subject=entry.subject))
            if not fold(known, entry):
                self.states[entry.subject] = refold(entry.subject, self.entries(entry.subject))
            check_ranges(self.states[entry.subject])
        return outcome

    def entries(self, subject: Subject) -> list[Entry]:
        """A subject's part of the ledger."""
        return [entry for entry in self.ledger if entry.subject == subject]

    def sums(self) -> dict[tuple[str, str, str], Sums]:
        """The states in the oracle's words."""
        return {subject: sums_of(state) for subject, state in self.states.items()}


def run(history: Sequence[Told]) -> Run:
    """Take a whole history."""
    made = Run()
    for told in history:
        made.take(told)
    return made


def sums_of(state: State) -> Sums:
    """A state in the oracle's words."""
    return Sums(
        num=list(state.num),
        den=list(state.den),
        n_samples=state.n_samples,
        self_play_num=state.self_play_num,
        self_play_den=state.self_play_den,
        last_updated=state.last_updated,
        last_bad_at=state.last_bad_at,
        last_grant_at=state.last_grant_at,
    )
