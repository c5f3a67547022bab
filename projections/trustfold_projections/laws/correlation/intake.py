"""Taking one fact into what is known of its trace: closes, signals, steps, feedback, the fold.

An intake notes whom the fact concerns (`moved` by a brake or a grant, `dirty` in their sums) and
what it turns away; `trace` makes entries of that.
"""

from __future__ import annotations

from trustfold_projections.laws.correlation.abandoned import SERVICE_SOURCE, abandoned_id
from trustfold_projections.laws.correlation.knowledge import (
    Close,
    Excluded,
    Feedback,
    KnownStep,
    Named,
    Says,
    Target,
    TraceState,
    constitution_of,
)
from trustfold_projections.laws.correlation.outcome import Refusal
from trustfold_projections.laws.fold import later
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.amounts import PPM
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.events import (
    FEEDBACK_MAX,
    STEPS_MAX,
    ApprovalDecidedEvent,
    FeedbackEvent,
    SignalsReportedEvent,
    Step,
    StepRecordedEvent,
    TraceClosedEvent,
    TraceExcludedEvent,
    TraceIncludedEvent,
    UndoExecutedEvent,
)
from trustfold_schemas.facts import Fact
from trustfold_schemas.subject import Subject, global_subject

Moved = tuple[int | None, int | None]
"""A brake and a grant: what `last_bad_at` and `last_grant_at` are to be at least."""


class Intake:
    """One fact on its way into a trace's state."""

    def __init__(self, state: TraceState, fact: Fact, medians: MedianTable) -> None:
        self.state = state
        self.fact = fact
        self.medians = medians
        self.folds = False
        self.moved: dict[Subject, Moved] = {}
        self.dirty: dict[Subject, None] = {}
        self.refusals: list[Refusal] = []

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

    def _counts(self, step_id: str) -> bool:
        known = self.state.steps.get(step_id)
        return known is not None and known.counts

    def _unnamed_grant(self) -> None:
        """A grant that names nothing is a grant of a subject only where it can mean no other."""
        state, close = self.state, self.state.close
        assert close is not None
        if close.signals is not None:
            self._move(close.signals.subject, None, state.of_all.grant_at)
        elif len(state.subjects) == 1:
            self._move(next(iter(state.subjects)), None, state.of_all.grant_at)

    # ---- feedback ------------------------------------------------------------------------------

    def _take_feedback(self, event: FeedbackEvent) -> Refusal | None:
        state = self.state
        if state.feedback_count >= FEEDBACK_MAX:
            return self._refusal(
                Reason.TOO_MUCH_FEEDBACK,
                f"Expected at most {FEEDBACK_MAX} feedback events of trace `{state.trace_id}`",
            )
        state.feedback_count += 1
        feedback = self._read(event)
        self._speak_of_subjects(feedback)
        if state.scope is None and feedback.scopes is not None:
            state.waiting_for_scope.append(feedback)
        else:
            self._hear(feedback)
        return None

    def _read(self, event: FeedbackEvent) -> Feedback:
        """What a feedback event says: nothing, where no human decided or none did in time."""
        named, in_rate = Named(None, None), True
        says: Says
        if isinstance(event, ApprovalDecidedEvent):
            decision, named = event.data.decision, Named(event.data.step_ids, event.data.subjects)
            human = event.data.decided_by.kind == "human"
            says = decision if human and decision != "expired" else "nothing"
            in_rate = event.data.grants_visible
        elif isinstance(event, UndoExecutedEvent):
            says = "undone" if event.data.by.kind == "human" else "nothing"
            named = Named(event.data.step_ids, event.data.subjects)
        else:
            says = "excluded" if isinstance(event, TraceExcludedEvent) else "included"
        return Feedback(
            says=says,
            time=int(event.time),
            event_id=event.id,
            position=self.fact.position,
            scopes=self.fact.stamp.scopes,
            named=named,
            in_rate=in_rate,
        )

    def _speak_of_subjects(self, feedback: Feedback) -> None:
        """Brake or grant the subjects named, whatever the trace, within the publisher's scopes."""
        if feedback.says == "nothing":
            return
        for subject in feedback.named.subjects or ():
            if feedback.scopes is None or subject.scope in feedback.scopes:
                if feedback.says == "granted":
                    self._move(subject, None, feedback.time)
                else:
                    self._move(subject, feedback.time, None)

    def _hear(self, feedback: Feedback) -> None:
        """Let feedback speak of the trace itself, if its publisher may."""
        state = self.state
        if (
            feedback.scopes is not None
            and state.scope is not None
            and state.scope not in feedback.scopes
        ):
            self.refusals.append(
                Refusal(
                    feedback.position,
                    Reason.SCOPE_MISMATCH,
                    f"trace `{state.trace_id}` is of scope `{state.scope}`, outside the "
                    f"publisher's {', '.join(f'`{scope}`' for scope in feedback.scopes)}",
                )
            )
            return
        step_ids = feedback.named.step_ids or ()
        if state.folded:
            self._report_unknown(feedback.position, step_ids)
        else:
            state.waiting_for_fold.append((feedback.position, step_ids))
        if feedback.says in ("excluded", "included"):
            self._hear_exclusion(feedback)
        elif feedback.says != "nothing":
            self._hear_people(feedback)

    def _hear_people(self, feedback: Feedback) -> None:
        state = self.state
        for target in self._targets(feedback.named):
            _say(target, feedback)
        if feedback.named.nothing:
            if feedback.says != "granted":
                self._move_all(feedback.time)
            elif state.folded:
                self._unnamed_grant()
        for step_id in feedback.named.step_ids or ():
            known = state.steps.get(step_id)
            if known is not None:
                self._move_by_step(step_id, known.step)
        self._touch(feedback.named)

    def _targets(self, named: Named) -> list[Target]:
        if named.nothing:
            return [self.state.of_all]
        by_step = [self.state.target(step_id) for step_id in named.step_ids or ()]
        return by_step + [self.state.target_subject(subject) for subject in named.subjects or ()]

    def _hear_exclusion(self, feedback: Feedback) -> None:
        state = self.state
        excludes = feedback.says == "excluded"
        said = Excluded(feedback.time, feedback.event_id, excludes)
        if state.exclusion is None or said > state.exclusion:
            state.exclusion = said
        if excludes:
            state.of_all.bad(feedback.time)
            self._move_all(feedback.time)
        self._touch(Named(None, None))

    def _touch(self, named: Named) -> None:
        """After the fold: note whose sums this feedback may change."""
        state, close = self.state, self.state.close
        if not state.folded:
            return
        assert close is not None
        if close.signals is not None:
            self.dirty[close.signals.subject] = None
            return
        assert state.scope is not None
        assert close.outcome is not None
        if named.nothing:
            self.dirty.update(dict.fromkeys(state.subjects))
        for step_id in named.step_ids or ():
            if self._counts(step_id):
                self.dirty[state.subject_of(state.steps[step_id].step)] = None
        for subject in named.subjects or ():
            if subject in state.subjects:
                self.dirty[subject] = None
        self.dirty[global_subject(state.scope, close.outcome)] = None

    def _report_unknown(self, position: int, step_ids: tuple[str, ...]) -> None:
        unknown = [step_id for step_id in step_ids if not self._counts(step_id)]
        if unknown:
            self.refusals.append(
                Refusal(
                    position,
                    Reason.UNKNOWN_STEP,
                    f"Expected step ids of trace `{self.state.trace_id}`, got "
                    + ", ".join(f"`{step_id}`" for step_id in unknown[:5])
                    + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""),
                )
            )

    # ---- brakes and grants ---------------------------------------------------------------------

    def _move(self, subject: Subject, bad_at: int | None, grant_at: int | None) -> None:
        if bad_at is None and grant_at is None:
            return
        bad, grant = self.moved.get(subject, (None, None))
        self.moved[subject] = (later(bad, bad_at), later(grant, grant_at))

    def _move_by_step(self, step_id: str, step: Step) -> None:
        """Pass on to a step's subject what is said of the step, and what is said of all."""
        state = self.state
        said = state.of_step.get(step_id)
        bad_at = state.of_all.bad_at
        if said is None:
            if bad_at is not None:
                self._move(state.subject_of(step), bad_at, None)
        else:
            self._move(state.subject_of(step), later(bad_at, said.bad_at), said.grant_at)

    def _move_all(self, bad_at: int) -> None:
        """Brake every subject of a known step, counted or not, and that of signals."""
        state, close = self.state, self.state.close
        for known in state.steps.values():
            self._move(state.subject_of(known.step), bad_at, None)
        if close is not None and close.signals is not None:
            self._move(close.signals.subject, bad_at, None)

    # ---- scopes and refusals -------------------------------------------------------------------

    def _refuse_scope(self, scope: str) -> Refusal | None:
        state = self.state
        if state.scope is None or state.scope == scope:
            return None
        return self._refusal(
            Reason.SCOPE_CONFLICT,
            f"Expected scope `{state.scope}`, that of trace `{state.trace_id}`, got `{scope}`",
        )

    def _learn_scope(self, scope: str) -> None:
        state = self.state
        if state.scope is not None:
            return
        state.scope = scope
        waiting, state.waiting_for_scope = state.waiting_for_scope, []
        for feedback in waiting:
            self._hear(feedback)

    def _already_closed(self, close: Close) -> Refusal:
        return self._refusal(
            Reason.ALREADY_CLOSED,
            f"trace `{self.state.trace_id}` was closed by event `{close.event_id}` "
            f"of source `{close.source}`",
        )

    def _too_many_steps(self, count: int) -> Refusal:
        return self._refusal(
            Reason.TOO_MANY_STEPS,
            f"Expected at most {STEPS_MAX} steps of trace `{self.state.trace_id}`, got {count}",
        )

    def _refusal(self, reason: Reason, detail: str) -> Refusal:
        return Refusal(self.fact.position, reason, detail)

    def _refuse(self, reason: Reason, detail: str) -> None:
        self.refusals.append(self._refusal(reason, detail))


def _say(target: Target, feedback: Feedback) -> None:
    """Join one piece of feedback into what is said of a target; any order gives the same."""
    if feedback.says == "granted":
        target.grant_at = later(target.grant_at, feedback.time)
        target.granted = target.granted or feedback.in_rate
        return
    target.bad(feedback.time)
    if feedback.says == "denied":
        target.denied = target.denied or feedback.in_rate
    elif target.undone_at is None or feedback.time < target.undone_at:
        target.undone_at = feedback.time
