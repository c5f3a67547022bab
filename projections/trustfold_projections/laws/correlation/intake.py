"""Taking one fact into what is known of its trace: closes, signals, steps and the fold.

Feedback is taken in by `hearing`. Whom the fact concerns, and what it turns away, is noted in
`marks`; `trace` makes entries of that.
"""

from __future__ import annotations

from trustfold_projections.laws.correlation.abandoned import SERVICE_SOURCE, abandoned_id
from trustfold_projections.laws.correlation.hearing import Hearing
from trustfold_projections.laws.correlation.knowledge import (
    Close,
    KnownStep,
    TraceState,
    constitution_of,
)
from trustfold_projections.laws.correlation.outcome import Refusal
from trustfold_projections.laws.fold import later
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.amounts import PPM
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.events import (
    STEPS_MAX,
    ApprovalDecidedEvent,
    SignalsReportedEvent,
    Step,
    StepRecordedEvent,
    TraceClosedEvent,
    TraceExcludedEvent,
    TraceIncludedEvent,
    UndoExecutedEvent,
)
from trustfold_schemas.facts import Fact
from trustfold_schemas.subject import Subject


class Intake(Hearing):
    """One fact on its way into a trace's state."""

    def __init__(self, state: TraceState, fact: Fact, medians: MedianTable) -> None:
        super().__init__(state, fact)
        self.medians = medians
        self.folds = False

    def take(self) -> Refusal | None:
        """Take the fact in. A refusal returned means that nothing was changed."""
        event = self.fact.event
        if isinstance(event, TraceClosedEvent):
            return self._take_close(event)
        if isinstance(event, StepRecordedEvent):
            return self._take_step(event)
        if isinstance(event, SignalsReportedEvent):
            return self._take_signals(event)
        if isinstance(
            event,
            ApprovalDecidedEvent | UndoExecutedEvent | TraceExcludedEvent | TraceIncludedEvent,
        ):
            return self._take_feedback(event)
        raise TypeError(f"{type(event).__name__} is not keyed by trace")

    # ---- closes and steps ----------------------------------------------------------------------

    def _take_close(self, event: TraceClosedEvent) -> Refusal | None:
        state, data = self.state, event.data
        refusal = self._refuse_scope(data.scope)
        if refusal is not None:
            return refusal
        if state.close is not None:
            ours = (event.source, event.id) == (SERVICE_SOURCE, abandoned_id(state.trace_id))
            if ours and not state.folded:
                self._fold()
                return None
            return self._already_closed(state.close)
        if data.step_count is not None:
            together = state.steps.keys() | {step.step_id for step in data.steps}
            if len(together) > STEPS_MAX:
                return self._too_many_steps(len(together))
        self._learn_scope(data.scope)
        state.close = self._closed(event)
        for violation in data.violations:
            target = state.of_all if violation.step_id is None else state.target(violation.step_id)
            target.bad(int(event.time))
        # Those known before must hear of the violations too; those that come do when they come.
        for step_id, known in tuple(state.steps.items()):
            self._move_by_step(step_id, known.step)
        for step in data.steps:
            self._list(step)
        if data.step_count is None or len(state.steps) >= data.step_count:
            self._fold()
        return None

    def _list(self, step: Step) -> None:
        """Take a step that the close lists; of two contents the first in the log holds."""
        known = self.state.steps.get(step.step_id)
        if known is None:
            known = self._learn_step(step, None)
        elif known.step != step:
            self._refuse(
                Reason.STEP_CONFLICT,
                f"Expected step `{step.step_id}` as it was recorded, got other content; "
                "the trace is closed with the step as recorded",
            )
        known.counts = True

    def _take_signals(self, event: SignalsReportedEvent) -> Refusal | None:
        state, data = self.state, event.data
        refusal = self._refuse_scope(data.subject.scope)
        if refusal is not None:
            return refusal
        if state.close is not None:
            return self._already_closed(state.close)
        self._learn_scope(data.subject.scope)
        state.close = Close(
            time=int(event.time),
            recorded=self.fact.recorded,
            event_id=event.id,
            source=event.source,
            signals=data,
        )
        if data.undo_flag == PPM or data.constitution_clean == 0:
            self._move(data.subject, int(event.time), None)
        self._fold()
        return None

    def _take_step(self, event: StepRecordedEvent) -> Refusal | None:
        state, step = self.state, event.data.step
        refusal = self._refuse_scope(event.data.scope)
        if refusal is not None:
            return refusal
        known = state.steps.get(step.step_id)
        if known is not None:
            if known.step == step:
                return None
            return self._refusal(
                Reason.STEP_CONFLICT,
                f"Expected step `{step.step_id}` as it is known, got other content",
            )
        if len(state.steps) >= STEPS_MAX:
            return self._too_many_steps(len(state.steps) + 1)
        self._learn_scope(event.data.scope)
        self._learn_step(step, self.fact.position)
        state.last_step_time = later(state.last_step_time, int(event.time))
        close = state.close
        if close is None:
            return None
        if state.folded:
            late = close.step_count is not None
            self._refuse(
                Reason.LATE_STEP if late else Reason.UNLISTED_STEP,
                f"step `{step.step_id}` came after trace `{state.trace_id}` was folded"
                if late
                else f"the close of trace `{state.trace_id}` does not list step `{step.step_id}`",
            )
        elif close.step_count is not None and len(state.steps) >= close.step_count:
            self._fold()
        return None

    def _learn_step(self, step: Step, position: int | None) -> KnownStep:
        state = self.state
        known = state.steps[step.step_id] = KnownStep(step, position)
        if state.of_step or state.of_all.bad_at is not None:
            self._move_by_step(step.step_id, step)
        return known

    def _closed(self, event: TraceClosedEvent) -> Close:
        return Close(
            time=int(event.time),
            recorded=self.fact.recorded,
            event_id=event.id,
            source=event.source,
            outcome=event.data.outcome,
            cost_usd=None if event.data.cost_usd is None else int(event.data.cost_usd),
            violations=event.data.violations,
            step_count=event.data.step_count,
            constitution=constitution_of(event.data.violations),
        )

    # ---- the fold ------------------------------------------------------------------------------

    def _fold(self) -> None:
        """Fix which steps count, choose the medians, and let what waited for the fold speak."""
        state, close = self.state, self.state.close
        assert close is not None
        assert state.scope is not None
        if close.step_count is not None:
            for known in state.steps.values():
                known.counts = True
        by_subject: dict[Subject, list[str]] = {}
        for step_id, known in state.steps.items():
            if known.counts:
                by_subject.setdefault(state.subject_of(known.step), []).append(step_id)
            elif known.position is not None:
                self.refusals.append(
                    Refusal(
                        known.position,
                        Reason.UNLISTED_STEP,
                        f"the close of trace `{state.trace_id}` does not list step `{step_id}`",
                    )
                )
        state.subjects = {subject: tuple(ids) for subject, ids in by_subject.items()}
        if close.cost_usd is not None and self.medians.known:
            state.medians = {
                subject: self.medians.in_force(
                    state.scope, subject.effect, close.time, close.recorded
                )
                for subject in state.subjects
            }
        state.folded = self.folds = True
        if any(v.step_id is not None and not self._counts(v.step_id) for v in close.violations):
            state.of_all.bad(close.time)
            self._move_all(close.time)
        if close.signals is not None:
            self._move(close.signals.subject, state.of_all.bad_at, None)
        self._unnamed_grant()
        for position, step_ids in state.waiting_for_fold:
            self._report_unknown(position, step_ids)
        state.waiting_for_fold = []
