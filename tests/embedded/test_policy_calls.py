"""The policy through the async API, as a runtime holds it."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import trustfold
from tests.embedded.asking import Office
from tests.embedded.documents import NOTES
from trustfold_schemas.decisions import Decision
from trustfold_schemas.errors import ActionError, NotPermittedError, UnknownNameError
from trustfold_schemas.facts import Stamp
from trustfold_schemas.instants import SECOND
from trustfold_streams.clock import ManualClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.async_store import AsyncEmbeddedStore
from trustfold_streams.embedded.errors import StoreDamagedError

ACTION: dict[str, Any] = {
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


def test_questions_at_once_are_answered_one_after_the_other(office: Office, path: Path) -> None:
    """Each is recorded before it is answered; the same question has the same answer."""
    asked = [ACTION | {"step_id": f"s{number % 300}"} for number in range(600)]

    async def run() -> list[Decision]:
        async with trustfold.open(path, clock=office.clock) as store:
            return await asyncio.gather(*[store.decide(one) for one in asked])

    made = asyncio.run(run())
    assert [one.action.step_id for one in made] == [one["step_id"] for one in asked]
    assert made[:300] == made[300:]
    assert office.store.policy.decisions(NOTES) == made[:300]
    assert office.store.verify().ok


def test_a_question_that_may_not_be_asked_spoils_no_other(office: Office, path: Path) -> None:
    """A runtime that asks about another scope is refused; who waits beside it is answered."""
    other = ACTION | {"subject": NOTES._replace(scope="theirs")}

    async def run() -> list[Decision | BaseException]:
        stamp = Stamp("runtime", scopes=("",))
        async with AsyncEmbeddedStore(path, stamp, office.clock) as store:
            return await asyncio.gather(
                *[store.decide(one) for one in (ACTION, other, ACTION)], return_exceptions=True
            )

    first, refused, again = asyncio.run(run())
    assert isinstance(refused, NotPermittedError)
    assert isinstance(first, Decision)
    assert first == again
    assert office.store.policy.decisions(NOTES) == [first]


def test_what_keeps_one_answer_keeps_all_that_wait(office: Office, path: Path) -> None:
    """A damaged store is said to each, and a cancelled question leaves nothing behind."""

    async def run() -> list[Decision | BaseException]:
        async with trustfold.open(path, clock=office.clock) as store:
            late = asyncio.ensure_future(store.decide(ACTION))
            await asyncio.sleep(0)
            late.cancel()
            with sqlite3.connect(path) as connection:
                connection.execute("ALTER TABLE decisions RENAME TO gone")
            asked = [store.decide(ACTION | {"step_id": f"s{n}"}) for n in range(3)]
            return await asyncio.gather(*asked, return_exceptions=True)

    made = asyncio.run(run())
    assert [type(one) for one in made] == [StoreDamagedError] * 3
