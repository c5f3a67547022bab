"""The close of a trace of which nothing else is known: the same entries, without its state.

Most traces are closed at once, with all of their steps, before anybody says a word of them. What
`trace` would write then follows from the close alone; a state is derived only when more comes.
"""

from __future__ import annotations

from trustfold_projections.laws.correlation.outcome import at_the_door
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.amounts import PPM
from trustfold_schemas.events import TraceClosed, TraceClosedEvent
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject, global_subject


def lone_close(
    fact: Fact, medians: MedianTable, memory: int | None = None
) -> tuple[Entry, ...] | None:
    """The entries of a close that is the first fact of its trace, the global subject's last.

    None where only the whole law can tell: other events, violations, counted steps, a time in the
    future or too old. `medians` and `memory` as for `correlate_trace`.
    """
    event = fact.event
    if not isinstance(event, TraceClosedEvent) or at_the_door({}, fact, memory) is not None:
        return None
    data = event.data
    if data.violations or data.step_count is not None:
        return None
    counted = _counted(data)
    measured = data.cost_usd is not None and medians.known
    chain = (fact.recorded,)
    ok_of_all = executed_of_all = 0
    entries: list[Entry] = []
    for (tool, effect), (ok, executed) in counted.items():
        ok_of_all += ok
        executed_of_all += executed
        median = (
            medians.in_force(data.scope, effect, event.time, fact.recorded) if measured else None
        )
        entries.append(
            _entry(fact, event, Subject(data.scope, tool, effect), ok, executed, median, chain)
        )
    whole = global_subject(data.scope, data.outcome)
    entries.append(_entry(fact, event, whole, ok_of_all, executed_of_all, None, chain))
    return tuple(entries)


def _counted(data: TraceClosed) -> dict[tuple[str, str], tuple[int, int]]:
    """(tool, effect) -> (steps that are ok, steps that were executed), in order of appearance."""
    counted: dict[tuple[str, str], tuple[int, int]] = {}
    for step in data.steps:
        named = (step.tool, step.effect)
        ok, executed = counted.get(named, (0, 0))
        if step.status == "ok":
            counted[named] = (ok + 1, executed + 1)
        elif step.status == "error":
            counted[named] = (ok, executed + 1)
        else:
            counted[named] = (ok, executed)
    return counted


def _entry(
    fact: Fact,
    event: TraceClosedEvent,
    subject: Subject,
    ok: int,
    executed: int,
    median: int | None,
    chain: tuple[int, ...],
) -> Entry:
    """Evidence for one subject by SPEC 3, where no human has spoken and no law is broken."""
    cost = 0
    if median is not None and event.data.cost_usd is not None:
        cost = PPM - min(PPM, int(event.data.cost_usd) * PPM // median)
    return Entry(
        kind="evidence",
        subject=subject,
        trace_id=event.data.trace_id,
        event_id=event.id,
        source=event.source,
        occurred=int(event.time),
        recorded=fact.recorded,
        chain=chain,
        amounts=(ok * PPM // executed if executed else 0, 0, cost, PPM, 0),
        weights=(1 if executed else 0, 0, 0 if median is None else 1, 1, 1),
        n_samples=1,
        clean=executed > 0 and ok == executed,
        median_usd=median,
    )
