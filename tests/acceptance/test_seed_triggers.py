"""The seed's tables "Trigger | Cosa produce" and "Chiamante | Metodo", row by row, as one story.

Everything goes through the public face: what a runtime would write, and nothing from inside.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import trustfold
from tests.embedded.documents import median, played, synthesized
from tests.embedded.tampering import tamper
from tests.oracles.histories import RECORDED_FROM
from trustfold_schemas.instants import datetime_of
from trustfold_streams.clock import ManualClock

WRITE = ("fs_write", "fs_write:~/notes/*")
FETCH = ("http_get", "net:example.org")
BUDGET = ("neuron:budget_tracker", "invoke")
FINANCE = ("neuron:finance_assistant", "invoke")
ROBERTO = {"kind": "human", "id": "roberto"}


def action_step(step_id: str, subject: tuple[str, str], status: str = "ok") -> dict[str, Any]:
    """The seed's ActionStep."""
    return {"step_id": step_id, "tool": subject[0], "effect": subject[1], "status": status}


def execution_trace(trace_id: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The seed's ExecutionTrace, closed."""
    return {"trace_id": trace_id, "outcome": "completed", "steps": list(steps), **more}


async def the_story(path: Path) -> None:
    """A day in the life of one agent."""
    clock = ManualClock(RECORDED_FROM)

    def later(**by: float) -> datetime:
        clock.advance(timedelta(**by) // timedelta(microseconds=1))
        return datetime_of(clock.now())

    async with trustfold.open(path, clock=clock) as store:
        # | Invariante | TrustScore empty per subject sconosciuto |
        assert await store.get(WRITE) is None

        # | Job notturno | Ricalcolo mediani cost per classe |
        await store.ingest([median(WRITE[1], 0.02)])

        # | Trace chiusa | update di 1 TrustScore per ogni ActionStep unico, più 1 globale |
        now = later(hours=1)
        steps = [
            action_step("1", WRITE),
            action_step("2", WRITE),
            action_step("3", FETCH, "error"),
        ]
        await store.bulk_update_from_trace(execution_trace("t1", *steps, cost_usd=0.005))
        write, fetch = await store.get(WRITE), await store.get(FETCH)
        whole = await store.get(("runtime", "completed"))
        assert write is not None
        assert fetch is not None
        assert whole is not None
        assert (write.n_samples, fetch.n_samples, whole.n_samples) == (1, 1, 1)
        assert (write.tool_success, fetch.tool_success) == (1, 0)
        assert (write.cost_efficiency, write.constitution_clean) == (0.75, 1)
        assert (write.last_updated, fetch.last_updated) == (now, None)

        # | Approval concessa / negata | update del segnale human_approval_delta |
        assert write.human_approval_rate == 0.5
        granted = {"decision": "granted", "decided_by": ROBERTO, "step_ids": ["1"]}
        await store.record_approval_outcome("t1", granted)
        denied = {"decision": "denied", "decided_by": ROBERTO, "step_ids": ["3"]}
        await store.record_approval_outcome("t1", denied)
        approved, refused = await store.get(WRITE), await store.get(FETCH)
        assert approved is not None
        assert refused is not None
        assert (approved.human_approval_rate, refused.human_approval_rate) == (1, 0)
        assert approved.score > write.score

        # | /undo eseguito | flag undo_rate sulla trace originaria |
        later(minutes=9)
        await store.record_undo("t1")
        undone = await store.get(WRITE)
        assert undone is not None
        assert (undone.undo_rate, undone.n_samples) == (1, 1)
        assert undone.score < approved.score

        # | Synthesizer chiude un neurone con R score | score=R, n_samples=1 |
        later(hours=1)
        await store.ingest([synthesized("budget_tracker")])  # R = 0.8
        born = await store.get_for_neuron("budget_tracker")
        assert born is not None
        assert (round(born.raw_score, 6), born.n_samples) == (0.8, 1)

        # | Self-play completato | aggiornamento componente tool_success del winner |
        await store.ingest([played("budget_tracker", "finance_assistant")])
        won = await store.get(BUDGET)
        assert won is not None
        assert won.tool_success > born.tool_success
        assert await store.get(FINANCE) is None

        # | update(subject, signals, now) |
        signals = trustfold.TraceSignals(
            subject=trustfold.Subject("", *FINANCE), tool_success=1.0, constitution_clean=1.0
        )
        await store.update(FINANCE, signals, later(hours=1))
        finance = await store.get(FINANCE)
        assert finance is not None
        assert (finance.n_samples, finance.tool_success, finance.undo_rate) == (1, 1, 0)

        # | Policy Check 6 | store.get(subject) -> TrustScore |
        score = await store.get(WRITE, now + timedelta(days=30))
        assert score is not None
        assert score.score == pytest.approx(undone.raw_score / 2)
        # | Memory reflection filter | store.get(subject).score |
        distrusted = await store.get(FETCH)
        assert distrusted is not None
        assert distrusted.score < 0.5 < finance.score
        # | Synapse edge weight compute | store.get_for_neuron(name) |
        assert await store.get_for_neuron("finance_assistant") == finance
        # | Observability dashboard | store.snapshot() |
        board = await store.snapshot()
        assert {(one.tool, one.effect) for one in board} == {
            WRITE,
            FETCH,
            BUDGET,
            FINANCE,
            ("runtime", "completed"),
        }
        assert board[trustfold.Subject("", *FINANCE)] == finance

        # | rollback(subject, to) | usato se uno score è stato corrotto |
        before = later(minutes=1)
        for number in range(3):
            later(minutes=1)
            await store.bulk_update_from_trace(
                execution_trace(f"abuse{number}", action_step("1", WRITE, "error"))
            )
        abused = await store.get(WRITE)
        rollback_id = await store.rollback(WRITE, before, "roberto", "abuse detected")
        again, lifted = await store.get(WRITE), None
        assert abused is not None
        assert again is not None
        assert (abused.n_samples, again.n_samples) == (4, 1)
        assert again.raw_score == undone.raw_score
        later(minutes=1)
        await store.lift(rollback_id, "roberto", "it was a test")
        lifted = await store.get(WRITE)
        assert lifted is not None
        assert lifted.n_samples == 4

        # And what the seed does not have: one trace taken out, and put back.
        await store.exclude("abuse0", "roberto", "a rehearsal")
        excluded = await store.get(WRITE)
        later(minutes=1)
        await store.include("abuse0", "roberto", "no rehearsal")
        included = await store.get(WRITE)
        assert excluded is not None
        assert included is not None
        assert (excluded.n_samples, included.n_samples) == (3, 4)

        assert (await store.verify()).ok


def test_the_seeds_triggers_and_callers(tmp_path: Path) -> None:
    """Each trigger of the seed's table produces what it says; each caller reads it."""
    asyncio.run(the_story(tmp_path / "trust.db"))
    # | Append-only events | Ogni update produce una riga in events |
    with closing(sqlite3.connect(tmp_path / "trust.db")) as connection:
        kinds = connection.execute("SELECT DISTINCT kind FROM events").fetchall()
    assert {kind for (kind,) in kinds} == {
        "evidence",
        "correction",
        "initial",
        "self_play",
        "rollback",
        "rollback_lifted",
    }


@pytest.mark.parametrize(
    "name",
    [
        "get",
        "update",
        "bulk_update_from_trace",
        "record_approval_outcome",
        "record_undo",
        "get_for_neuron",
        "snapshot",
        "rollback",
    ],
)
def test_the_port_has_the_seeds_names(name: str) -> None:
    """Every method of the seed's TrustStore is there under its name, and is awaited."""
    assert inspect.iscoroutinefunction(getattr(trustfold.TrustStore, name))


def test_extract_signals_is_one_row_for_each_subject() -> None:
    """Of a closed trace: the share of good steps, cleanliness, and None for what is not known."""
    steps = [action_step("1", WRITE), action_step("2", WRITE, "error"), action_step("3", FETCH)]
    made = trustfold.extract_signals(execution_trace("t1", *steps, violations=[{"law": 3}]))
    assert [(one.subject.tool, one.tool_success) for one in made] == [
        ("fs_write", 0.5),
        ("http_get", 1.0),
    ]
    for one in made:
        assert isinstance(one, trustfold.TraceSignals)
        assert (one.constitution_clean, one.undo_flag) == (0.5, 0.0)
        assert (one.cost_efficiency, one.human_approval_delta) == (None, None)


@pytest.mark.parametrize(
    ("violations", "clean"),
    [([], 1.0), ([{"law": 3}], 0.5), ([{"law": 3}, {"law": 1}], 0.0), ([{"law": 0}], 0.0)],
)
def test_extract_signals_penalizes_broken_laws(
    violations: list[dict[str, int]], clean: float
) -> None:
    """| constitution_clean | 0 se almeno una violazione law.0-2; 0.5 se solo law.3 |."""
    trace = execution_trace("t1", action_step("1", WRITE), violations=violations)
    (made,) = trustfold.extract_signals(trace)
    assert made.constitution_clean == clean


def test_extract_signals_refuses_what_no_event_could_carry() -> None:
    """A trace that would be a dead letter has no signals."""
    with pytest.raises(trustfold.EventRefused, match="trace_id"):
        trustfold.extract_signals({"outcome": "completed", "steps": []})


def test_an_empty_score_is_no_trust() -> None:
    """`TrustScore.empty(subject)` has score 0, no samples and no moments."""
    subject = trustfold.Subject("", *WRITE)
    empty = trustfold.TrustScore.empty(subject)
    assert (empty.subject, empty.score, empty.n_samples) == (subject, 0, 0)
    assert (empty.raw_score, empty.effective_samples, empty.last_updated) == (0, 0, None)


def test_a_corrupt_score_is_an_empty_one_and_a_critical_event(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """| TrustCorruptionError | procede con TrustScore.empty() e logga evento critico |."""

    async def story(path: Path) -> trustfold.TrustScore | None:
        async with trustfold.open(path) as store:
            await store.bulk_update_from_trace(execution_trace("t1", action_step("1", WRITE)))
        tamper(path, "UPDATE scores SET digest = zeroblob(32)")
        async with trustfold.open(path) as store:
            return await store.get(WRITE)

    with caplog.at_level(logging.CRITICAL):
        score = asyncio.run(story(tmp_path / "trust.db"))
    assert score == trustfold.TrustScore.empty(trustfold.Subject("", *WRITE))
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]
    assert issubclass(trustfold.TrustCorruptionError, trustfold.TrustfoldError)
