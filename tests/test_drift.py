"""Drift and flattery, on a store: who moved, by which evidence, and who only pleases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.embedded.documents import closed, decided, numbered, rolled_back, step
from tests.oracles.histories import RECORDED_FROM
from trustfold_projections.laws.dashboard import flatterers, movers
from trustfold_projections.laws.scoring import raw_score_of, score_of, values_of
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import ManualClock
from trustfold_streams.drift import read_drift
from trustfold_streams.embedded import EmbeddedStore

HOUR = 3_600_000_000
GOOD = Subject("", "shell", "shell:read")
BAD = Subject("", "shell", "shell:run")
NEW = Subject("", "shell", "shell:check")
SMOOTH = Subject("", "neuron:smooth", "invoke")


@pytest.fixture
def week(tmp_path: Path) -> EmbeddedStore:
    """Two subjects that did well, then an hour in which one failed and a third appeared."""
    clock = ManualClock(RECORDED_FROM)
    store = EmbeddedStore.open(tmp_path / "trust.db", clock=clock)
    for number in range(4):
        store.ingest(numbered([closed(f"g{number}", step("a", GOOD), step("b", BAD))]))
    clock.advance(HOUR)
    store.ingest(numbered([closed("ok", step("a", GOOD)), closed("bad", step("a", BAD, "error"))]))
    store.ingest(numbered([closed("new", step("a", NEW))]))
    clock.advance(HOUR)
    return store


def test_the_top_mover_comes_with_the_evidence_that_moved_it(week: EmbeddedStore) -> None:
    """Who failed in the window comes first, with the failing trace; the newcomer after it."""
    with week as store:
        start = RECORDED_FROM + HOUR - 1
        found = read_drift(store, start, store.clock.now())
        steps = [one for one in found if not one.mover.subject.is_global]
        assert [one.mover.subject for one in steps] == [BAD, NEW]
        (first, newcomer) = steps
        assert first.mover.change < 0
        assert (first.mover.samples, first.mover.is_new, newcomer.mover.is_new) == (1, False, True)
        assert [one.entry.trace_id for one in first.evidence] == ["bad"]
        (moved,) = first.evidence
        assert (moved.before, moved.after) == (first.mover.before, first.mover.after)


def test_a_rollback_is_the_evidence_of_what_it_took_out(week: EmbeddedStore) -> None:
    """Taking the failure back moves the subject up, and the rollback is named first."""
    with week as store:
        assert isinstance(store.clock, ManualClock)
        start = store.clock.now()
        store.clock.advance(HOUR)
        store.ingest(numbered([rolled_back(BAD, RECORDED_FROM + HOUR // 2, "r7")]))
        (found,) = read_drift(store, start, store.clock.now())
        assert (found.mover.subject, found.mover.samples) == (BAD, -1)
        assert found.mover.change > 0
        assert [one.entry.event_id for one in found.evidence] == ["r7"]


def test_imported_history_drifts_by_when_it_happened(tmp_path: Path) -> None:
    """Recorded in one go, the failing trace is still evidence of its own day."""
    day = 24 * HOUR
    first = RECORDED_FROM - 10 * day
    with EmbeddedStore.open(tmp_path / "trust.db", clock=ManualClock(RECORDED_FROM)) as store:
        good = [closed(f"g{n}", step("a", BAD), time=first + n) for n in range(4)]
        bad = closed("bad", step("a", BAD, "error"), time=first + 5 * day)
        store.ingest(numbered([bad, *good]))
        window = (first + 4 * day, first + 6 * day)
        assert read_drift(store, *window) == []
        found = [
            one
            for one in read_drift(store, *window, by="occurred")
            if not one.mover.subject.is_global
        ]
        (one,) = found
        assert (one.mover.subject, one.mover.samples, one.mover.is_new) == (BAD, 1, False)
        assert one.mover.change < 0
        assert [moved.entry.trace_id for moved in one.evidence] == ["bad"]
        assert (one.evidence[0].before, one.evidence[0].after) == (
            one.mover.before,
            one.mover.after,
        )
        whole = read_drift(store, first - 1, RECORDED_FROM, by="occurred")
        table = {state.subject: raw_score_of(values_of(state)) for state in states_of(store)}
        assert {one.mover.subject: one.mover.after for one in whole} == table


def states_of(store: EmbeddedStore) -> list[State]:
    """The table."""
    return [state for state in store.states() if isinstance(state, State)]


def test_who_did_not_move_is_not_listed(week: EmbeddedStore) -> None:
    """Between two moments without facts nobody moves."""
    with week as store:
        now = store.clock.now()
        assert read_drift(store, now - 1, now - 1) == []
        states = [state for state in store.states() if isinstance(state, State)]
        assert movers(states, states, 10) == []
        assert len(movers([], states, 2)) == 2


def test_flattery_is_high_approval_with_low_success(tmp_path: Path) -> None:
    """Who is granted and fails is listed; who succeeds, or is never asked, is not."""
    with EmbeddedStore.open(tmp_path / "trust.db", clock=ManualClock(RECORDED_FROM)) as store:
        for number in range(6):
            store.ingest(
                numbered(
                    [
                        closed(f"s{number}", step("a", SMOOTH, "error")),
                        decided(f"s{number}", step_ids=["a"]),
                        closed(f"g{number}", step("a", GOOD)),
                        decided(f"g{number}", step_ids=["a"]),
                        closed(f"b{number}", step("a", BAD, "error")),
                    ]
                )
            )
        states = [state for state in store.states() if isinstance(state, State)]
        (found,) = flatterers(states)
        assert found.subject == SMOOTH
        assert (found.human_approval_rate, found.tool_success, found.n_samples) == (1.0, 0.0, 6)
        assert flatterers(states, few=7) == []
        shown = score_of(next(one for one in states if one.subject == SMOOTH), RECORDED_FROM)
        assert shown.human_approval_rate == found.human_approval_rate
