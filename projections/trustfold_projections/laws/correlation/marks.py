"""What one fact leaves behind in its trace: whom it brakes or grants, whose sums it may change."""

from __future__ import annotations

from trustfold_projections.laws.correlation.knowledge import Close, TraceState
from trustfold_projections.laws.correlation.outcome import Refusal
from trustfold_projections.laws.fold import later
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.events import STEPS_MAX, Step
from trustfold_schemas.facts import Fact
from trustfold_schemas.subject import Subject

Moved = tuple[int | None, int | None]
"""A brake and a grant: what `last_bad_at` and `last_grant_at` are to be at least."""


class Marks:
    """One fact of a trace, the trace, and what the fact has marked so far.

    `moved` are the subjects braked or granted, `dirty` those whose sums may change, `refusals`
    what was turned away: this fact or an earlier one.
    """

    def __init__(self, state: TraceState, fact: Fact) -> None:
        self.state = state
        self.fact = fact
        self.moved: dict[Subject, Moved] = {}
        self.dirty: dict[Subject, None] = {}
        self.refusals: list[Refusal] = []

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
