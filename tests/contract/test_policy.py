"""What every store's policy answers: recorded before it is given, the same to the same question."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.scenes import NOTES, ROBERTO, answer, step, trace
from tests.contract.stores import StoreFactory, World, eventually
from trustfold_schemas.decisions import Decision, ReasonCode
from trustfold_schemas.documents import document
from trustfold_schemas.errors import (
    ActionError,
    NotPermittedError,
    ThresholdNotFoundError,
    UnknownNameError,
)
from trustfold_schemas.instants import instant_of
from trustfold_streams.trust_store import TrustPolicy

ASKED: dict[str, Any] = {
    "subject": NOTES,
    "reversibility": "reversible",
    "trace_id": "now",
    "step_id": "s1",
    "args_fingerprint": "f1",
}
RULES: dict[str, dict[str, Any]] = {
    "policy.mode": {"mode": "enforce", "spot_check_one_in": 0},
    "effect.declared": {"effect": "fs_*", "reversibility": "reversible"},
    "threshold.set": {
        "effect": "fs_*",
        "risk_band": "reversible",
        "min_score": 0,
        "min_samples": 2,
        "min_grants": 2,
        "min_approval_rate": 0,
    },
}


async def say(world: World, kind: str, name: str = "", **data: Any) -> None:
    """Publish an event of the log `policy`, by oscar, who has his reasons."""
    said = {"by": "oscar", "why": "reasons", **data}
    body = document(f"trustfold.{kind}.v1", name or kind, "ops", instant_of(world.now()), said)
    await world.ingest([body])


async def trusted(world: World) -> None:
    """Writes need two samples and two grants, and the notes have them, all of this very moment."""
    for kind, data in RULES.items():
        await say(world, kind, **data)
    async with world.open() as store:
        for name in ("t1", "t2"):
            await store.bulk_update_from_trace(trace(name, step("a")), world.now())
            await store.record_approval_outcome(name, answer("granted"), world.now())
    await world.caught_up()


async def decided(policy: TrustPolicy, **other: Any) -> Decision:
    """Ask until the scores have followed; each time as another step."""
    tries = iter(range(1_000_000))
    return await eventually(
        lambda: policy.decide(ASKED | {"step_id": f"try {next(tries)}"} | other),
        lambda made: made.verdict.verdict == "allow",
    )


async def test_a_store_without_a_policy_promotes_nothing(store_factory: StoreFactory) -> None:
    """Nothing is declared, nobody is known, and the mode is shadow."""
    async with store_factory() as world, world.policy() as policy:
        verdict = (await policy.decide(ASKED)).verdict
        assert verdict.reasons == (ReasonCode.UNDECLARED_EFFECT, ReasonCode.NO_HISTORY)
        assert verdict.mode == "shadow"
        with pytest.raises(ThresholdNotFoundError):
            (await policy.thresholds()).for_effect(NOTES.effect, "reversible")


async def test_what_earned_it_is_allowed_and_recorded_once(store_factory: StoreFactory) -> None:
    """The same question gets the recorded decision, by another door too; another one its own."""
    async with store_factory() as world:
        await trusted(world)
        async with world.policy("runtime") as policy:
            first = await decided(policy)
            assert first.verdict.via == "trust_promoted"
            assert first.verdict.digest is not None
            assert await policy.decide(first.action) == first
            other = await policy.decide(ASKED | {"step_id": "another"})
            assert other.decision_id != first.decision_id
            peeked = await policy.peek(NOTES, "reversible")
            assert (peeked.verdict, peeked.digest) == ("allow", first.verdict.digest)
        async with world.policy() as policy:
            assert await policy.decide(first.action) == first


async def test_questions_at_once_have_one_answer(store_factory: StoreFactory) -> None:
    """Whichever was recorded first is given to all of them."""
    async with store_factory() as world:
        await trusted(world)
        async with world.policy() as policy, world.policy() as beside:
            await decided(policy)
            await decided(beside)
            asked = ASKED | {"step_id": "at once"}
            doors = [policy, beside] * 5
            made = await asyncio.gather(*[door.decide(asked) for door in doors])
            assert len({one.decision_id for one in made}) == 1


async def test_a_revocation_counts_at_once_and_until_it_is_taken_away(
    store_factory: StoreFactory,
) -> None:
    """Also for a question that was allowed before, and for a subject nobody knows yet."""
    async with store_factory() as world:
        await trusted(world)
        async with world.policy() as policy:
            first = await decided(policy)
            name = await policy.revoke("a bad day", tool="*", effect="fs_*")
            assert (await policy.decide(first.action)).verdict.reason is ReasonCode.REVOKED
            new = NOTES._replace(tool="new")
            assert (await policy.decide(ASKED | {"subject": new})).verdict.reason == "revoked"
            await policy.reinstate(name, "understood")
            assert (await policy.decide(ASKED | {"step_id": "s9"})).verdict.verdict == "allow"


async def test_a_decision_is_followed_back(store_factory: StoreFactory) -> None:
    """Its step and feedback; the state of then, whatever came since; what rested on a trace."""
    async with store_factory() as world:
        await trusted(world)
        async with world.policy() as policy, world.open() as store:
            first = await decided(policy)
            one = step(first.action.step_id) | {"decision_id": first.decision_id}
            await store.bulk_update_from_trace(trace("now", one), world.now())
            await store.record_undo("now", ROBERTO, now=world.now())
            await say(world, "policy.mode", "later", mode="shadow")
            await world.caught_up()
            why = await policy.why(first.decision_id)
            assert why.ok
            assert why.step is not None
            assert why.step.decision_id == first.decision_id
            assert len(why.feedback) == 1
            assert why.verdict_again == first.verdict
            rested = (await policy.impact("t1")).rested
            assert [made.decision.decision_id for made in rested] == [first.decision_id]
            assert rested[0].without.reason is ReasonCode.TOO_FEW_SAMPLES
            differing = await policy.differing(NOTES, "t1")
            assert [made.decision.decision_id for made in differing] == [first.decision_id]
            assert differing[0].without.missing == "1 more sample; 1 more grant"
            assert first in await policy.decisions(NOTES)
            acted = (await policy.impact("now")).acted
            assert [made.decision_id for made in acted] == [first.decision_id]
            with pytest.raises(UnknownNameError):
                await policy.why("nobody")
            with pytest.raises(UnknownNameError):
                await policy.impact("nobody")


async def test_a_stale_version_changes_nothing(store_factory: StoreFactory) -> None:
    """The first to replace a version does, in the order of the log."""
    async with store_factory() as world:
        await trusted(world)
        for name, samples in (("a", 5), ("b", 7)):
            data = RULES["threshold.set"] | {"min_samples": samples, "expected_version": 1}
            await say(world, "threshold.set", name, **data)
        async with world.policy() as policy:
            registry = await policy.thresholds()
        assert registry.for_effect(NOTES.effect, "reversible").min_samples == 5
        letters = await eventually(world.dead_letters, bool)
        assert [letter.reason for letter in letters] == ["stale_version"]


async def test_an_operators_word_is_no_question_and_a_runtimes_no_policy(
    store_factory: StoreFactory,
) -> None:
    """Roles keep apart who asks and who sets; a reader peeks."""
    async with store_factory() as world:
        async with world.policy("operator") as policy:
            with pytest.raises(NotPermittedError, match="from the role runtime"):
                await policy.decide(ASKED)
            with pytest.raises(ActionError, match="trace_id"):
                await policy.decide(ASKED | {"trace_id": ""})
        async with world.policy("runtime") as policy:
            with pytest.raises(ValueError, match="from the role operator"):
                await policy.revoke("please")
        async with world.policy("reader") as policy:
            assert (await policy.peek(NOTES, "reversible")).reason is ReasonCode.UNDECLARED_EFFECT
