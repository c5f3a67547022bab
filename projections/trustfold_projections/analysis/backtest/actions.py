"""Past actions: the steps of a log that were executed or asked about, and what became of them.

An action is judged by what was known strictly before its moment, the first at which the log spoke
of it: its step's or its trace's own fact, or an answer, an undo or an exclusion that came before.
Otherwise the brake of its own denial would keep it from being allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from trustfold_projections.laws.correlation import TraceState
from trustfold_projections.laws.correlation.knowledge import Close, KnownStep
from trustfold_projections.laws.correlation.outcome import FUTURE_MAX
from trustfold_schemas.events import (
    FEEDBACK_MAX,
    ApprovalDecidedEvent,
    FeedbackEvent,
    Reversibility,
    Step,
    StepRecordedEvent,
    TraceClosedEvent,
    TraceExcludedEvent,
    UndoExecutedEvent,
    Violation,
)
from trustfold_schemas.facts import Fact
from trustfold_schemas.subject import Subject


class PastAction(Struct, frozen=True, gc=False, kw_only=True):
    """One past action. `moment` (microseconds since 1970) is when it would have been asked.

    `asked` says that a human decided it, `denied` that one denied it; `undone` that a human undid
    it, however late; `violated` that its trace broke a law, by this step or by none that is named.
    """

    subject: Subject
    reversibility: Reversibility | None
    moment: int
    trace_id: str
    step_id: str
    asked: bool
    denied: bool
    failed: bool
    undone: bool
    violated: bool

    @property
    def preventable(self) -> bool:
        """Whether a question could have kept it from happening; what fails fails after a yes."""
        return self.denied or self.undone or self.violated

    @property
    def bad(self) -> bool:
        """Whether anything at all went wrong with it."""
        return self.failed or self.preventable


class Said(Struct, frozen=True, gc=False):
    """One human's answer or undo, or an exclusion, and the steps and subjects that it names."""

    says: str
    recorded: int
    event_id: str
    step_ids: tuple[str, ...] | None = None
    subjects: tuple[Subject, ...] | None = None

    def of(self, step: Step, subject: Subject, *, alone: bool) -> bool:
        """Whether it speaks of a step; a grant that names nothing only where all are `alone`."""
        if self.step_ids is None and self.subjects is None:
            return alone or self.says != "granted"
        return step.step_id in (self.step_ids or ()) or subject in (self.subjects or ())


def actions_of(state: TraceState, facts: Sequence[Fact]) -> Iterator[PastAction]:
    """The actions of one trace, in the order of its steps.

    `state` is what the law of correlation knows after `facts`, which are those it remembered, in
    log order. A trace that never closed acted, too; one of ready-made signals has no steps.
    """
    if state.scope is None:
        return
    close = state.close
    violations = () if close is None else close.violations
    said = list(said_of(state.scope, facts))
    first = _first_known(facts)
    alone = len(state.subjects) == 1
    for step_id, known in state.steps.items():
        if state.folded and not known.counts:
            continue
        step = known.step
        subject = state.subject_of(step)
        spoken = [one for one in said if one.of(step, subject, alone=alone)]
        answered = {one.says for one in spoken}
        asked = step.via == "human" or not answered.isdisjoint(("granted", "denied"))
        if not step.executed and not asked:
            continue
        yield PastAction(
            subject=subject,
            reversibility=step.reversibility,
            moment=min([first[step_id], *(one.recorded for one in spoken)]),
            trace_id=state.trace_id,
            step_id=step_id,
            asked=asked,
            denied="denied" in answered,
            failed=step.status == "error",
            undone=step.executed and "undone" in answered,
            violated=_violated(violations, step_id, state),
        )


def state_of_one_close(trace_id: str, facts: Sequence[Fact]) -> TraceState | None:
    """What the law would know of a trace's steps, where that is plain to see; else None.

    So it is where one close lists all steps and everything else is feedback that nothing speaks
    against: other ids, not from the future, not too many. Only what `actions_of` reads is there.
    """
    closes = [fact for fact in facts if isinstance(fact.event, TraceClosedEvent)]
    ids = {(fact.event.source, fact.event.id) for fact in facts}
    if len(closes) != 1 or len(ids) < len(facts) or len(facts) > FEEDBACK_MAX:
        return None
    for fact in facts:
        event = fact.event
        if not isinstance(event, TraceClosedEvent | FeedbackEvent):
            return None
        if event.time > fact.recorded + FUTURE_MAX:
            return None
    close = closes[0]
    assert isinstance(close.event, TraceClosedEvent)
    data = close.event.data
    if data.step_count is not None:
        return None
    state = TraceState(trace_id=trace_id, scope=data.scope, folded=True)
    state.close = Close(
        time=int(close.event.time),
        recorded=close.recorded,
        event_id=close.event.id,
        source=close.event.source,
        violations=data.violations,
    )
    for step in data.steps:
        state.steps[step.step_id] = KnownStep(step, None, True)
        subject = state.subject_of(step)
        state.subjects[subject] = (*state.subjects.get(subject, ()), step.step_id)
    return state


def _first_known(facts: Iterable[Fact]) -> dict[str, int]:
    """When each step was first recorded, singly or in the list of its trace's close."""
    first: dict[str, int] = {}
    for fact in facts:
        event = fact.event
        if isinstance(event, StepRecordedEvent):
            first.setdefault(event.data.step.step_id, fact.recorded)
        elif isinstance(event, TraceClosedEvent):
            for step in event.data.steps:
                first.setdefault(step.step_id, fact.recorded)
    return first


def said_of(scope: str, facts: Iterable[Fact]) -> Iterator[Said]:
    """What humans said of a trace, as far as its publisher may speak of the trace's scope."""
    for fact in facts:
        event = fact.event
        if not fact.stamp.may_speak_of(scope):
            continue
        if isinstance(event, ApprovalDecidedEvent):
            data = event.data
            if data.decided_by.kind == "human" and data.decision != "expired":
                yield Said(data.decision, fact.recorded, event.id, data.step_ids, data.subjects)
        elif isinstance(event, UndoExecutedEvent):
            if event.data.by.kind == "human":
                yield Said(
                    "undone", fact.recorded, event.id, event.data.step_ids, event.data.subjects
                )
        elif isinstance(event, TraceExcludedEvent):
            yield Said("excluded", fact.recorded, event.id)


def _violated(violations: Iterable[Violation], step_id: str, state: TraceState) -> bool:
    """Whether a violation names this step, or no step that counts."""
    for violation in violations:
        named = violation.step_id
        if named is None or named == step_id:
            return True
        known = state.steps.get(named)
        if known is None or not known.counts:
            return True
    return False
