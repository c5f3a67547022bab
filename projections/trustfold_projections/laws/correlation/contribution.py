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
_GRAVE_LAW_MAX = 2
_MILD = PPM // 2


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
    if whole:
        step_ids = tuple(step_id for ids in state.subjects.values() for step_id in ids)
    else:
        step_ids = state.subjects[subject]
    # A grant that names nothing speaks of a subject only where it can mean no other.
    unnamed_grant = state.of_all.granted and (whole or len(state.subjects) == 1)
    undone_until = close.time + UNDO_WINDOW

    ok = executed = granted = decided = 0
    undone = False
    for step_id in step_ids:
        step = state.steps[step_id].step
        says = (
            state.of_all,
            state.of_step.get(step_id, _NOTHING_SAID),
            state.of_subject.get(state.subject_of(step) if whole else subject, _NOTHING_SAID),
        )
        if step.executed:
            executed += 1
            ok += step.status == "ok"
            undone = undone or any(
                t.undone_at is not None and t.undone_at <= undone_until for t in says
            )
        if any(t.denied for t in says):
            decided += 1
        elif unnamed_grant or any(t.granted for t in says[1:]):
            decided += 1
            granted += 1

    laws = [violation.law for violation in close.violations]
    grave = any(law <= _GRAVE_LAW_MAX for law in laws)
    median = None if whole else state.medians.get(subject)
    cost, cost_weight = 0, 0
    if close.cost_usd is not None and median is not None:
        cost, cost_weight = PPM - min(PPM, close.cost_usd * PPM // median), 1
    return Contribution(
        amounts=(
            ok * PPM // executed if executed else 0,
            granted * PPM // decided if decided else 0,
            cost,
            0 if grave else _MILD if laws else PPM,
            PPM if undone else 0,
        ),
        weights=(1 if executed else 0, 1 if decided else 0, cost_weight, 1, 1),
        n_samples=1,
        clean=executed > 0 and ok == executed and not grave,
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
