"""What a folded trace says about one subject: the table of SPEC 3, from what is known of it."""

from __future__ import annotations

from msgspec import Struct

from trustfold_projections.laws.correlation.knowledge import Close, Target, TraceState
from trustfold_schemas.amounts import PPM
from trustfold_schemas.events import SignalsReported
from trustfold_schemas.instants import MINUTE
from trustfold_schemas.ledger import ZEROS, Five
from trustfold_schemas.subject import Subject

UNDO_WINDOW = 10 * MINUTE
"""A human undo within this time of the trace sets undo_rate; a later one only brakes."""

_NOTHING_SAID = Target()


class Contribution(Struct, frozen=True, gc=False):
    """Amounts (ppm, times their weight) and weights of one trace for one subject.

    `clean` says whether it may make a score fresh; it does not depend on feedback.
    """

    amounts: Five
    weights: Five
    n_samples: int
    clean: bool


def contribution(state: TraceState, subject: Subject) -> Contribution:
    """The contribution of a folded trace to one of its subjects, or to its global subject."""
    close = state.close
    assert close is not None
    if close.signals is not None:
        made = _of_signals(close.signals)
    else:
        made = _of_steps(state, close, subject)
    if state.excluded:
        return Contribution(ZEROS, ZEROS, 0, made.clean)
    return made


def _of_steps(state: TraceState, close: Close, subject: Subject) -> Contribution:
    whole = subject.is_global
    step_ids = state.step_ids if whole else state.subjects[subject]
    steps = state.steps
    ok = executed = 0
    for step_id in step_ids:
        status = steps[step_id].step.status
        if status == "ok":
            ok += 1
            executed += 1
        elif status == "error":
            executed += 1
    # Most traces are folded before anybody says a word of them.
    granted, decided, undone = 0, 0, False
    if state.of_all.spoken or state.of_step or state.of_subject:
        granted, decided = _approval(state, subject, step_ids)
        undone = _undone(state, close, subject, step_ids)
    median = None if whole else state.medians.get(subject)
    cost, cost_weight = 0, 0
    if close.cost_usd is not None and median is not None:
        cost, cost_weight = PPM - min(PPM, close.cost_usd * PPM // median), 1
    return Contribution(
        (
            ok * PPM // executed if executed else 0,
            granted * PPM // decided if decided else 0,
            cost,
            close.constitution,
            PPM if undone else 0,
        ),
        (1 if executed else 0, 1 if decided else 0, cost_weight, 1, 1),
        1,
        executed > 0 and ok == executed and close.constitution > 0,
    )


def _approval(state: TraceState, subject: Subject, step_ids: tuple[str, ...]) -> tuple[int, int]:
    """How many of the steps humans granted, of how many they decided; any denial denies."""
    whole = subject.is_global
    # A grant that names nothing speaks of a subject only where it can mean no other.
    unnamed_grant = state.of_all.granted and (whole or len(state.subjects) == 1)
    granted = decided = 0
    for step_id in step_ids:
        of_step, of_subject = _said(state, subject, step_id)
        if state.of_all.denied or of_step.denied or of_subject.denied:
            decided += 1
        elif unnamed_grant or of_step.granted or of_subject.granted:
            decided += 1
            granted += 1
    return granted, decided


def _undone(state: TraceState, close: Close, subject: Subject, step_ids: tuple[str, ...]) -> bool:
    """Whether a human undid an executed step in time."""
    until = close.time + UNDO_WINDOW
    for step_id in step_ids:
        if not state.steps[step_id].step.executed:
            continue
        for said in (state.of_all, *_said(state, subject, step_id)):
            if said.undone_at is not None and said.undone_at <= until:
                return True
    return False


def _said(state: TraceState, subject: Subject, step_id: str) -> tuple[Target, Target]:
    """What is said of a step and of its subject by name."""
    if subject.is_global:
        subject = state.subject_of(state.steps[step_id].step)
    return (
        state.of_step.get(step_id, _NOTHING_SAID),
        state.of_subject.get(subject, _NOTHING_SAID),
    )


def _of_signals(signals: SignalsReported) -> Contribution:
    reported = (
        signals.tool_success,
        signals.human_approval_delta,
        signals.cost_efficiency,
        signals.constitution_clean,
        signals.undo_flag or 0,
    )
    tool, approval, cost, clean, undo = (int(signal or 0) for signal in reported)
    w_tool, w_approval, w_cost, w_clean, w_undo = (int(s is not None) for s in reported)
    return Contribution(
        amounts=(tool, approval, cost, clean, undo),
        weights=(w_tool, w_approval, w_cost, w_clean, w_undo),
        n_samples=1,
        clean=signals.tool_success == PPM and signals.constitution_clean != 0,
    )
