"""The seed's rows and rules about the policy, through a real store and the seed's own names.

An action that nobody earned is asked; one that was earned is promoted with `via = trust_promoted`,
logged and revocable; what is irreversible, unknown or corrupt never is.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import trustfold
from tests.acceptance.scenes import ALPHA, BEST, WRITE, Scene, Setting, opened
from trustfold_projections.laws.policy import decide
from trustfold_schemas.decisions import Action
from trustfold_schemas.instants import DAY, HOUR, datetime_of
from trustfold_schemas.subject import Subject

GHOST = Subject("", "neuron:ghost", "invoke")
Data = dict[str, Any]

BANDS = ("reversible", "reversible_with_cost")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A store under the table's law, a trace an hour, whose policy enforces without spot checks."""
    with opened(tmp_path, Setting("ewm/1", HOUR)) as made:
        said: Data = {"by": "roberto", "why": "a trial"}
        made.say("policy.mode", mode="enforce", spot_check_one_in=0, **said)
        made.say("effect.declared", effect="*", reversibility="reversible", **said)
        yield made


def ask(scene: Scene, name: str, subject: Subject = WRITE, said: str = "reversible") -> Any:
    """The recorded answer to a new question."""
    action = trustfold.Action(subject, said, "turn", name)  # type: ignore[arg-type]
    return scene.store.policy.decide(action).verdict


def earned(scene: Scene, traces: int = 25) -> None:
    """So many perfect traces, each granted by a human."""
    for number in range(traces):
        scene.approved_trace(f"t{number}")


# ---- TrustScore empty per subject sconosciuto --------------------------------------------------


def test_an_unknown_subject_is_never_promoted(scene: Scene) -> None:
    """`get` answers None, and the policy reads None as "never promote"."""
    earned(scene)
    assert scene.store.get(GHOST) is None
    verdict = ask(scene, "s", GHOST)
    assert (verdict.verdict, verdict.reason) == ("approve_required", "no_history")


# ---- Azione irreversibile mai promuovibile -----------------------------------------------------


@pytest.mark.parametrize("score", [0.99, 1.0])
def test_an_irreversible_action_is_never_promoted(scene: Scene, score: float) -> None:
    """Its threshold has min_score 1.0; a score of 0.99 is below it, one of 1.0 changes nothing."""
    for number in range(100):
        signals = BEST | {"cost_efficiency": 1 - (1 - score) / 0.2}
        scene.say("signals.reported", trace_id=f"t{number}", subject=WRITE, **signals)
    made = scene.store.get(WRITE)
    assert made is not None
    assert made.score == pytest.approx(score, abs=1e-6)
    registry = trustfold.TrustThresholdRegistry(scene.store.policy.in_force())
    assert registry.for_effect(WRITE.effect, "irreversible").min_score == 1.0
    assert ask(scene, "s1").verdict == "allow"
    verdict = ask(scene, "s2", said="irreversible")
    assert (verdict.verdict, verdict.reason) == ("approve_required", "irreversible")


# ---- ThresholdNotFoundError: fallback conservativo ---------------------------------------------


def test_an_unknown_effect_class_has_no_threshold(scene: Scene) -> None:
    """The registry raises the seed's error, and the policy never promotes."""
    earned(scene)
    scene.say("effect.removed", effect="*", by="roberto", why="a trial")
    registry = trustfold.TrustThresholdRegistry(scene.store.policy.in_force())
    with pytest.raises(trustfold.ThresholdNotFoundError):
        registry.for_effect(WRITE.effect, "reversible")
    verdict = ask(scene, "s")
    assert (verdict.verdict, verdict.reason) == ("approve_required", "undeclared_effect")


# ---- TrustCorruptionError ----------------------------------------------------------------------


def test_a_corrupt_record_is_no_trust_and_a_critical_event(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """The runtime goes on with an empty score; the event is critical, and counted."""
    earned(scene)
    with closing(sqlite3.connect(scene.store.path)) as connection:
        connection.execute("UPDATE scores SET checksum = zeroblob(32)")
        connection.commit()
    with caplog.at_level(logging.CRITICAL):
        verdict = ask(scene, "s")
    assert (verdict.verdict, verdict.reason) == ("approve_required", "corrupt")
    assert scene.store.get(WRITE) == trustfold.TrustScore.empty(WRITE)
    assert caplog.records
    assert scene.store.corrupt_reads == 2


# ---- Policy check 6: promosso a allow con via trust_promoted, loggata, revocabile --------------


@pytest.mark.parametrize("band", BANDS)
def test_a_score_and_samples_over_the_threshold_promote(scene: Scene, band: str) -> None:
    """Score >= min_score and n >= min_samples: `approve_required` becomes `allow`."""
    said: Data = {"by": "roberto", "why": "a trial", "effect": "fs_write:*"}
    numbers: Data = {"min_score": 0.9, "min_samples": 10, "min_grants": 5, "min_approval_rate": 0.9}
    scene.say("effect.declared", reversibility=band, **said)
    scene.say("threshold.set", risk_band=band, **said, **numbers)
    earned(scene, 9)
    assert ask(scene, "s1").reasons == ("too_few_samples",)
    earned(scene, 12)
    verdict = ask(scene, "s2")
    assert (verdict.verdict, verdict.via) == ("allow", "trust_promoted")
    scene.clock.advance(10 * DAY)
    assert "score_too_low" in ask(scene, "s3").reasons


def test_every_promotion_is_logged_and_can_be_revoked(scene: Scene) -> None:
    """It stands in the table of decisions with its grounds; after `revoke` it is asked again."""
    earned(scene)
    verdict = ask(scene, "s1")
    (logged,) = scene.store.policy.decisions(WRITE)
    assert logged.verdict == verdict
    scene.say("trust.revoked", tool="fs_write", by="roberto", why="/revoke-trust")
    assert ask(scene, "s2").reason == "revoked"


# ---- Synthesizer R, self-play: non promuovono --------------------------------------------------


def test_a_reward_promotes_nobody(scene: Scene) -> None:
    """A neuron born with R = 1.0 has one sample; no reward outweighs what was never tried."""
    birth: Data = {"neuron": "alpha", "reward": 1, "breakdown": {}, "approved_by": "roberto"}
    scene.say("neuron.synthesized", **birth)
    made = scene.store.get(ALPHA)
    assert made is not None
    assert (round(made.raw_score, 6), made.n_samples) == (1.0, 1)
    assert ask(scene, "s", ALPHA).reasons == ("too_few_samples",)


# ---- the decision, and the seed's calls --------------------------------------------------------


def test_the_decision_is_a_function_of_what_is_recorded(scene: Scene) -> None:
    """State, policy, action and moment give the recorded verdict again, field by field."""
    earned(scene)
    action = Action(WRITE, "reversible", "turn", "s")
    decision = scene.store.policy.decide(action)
    again = decide(
        scene.store.state(WRITE),
        scene.store.policy.in_force(),
        action,
        decision.recorded,
        decision_id=decision.decision_id,
    )
    assert again == decision.verdict


def test_the_seeds_calls_reach_the_policy(scene: Scene) -> None:
    """bulk_update_from_trace, record_approval_outcome and rollback move the answer."""

    async def run() -> list[str]:
        path, clock = scene.store.path, scene.clock
        async with trustfold.open(path, clock=clock) as store:
            start = clock.now()
            step = {"step_id": "a", "tool": WRITE.tool, "effect": WRITE.effect, "status": "ok"}
            said = {"decision": "granted", "decided_by": {"kind": "human", "id": "roberto"}}
            asked = {"subject": WRITE, "reversibility": "reversible", "trace_id": "now"}
            answers = []
            for number in range(25):
                clock.advance(HOUR)
                trace = {"trace_id": f"t{number}", "outcome": "done", "steps": [step]}
                await store.bulk_update_from_trace(trace)
                await store.record_approval_outcome(f"t{number}", said)
            answers.append(str((await store.decide(asked | {"step_id": "s1"})).verdict.verdict))
            await store.record_approval_outcome("t0", said | {"decision": "denied"})
            answers.append((await store.decide(asked | {"step_id": "s2"})).verdict.reason)
            await store.rollback(WRITE, datetime_of(start))
            answers.append((await store.decide(asked | {"step_id": "s3"})).verdict.reason)
            return [str(answer) for answer in answers]

    assert asyncio.run(run()) == ["allow", "braked", "braked"]
