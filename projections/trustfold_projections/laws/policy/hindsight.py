"""Decisions seen again: the state they rested on, and what they would be on other evidence.

A decision says how many entries its state held and how many facts its policy, so both can be had
again from the logs, whatever was recorded since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from trustfold_projections.laws.fold import counts, refold, rollbacks_in_force
from trustfold_projections.laws.policy.decision import decide
from trustfold_projections.laws.policy.registry import Policy
from trustfold_schemas.decisions import Action, Decision, Verdict
from trustfold_schemas.instants import DAY
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import Corrupt, Rollback, State

ASKED_AGAIN_WITHIN: Final = DAY
"""The same question within this time gets the recorded decision again."""


class TakenBack(Struct, frozen=True, kw_only=True):
    """What is taken back of a subject's evidence: a trace, an event, or an interval of a rollback.

    Of a trace all its entries, of an event that is of no trace its own, of a rollback those that
    have a moment of their chain in it.
    """

    trace_id: str | None = None
    event_id: str | None = None
    rollback: Rollback | None = None

    def takes(self, entry: Entry) -> bool:
        """Whether an entry is taken back."""
        if self.rollback is not None:
            return not counts(entry.chain, (self.rollback,))
        if self.trace_id is not None:
            return entry.trace_id == self.trace_id
        return entry.trace_id is None and entry.event_id == self.event_id


class Impact(Struct, frozen=True, kw_only=True):
    """A promotion that rested on what is taken back, and what it would have been without."""

    decision: Decision
    rested_on: tuple[str, ...]
    without: Verdict

    @property
    def differs(self) -> bool:
        """Whether it would not have been a promotion."""
        return self.without.verdict != self.decision.verdict.verdict


class Differing(Struct, frozen=True, kw_only=True):
    """A recorded decision, and what it would have been on other evidence."""

    decision: Decision
    without: Verdict


def entries_then(decision: Decision, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries that a decision's state held; `entries` is its subject's ledger, in log order."""
    return entries[: decision.verdict.version]


def state_then(decision: Decision, entries: Sequence[Entry]) -> State | None:
    """The state that a decision rested on, from its subject's ledger."""
    return _state(decision, entries_then(decision, entries))


def verdict_again(decision: Decision, state: State | None, policy: Policy) -> Verdict:
    """A decision made again at its own moment, on a state, under the policy of that time."""
    return decide(
        state,
        policy,
        decision.action,
        decision.verdict.at,
        decision_id=decision.decision_id,
        stale=decision.stale,
        spot_checked=decision.owed_to is not None,
    )


def stands(
    recorded: Decision,
    action: Action,
    state: State | Corrupt | None,
    policy: Policy,
    now: int,
    stale: str | None = None,
) -> bool:
    """Whether a recorded decision is the answer to the same question, asked again now.

    One that asks always is; an `allow` only while it would be one still, spot checks apart.
    """
    if recorded.verdict.verdict != "allow":
        return True
    return decide(state, policy, action, now, stale=stale).verdict == "allow"


def impact(
    decisions: Iterable[tuple[Decision, Policy]], entries: Sequence[Entry], taken: TakenBack
) -> list[Impact]:
    """The promotions of one subject that rested on what is taken back, in the order given.

    `decisions` are the subject's, each with the policy of its time; `entries` its ledger.
    """
    made: list[Impact] = []
    for decision, policy in decisions:
        if decision.verdict.verdict != "allow":
            continue
        then = entries_then(decision, entries)
        in_force = rollbacks_in_force(then)
        gone = [e for e in then if taken.takes(e) and counts(e.chain, in_force) and _moves(e)]
        if gone:
            left = _state(decision, [entry for entry in then if not taken.takes(entry)])
            made.append(
                Impact(
                    decision=decision,
                    rested_on=tuple(entry.entry_id for entry in gone),
                    without=verdict_again(decision, left, policy),
                )
            )
    return made


def differing(
    decisions: Iterable[tuple[Decision, Policy]], entries: Sequence[Entry], other: Sequence[Entry]
) -> list[Differing]:
    """The decisions of one subject that would differ had its ledger been another one.

    `other` is the ledger as it would be had an event or a trace never been.
    """
    made: list[Differing] = []
    for decision, policy in decisions:
        then = entries_then(decision, entries)
        last = then[-1].recorded if then else 0
        state = _state(decision, [entry for entry in other if entry.recorded <= last])
        verdict = verdict_again(decision, state, policy)
        before = decision.verdict
        if (verdict.verdict, verdict.would_be) != (before.verdict, before.would_be):
            made.append(Differing(decision=decision, without=verdict))
    return made


def _state(decision: Decision, entries: Sequence[Entry]) -> State | None:
    return refold(decision.action.subject, entries) if entries else None


def _moves(entry: Entry) -> bool:
    """Whether an entry is evidence: a brake alone is nothing that a promotion rests on."""
    return any(entry.weights) or entry.n_samples != 0 or entry.self_play is not None
