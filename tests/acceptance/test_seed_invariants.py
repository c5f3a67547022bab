"""The rows of the seed's table "Invariante | Test" that concern the law and the store (SPEC 11).

Each runs through a real store under `ewm/1` at several spacings of traces, and under `elapsed/1`,
computed from the store's own ledger, at one trace a day: the spacing at which the seed's snippet
keeps its promises. Signals that a row does not name are at their best value. Not here: the rows of
irreversible actions and thresholds belong to the policy, those of skipped self-play (budget,
side effects) to the self-play coordinator.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance.scenes import (
    ALPHA,
    BEST,
    ROBERTO,
    SETTINGS,
    START,
    WRITE,
    Scene,
    Setting,
    opened,
)
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.instants import DAY, MINUTE, format_instant
from trustfold_schemas.receipts import Receipt
from trustfold_schemas.subject import Subject

Data = dict[str, Any]


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest) -> Setting:
    """Every formula at the spacings at which it holds."""
    made: Setting = request.param
    return made


@pytest.fixture
def scene(tmp_path: Path, setting: Setting) -> Iterator[Scene]:
    """An empty store."""
    with opened(tmp_path, setting) as made:
        yield made


# ---- TrustScore empty per subject sconosciuto --------------------------------------------------


def test_trust_score_of_an_unknown_subject_is_none(scene: Scene) -> None:
    """Of a neuron that nobody ever saw the store answers None, which never promotes."""
    scene.approved_trace("t")
    assert scene.seen(Subject("", "neuron:ghost", "invoke")) is None


def test_trust_score_of_a_subject_that_was_only_denied_is_none(scene: Scene) -> None:
    """A brake alone is no history: without a sample there is no score."""
    scene.say(
        "approval.decided",
        trace_id="never closed",
        subjects=[WRITE],
        decision="denied",
        decided_by=ROBERTO,
    )
    assert scene.seen() is None


# ---- EMA con decay half-life 30g ---------------------------------------------------------------


@pytest.mark.parametrize("updates", [1, 40])
def test_decay_with_a_half_life_of_30_days(scene: Scene, updates: int) -> None:
    """Signals at 1.0 and then nothing for 30 days: the score is 0.5 within 0.02."""
    for n in range(updates):
        scene.clock.moment = START + n * scene.spacing
        scene.say("signals.reported", trace_id=f"t{n}", subject=WRITE, **BEST)
    scene.clock.advance(30 * DAY)
    assert scene.known().score == pytest.approx(0.5, abs=0.02)


# ---- Undo abbassa lo score ---------------------------------------------------------------------


@pytest.mark.parametrize("earlier", [0, 20])
def test_undo_lowers_the_score(tmp_path: Path, setting: Setting, earlier: int) -> None:
    """A trace that was undone leaves a lower score than the same history without the undo."""
    scores = []
    for is_undone in (False, True):
        with opened(tmp_path / f"undone {is_undone}", setting) as scene:
            for n in range(earlier + 1):
                scene.approved_trace(f"t{n}")
            scene.clock.advance(5 * MINUTE)
            if is_undone:
                scene.say("undo.executed", trace_id=f"t{earlier}", by=ROBERTO)
            scores.append(scene.known().score)
    without, undone = scores
    assert undone < without


# ---- Synthesizer R -> initial TrustScore -------------------------------------------------------


def born(scene: Scene, neuron: str = "alpha") -> Receipt:
    """A human approved a neuron with R = 0.72."""
    return scene.say(
        "neuron.synthesized",
        neuron=neuron,
        reward=0.72,
        breakdown={"det_pass_rate": 1},
        approved_by="roberto",
    )


def test_synthesizer_reward_is_the_initial_score(scene: Scene) -> None:
    """Right after a neuron was approved with R = 0.72 its score is 0.72, within the rounding."""
    born(scene)
    assert scene.known(ALPHA).score == pytest.approx(0.72, abs=1e-6)


def test_synthesizer_reward_is_the_first_sample(scene: Scene) -> None:
    """Right after a neuron was approved it has one sample."""
    born(scene)
    assert scene.known(ALPHA).n_samples == 1


# ---- Critic mai è uno dei competitor -----------------------------------------------------------


def play(scene: Scene, critic: str) -> Receipt:
    """Alpha won against beta before a critic."""
    return scene.say(
        "selfplay.completed",
        context="budget",
        winner="alpha",
        loser="beta",
        critic=critic,
        verdict="shorter and right",
        critic_cost_usd=0.002,
    )


@pytest.mark.parametrize("critic", ["alpha", "beta"])
def test_critic_that_is_a_competitor_is_refused(scene: Scene, critic: str) -> None:
    """A self-play judged by its winner or its loser is a dead letter."""
    assert play(scene, critic).reason is Reason.INVALID


@pytest.mark.parametrize("critic", ["alpha", "beta"])
def test_critic_that_is_a_competitor_moves_no_score(scene: Scene, critic: str) -> None:
    """A self-play judged by its winner or its loser leaves the winner as it was."""
    born(scene)
    before = scene.seen(ALPHA)
    play(scene, critic)
    assert scene.seen(ALPHA) == before


# ---- Rollback è replayabile --------------------------------------------------------------------


def update(scene: Scene, n: int, again: str = "") -> int | None:
    """The n-th of the updates, at its own moment; the recorded moment of its last fact.

    By turns good signals, a trace that fails, a trace with a grant, and an undone one.
    """
    trace_id, moment = f"t{n}{again}", START + n * scene.spacing
    scene.clock.moment = max(moment, scene.clock.moment)
    status = "error" if n % 4 == 1 else "ok"
    step = {"step_id": "a", "tool": WRITE.tool, "effect": WRITE.effect, "status": status}
    close: Data = {"trace_id": trace_id, "outcome": "done", "cost_usd": n / 100, "steps": [step]}
    if n % 4 == 0:
        signals: Data = {"tool_success": 1.0, "constitution_clean": 1.0, "cost_efficiency": n / 128}
        return scene.say(
            "signals.reported", moment, trace_id=trace_id, subject=WRITE, **signals
        ).recorded
    receipt = scene.say("trace.closed", moment, **close)
    if n % 4 == 2:
        said: Data = {"decision": "granted", "decided_by": ROBERTO}
        receipt = scene.say("approval.decided", moment, trace_id=trace_id, step_ids=["a"], **said)
    if n % 4 == 3:
        receipt = scene.say("undo.executed", moment, trace_id=trace_id, by=ROBERTO)
    return receipt.recorded


class RolledBack(NamedTuple):
    """What 100 updates and a rollback by 50 left behind."""

    fifty: object
    hundred: str
    rollback_id: str


def rolled_back_by_fifty(scene: Scene) -> RolledBack:
    """Apply 100 updates, then roll back to the moment of the fiftieth."""
    moments, fifty = [], None
    for n in range(100):
        moments.append(update(scene, n))
        fifty = scene.rolled_back_part() if n == 49 else fifty
    hundred, to = scene.digest(), moments[49]
    assert to is not None
    said: Data = {"to": format_instant(to), "by": "roberto", "why": "abuse"}
    receipt = scene.say("subject.rolled_back", subject=WRITE, **said)
    assert receipt.counted == "accepted"
    return RolledBack(fifty, hundred, f"e{scene.said}")


def test_rollback_by_fifty_gives_the_state_as_of_that_moment(scene: Scene) -> None:
    """Sums, n_samples, last_updated and last_grant_at are those after 50 of 100 updates."""
    rolled_back = rolled_back_by_fifty(scene)
    assert scene.rolled_back_part() == rolled_back.fifty


def test_rollback_lifted_gives_the_state_after_a_hundred(scene: Scene) -> None:
    """Lifting the rollback gives the state after 100 updates, bit for bit."""
    rolled_back = rolled_back_by_fifty(scene)
    said: Data = {"rollback_id": rolled_back.rollback_id, "by": "roberto", "why": "no abuse"}
    scene.say("rollback.lifted", subject=WRITE, **said)
    assert scene.digest() == rolled_back.hundred


def test_rollback_is_replayable(scene: Scene) -> None:
    """The same 50 updates under new event and trace ids give the state after 100, bit for bit."""
    rolled_back = rolled_back_by_fifty(scene)
    for n in range(50, 100):
        update(scene, n, again=" again")
    assert scene.digest() == rolled_back.hundred


# ---- No promozione di human_approval_rate se nessuna approvazione ------------------------------


@pytest.mark.parametrize("traces", [1, 50])
def test_no_approval_leaves_human_approval_rate_neutral(scene: Scene, traces: int) -> None:
    """However many traces ran without a request for approval, the rate is 0.5."""
    for n in range(traces):
        scene.trace(f"t{n}")
    assert scene.known().human_approval_rate == pytest.approx(0.5, abs=1e-12)


def test_no_approval_does_not_push_the_score_up(scene: Scene) -> None:
    """With all else at its best the score never passes 0.875, that of a neutral rate."""
    scores = []
    for n in range(50):
        scene.trace(f"t{n}")
        scores.append(scene.known().score)
    assert max(scores) <= 0.875 + 1e-12


def test_no_approval_raises_no_rate_that_grants_have_earned(scene: Scene) -> None:
    """A trace without a request, after granted and denied ones, does not raise the rate."""
    for n in range(10):
        scene.approved_trace(f"t{n}")
    scene.say("approval.decided", trace_id="t9", decision="denied", decided_by=ROBERTO)
    before = scene.known().human_approval_rate
    scene.trace("not asked")
    assert scene.known().human_approval_rate <= before


# ---- Constitution clean penalizza law.0-2 ------------------------------------------------------


@pytest.mark.parametrize("law", [0, 1, 2])
def test_constitution_clean_is_zero_after_a_violation(scene: Scene, law: int) -> None:
    """A trace that broke one of the laws 0 to 2 says 0 of constitution_clean."""
    scene.approved_trace("t", violations=[{"law": law}])
    assert scene.known().constitution_clean == 0


def test_constitution_clean_recovers_after_a_hundred_clean_traces(scene: Scene) -> None:
    """A hundred clean traces after a violation of law 1 bring the score back above 0.9."""
    scene.approved_trace("bad", violations=[{"law": 1}])
    for n in range(100):
        scene.approved_trace(f"t{n}")
    assert scene.known().score > 0.9


# ---- Append-only events ------------------------------------------------------------------------


def a_life(scene: Scene) -> Iterator[Receipt]:
    """One update of a neuron after another, each of another kind."""
    about: Data = {"trace_id": "t"}
    by: Data = {"by": "roberto", "why": "a test"}
    yield born(scene)
    yield scene.trace("t", ALPHA)
    yield scene.say("approval.decided", **about, decision="granted", decided_by=ROBERTO)
    yield scene.say("approval.decided", **about, decision="denied", decided_by=ROBERTO)
    yield scene.say("undo.executed", **about, by=ROBERTO)
    scene.clock.advance(MINUTE)
    yield scene.say("trace.excluded", **about, **by)
    scene.clock.advance(MINUTE)
    yield scene.say("trace.included", **about, **by)
    yield play(scene, "gamma")
    yield scene.say("signals.reported", trace_id="s", subject=ALPHA, **BEST)
    yield scene.say("subject.rolled_back", subject=ALPHA, to=format_instant(START), **by)
    yield scene.say("rollback.lifted", subject=ALPHA, rollback_id=f"e{scene.said}", **by)


def test_append_only_every_update_makes_a_row(scene: Scene) -> None:
    """The count of `events` grows with every update of whatever kind, and never falls."""
    counts = [scene.count(), *(scene.count() for _ in a_life(scene))]
    assert all(before < after for before, after in pairwise(counts))


def test_append_only_no_row_is_rewritten(scene: Scene) -> None:
    """Whatever is updated, corrected, rolled back or lifted, earlier rows stay as they were."""
    looks = [scene.rows(ALPHA) for _ in a_life(scene)]
    assert all(after[: len(before)] == before for before, after in pairwise(looks))


@pytest.mark.parametrize("statement", ["UPDATE ledger SET a0 = 0", "DELETE FROM ledger"])
def test_append_only_is_the_files_own_rule(tmp_path: Path, statement: str) -> None:
    """Not even somebody who opens the file can change or delete a row by plain SQL."""
    with opened(tmp_path, Setting("ewm/1", DAY)) as scene:
        scene.trace("t")
        with (
            closing(sqlite3.connect(scene.store.path)) as connection,
            pytest.raises(sqlite3.IntegrityError, match="append-only"),
        ):
            connection.execute(statement)
