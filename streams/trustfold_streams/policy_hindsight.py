"""Decisions followed back, for every store alike: the step, the feedback, and what differs.

A store reads decision, entries and facts; here they are held against each other. The state is had
twice, from the ledger and from the facts, so that damage to either shows and has a name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from msgspec import Struct

from trustfold_projections.laws.fold import refold
from trustfold_projections.laws.policy import Policy, matches
from trustfold_projections.laws.policy.hindsight import verdict_again
from trustfold_schemas.decisions import Decision, ReasonCode
from trustfold_schemas.errors import TrustfoldError
from trustfold_schemas.events import (
    ApprovalDecidedEvent,
    Event,
    FeedbackEvent,
    SignalsReportedEvent,
    Step,
    StepRecordedEvent,
    TraceClosedEvent,
    UndoExecutedEvent,
)
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import COMPONENTS, Entry
from trustfold_schemas.policy_events import TrustRevokedEvent
from trustfold_schemas.scores import content_digest
from trustfold_schemas.subject import Subject
from trustfold_streams.policy_port import Difference, Why

_PLAIN = (
    "recorded",
    "kind",
    "revision",
    "occurred",
    "chain",
    "n_samples",
    "self_play",
    "bad_at",
    "grant_at",
    "clean",
    "median_usd",
    "to",
    "lifts",
)
"""What an entry says beside its amounts and weights; its names are told, not compared."""


class Stored(Struct, frozen=True):
    """An entry as a ledger has it and what it is called there; None if it cannot be read."""

    where: str
    entry: Entry | None


def why_of(
    decision: Decision,
    facts: Sequence[Fact],
    stored: Sequence[Stored],
    derived: Sequence[Entry],
    policy: Policy,
    found: Sequence[Difference],
    named: Callable[[Entry], Hashable],
) -> Why:
    """A decision with all that is known of it.

    `facts` are those of its trace, `stored` and `derived` the entries that its state held, as the
    ledger has them and as the facts give them again, `policy` the one of its time, `found` what
    was seen to differ on the way. Entries are matched by what `named` says of them.
    """
    count, subject = decision.verdict.version, decision.action.subject
    differences = [*found, *_differences(stored, derived, named)]
    of_ledger = digest_of(subject, [one.entry for one in stored if one.entry is not None])
    of_facts = digest_of(subject, derived)
    again = None
    if ReasonCode.CORRUPT not in decision.verdict.reasons:
        again = verdict_again(decision, refold(subject, derived) if derived else None, policy)
        if again != decision.verdict and of_facts == decision.verdict.digest:
            words = f"asked again of the same past it is {again.verdict} ({again.reason})"
            differences.append(Difference(f"decision {decision.decision_id}", words))
    step, step_recorded = step_of(decision, facts)
    return Why(
        decision=decision,
        step=step,
        step_recorded=step_recorded,
        feedback=tuple(fact for fact in facts if _speaks_of(fact.event, decision)),
        digest_of_ledger=of_ledger if count else None,
        digest_of_facts=of_facts if count else None,
        verdict_again=again,
        differences=tuple(differences),
    )


def step_of(decision: Decision, facts: Iterable[Fact]) -> tuple[Step | None, int | None]:
    """The step that carries a decision, else the step of its name, and when it was recorded."""
    named: tuple[Step | None, int | None] = (None, None)
    for fact in facts:
        for step in _steps_of(fact.event):
            if step.decision_id == decision.decision_id:
                return step, fact.recorded
            if step.step_id == decision.action.step_id and named[0] is None:
                named = step, fact.recorded
    return named


def acted(decisions: Iterable[Decision], facts: Sequence[Fact]) -> Iterator[Decision]:
    """The promotions of a trace whose steps were executed, or of which no step is known yet."""
    for decision in decisions:
        if decision.verdict.verdict == "allow":
            step, _ = step_of(decision, facts)
            if step is None or step.executed:
                yield decision


def acted_before(
    revoked: Fact, decisions: Iterable[Decision], facts_of: Callable[[str], Sequence[Fact]]
) -> Iterator[Decision]:
    """The promotions of those whom a revocation names, acted by before it was recorded.

    `facts_of` gives the facts of a trace.
    """
    event = revoked.event
    assert isinstance(event, TrustRevokedEvent)
    data = event.data
    for decision in decisions:
        scope, tool, effect = decision.action.subject
        if (
            decision.recorded <= revoked.recorded
            and decision.verdict.verdict == "allow"
            and matches(data.scope, scope)
            and matches(data.tool, tool)
            and matches(data.effect, effect)
        ):
            yield from acted([decision], facts_of(decision.action.trace_id))


def subjects_of(facts: Iterable[Fact]) -> list[Subject]:
    """The subjects of a trace's steps, in order."""
    found: set[Subject] = set()
    for fact in facts:
        event = fact.event
        if isinstance(event, SignalsReportedEvent):
            found.add(event.data.subject)
        elif isinstance(event, TraceClosedEvent | StepRecordedEvent):
            scope = event.data.scope
            found |= {Subject(scope, step.tool, step.effect) for step in _steps_of(event)}
    return sorted(found)


def digest_of(subject: Subject, entries: Sequence[Entry]) -> str:
    """The content digest of what entries fold to; says so where they cannot be folded."""
    try:
        return content_digest(refold(subject, entries))
    except (TrustfoldError, ArithmeticError, TypeError, ValueError) as error:
        return f"none: {error}"


def _steps_of(event: Event) -> Sequence[Step]:
    if isinstance(event, TraceClosedEvent):
        return event.data.steps
    return (event.data.step,) if isinstance(event, StepRecordedEvent) else ()


def _speaks_of(event: Event, decision: Decision) -> bool:
    """Whether an event is feedback on a decision's step."""
    if not isinstance(event, FeedbackEvent):
        return False
    if not isinstance(event, ApprovalDecidedEvent | UndoExecutedEvent):
        return True
    data, action = event.data, decision.action
    return (data.step_ids is None or action.step_id in data.step_ids) and (
        data.subjects is None or action.subject in data.subjects
    )


def _differences(
    stored: Sequence[Stored], derived: Sequence[Entry], named: Callable[[Entry], Hashable]
) -> Iterator[Difference]:
    """What the ledger's entries and the facts' differ in."""
    expected = {named(entry): entry for entry in derived}
    for one in stored:
        if one.entry is None:
            yield Difference(one.where, "cannot be read")
            continue
        wanted = expected.pop(named(one.entry), None)
        if wanted is None:
            yield Difference(one.where, f"revision {one.entry.revision}: no fact gives it")
            continue
        words = "; ".join(
            f"{name} is {ours!r}, the facts give {theirs!r}"
            for (name, ours), (_, theirs) in zip(_said(one.entry), _said(wanted), strict=True)
            if ours != theirs
        )
        if words:
            yield Difference(f"{one.where} {wanted.entry_id}", words)
    for entry in expected.values():
        yield Difference(f"ledger entry {entry.entry_id}", "the ledger lacks it")


def _said(entry: Entry) -> Iterator[tuple[str, object]]:
    """Everything that an entry says, each with its name."""
    for name, amount, weight in zip(COMPONENTS, entry.amounts, entry.weights, strict=True):
        yield f"amount of {name}", amount
        yield f"weight of {name}", weight
    for name in _PLAIN:
        yield name, getattr(entry, name)
