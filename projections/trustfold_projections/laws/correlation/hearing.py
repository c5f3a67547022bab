"""Taking feedback into what is known of a trace: approvals, undos, exclusions and inclusions."""

from __future__ import annotations

from trustfold_projections.laws.correlation.knowledge import (
    Excluded,
    Feedback,
    Named,
    Says,
    Target,
)
from trustfold_projections.laws.correlation.marks import Marks
from trustfold_projections.laws.correlation.outcome import Refusal
from trustfold_projections.laws.fold import later
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.events import (
    FEEDBACK_MAX,
    ApprovalDecidedEvent,
    FeedbackEvent,
    TraceExcludedEvent,
    UndoExecutedEvent,
)
from trustfold_schemas.subject import global_subject


class Hearing(Marks):
    """One fact on its way into a trace's state, as far as it is feedback or lets some be heard."""

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

    def _learn_scope(self, scope: str) -> None:
        state = self.state
        if state.scope is not None:
            return
        state.scope = scope
        waiting, state.waiting_for_scope = state.waiting_for_scope, []
        for feedback in waiting:
            self._hear(feedback)


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
