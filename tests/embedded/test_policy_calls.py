"""The policy through the async API, as a runtime holds it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import trustfold
from tests.embedded.asking import Office
from tests.embedded.documents import NOTES
from trustfold_schemas.errors import ActionError, UnknownNameError
from trustfold_schemas.instants import SECOND
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore

ACTION = {
    "subject": NOTES,
    "reversibility": "reversible",
    "trace_id": "now",
    "step_id": "s1",
    "args_fingerprint": "f1",
}


@pytest.fixture
def office(store: EmbeddedStore, clock: ManualClock) -> Office:
    """A store that promotes writes with two grants, some of them earned."""
    made = Office(store, clock)
    made.rules()
    made.earned()
    return made


def test_a_runtime_decides_and_looks_back(office: Office, path: Path) -> None:
    """decide, peek, why, impact, revoke and reinstate, by the seed's names."""

    async def run() -> None:
        async with trustfold.open(path, clock=office.clock) as store:
            policy: trustfold.TrustPolicy = store
            decision = await policy.decide(ACTION)
            assert (decision.verdict.verdict, decision.verdict.via) == ("allow", "trust_promoted")
            assert await policy.decide(decision.action) == decision
            assert (await policy.peek(NOTES[1:], "reversible")).verdict == "allow"
            assert (await policy.why(decision.decision_id)).ok
            rested = (await policy.impact("earned/0")).rested
            assert [one.decision for one in rested] == [decision]
            name = await policy.revoke("a bad day", tool="fs_*")
            assert (await policy.decide(ACTION)).verdict.reason is trustfold.ReasonCode.REVOKED
            await policy.reinstate(name, "understood")
            with pytest.raises(UnknownNameError):
                await policy.reinstate(name, "again")

    asyncio.run(run())


def test_thresholds_are_looked_up_by_effect(office: Office, path: Path) -> None:
    """The stricter of both words; an undeclared effect raises the seed's error."""

    async def run() -> None:
        async with trustfold.open(path, clock=office.clock) as store:
            registry = await store.thresholds()
            assert registry.for_effect(NOTES.effect, "reversible").min_grants == 2
            assert registry.for_effect(NOTES.effect, "irreversible").min_score == 1.0
            with pytest.raises(trustfold.ThresholdNotFoundError):
                registry.for_effect("mail:send", "reversible")

    asyncio.run(run())


def test_a_peek_sees_a_revocation_within_seconds(office: Office, path: Path) -> None:
    """After five seconds at most, whoever revoked it."""

    async def run() -> None:
        async with trustfold.open(path, role="reader", clock=office.clock) as store:
            assert (await store.peek(NOTES, "reversible")).verdict == "allow"
            office.say("trust.revoked")
            office.clock.advance(5 * SECOND + 1)
            verdict = await store.peek(NOTES, "reversible")
            assert verdict.reason is trustfold.ReasonCode.REVOKED
            # One that is younger answers at once, and is caught up behind its back.
            office.clock.advance(2 * SECOND)
            assert (await store.peek(NOTES, "reversible")).reason is verdict.reason

    asyncio.run(run())


def test_first_peeks_at_once_share_one_table(office: Office, path: Path) -> None:
    """Twenty questions before anything is loaded have twenty answers."""

    async def run() -> None:
        async with trustfold.open(path, clock=office.clock) as store:
            made = await asyncio.gather(*[store.peek(NOTES, "reversible") for _ in range(20)])
            assert {one.verdict for one in made} == {"allow"}

    asyncio.run(run())


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"trace_id": ""}, "trace_id"),
        ({"step_id": None}, "step_id"),
        ({"reversibility": "maybe"}, "reversibility"),
        ({"subject": None}, "subject"),
        ({"args_fingerprint": "x" * 257}, "args_fingerprint"),
    ],
)
def test_what_is_no_action_is_refused(
    office: Office, path: Path, wrong: dict[str, object], named: str
) -> None:
    """The error names the field, and nothing is recorded."""

    async def run() -> None:
        async with trustfold.open(path, clock=office.clock) as store:
            with pytest.raises(ActionError, match=named):
                await store.decide(ACTION | wrong)

    asyncio.run(run())
    assert office.store.policy.decisions(NOTES) == []


def test_an_action_without_a_word_is_of_unknown_reversibility(office: Office, path: Path) -> None:
    """What is not said is not known, and never promoted."""

    async def run() -> None:
        said = {name: value for name, value in ACTION.items() if name != "reversibility"}
        async with trustfold.open(path, clock=office.clock) as store:
            decision = await store.decide(said)
        assert decision.verdict.reason is trustfold.ReasonCode.UNKNOWN_REVERSIBILITY

    asyncio.run(run())
