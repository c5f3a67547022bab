"""What every store refuses, by name, and keeps: who may say what, and what is no event."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.contract.scenes import DONE, NOTES, ROBERTO, SHELL, an_hour_ago, answer, step, trace
from tests.contract.stores import Letter, StoreFactory, World, eventually, known
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.facts import Role
from trustfold_streams.trust_store import TrustStore

Call = Callable[[TrustStore], Awaitable[Any]]


async def one_letter(world: World, reason: Reason) -> Letter:
    """Wait for the only dead letter."""
    letters = await eventually(world.dead_letters, bool)
    assert [letter.reason for letter in letters] == [reason]
    return letters[0]


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(
            lambda store: store.record_approval_outcome("t1", answer("granted")), id="approval"
        ),
        pytest.param(lambda store: store.record_undo("t1", ROBERTO), id="undo"),
        pytest.param(lambda store: store.record_undo("t1"), id="undo without a name"),
    ],
)
@pytest.mark.parametrize("role", ["runtime", "operator"])
async def test_a_humans_word_from_another_role_is_refused_and_kept(
    store_factory: StoreFactory, role: Role, call: Call
) -> None:
    """Whatever it claims, a runtime is no human: `not_human`, a dead letter, and no effect."""
    async with store_factory() as world, world.open() as owner:
        await owner.bulk_update_from_trace(trace("t1"), an_hour_ago(world))
        now = world.now()
        before = await known(lambda: owner.get(NOTES, now))
        async with world.open(role) as store:
            with pytest.raises(EventRefused, match="human") as refused:
                await call(store)
        assert refused.value.reason == Reason.NOT_HUMAN
        letter = await one_letter(world, Reason.NOT_HUMAN)
        assert b'"t1"' in letter.body
        assert b'"human"' in letter.body
        assert await owner.get(NOTES, now) == before


async def test_a_human_may_answer(store_factory: StoreFactory) -> None:
    """In the role `human` the same word counts."""
    async with store_factory() as world:
        async with world.open("runtime") as store:
            await store.bulk_update_from_trace(trace("t1"))
        async with world.open("human") as store:
            await store.record_approval_outcome("t1", answer("granted"))
            score = await eventually(
                lambda: store.get(NOTES),
                lambda seen: seen is not None and seen.human_approval_rate == 1,
            )
        assert score is not None


async def test_a_rule_may_answer_as_a_runtime_and_is_no_human(store_factory: StoreFactory) -> None:
    """A decision by a rule is taken from a runtime, and is no human evidence."""
    async with store_factory() as world, world.open("runtime") as store:
        await store.bulk_update_from_trace(trace("t1"))
        by_rule = {"decision": "granted", "decided_by": {"kind": "rule", "id": "r7"}}
        await store.record_approval_outcome("t1", by_rule)
        await world.caught_up()
        score = await known(lambda: store.get(NOTES))
        assert (score.human_approval_rate, score.last_grant_at) == (0.5, None)
        assert await world.dead_letters() == []


@pytest.mark.parametrize(
    ("role", "call"),
    [
        ("human", lambda store: store.bulk_update_from_trace(trace("t1"))),
        ("operator", lambda store: store.bulk_update_from_trace(trace("t1"))),
        ("runtime", lambda store: store.update(NOTES, {"tool_success": 1})),
        ("human", lambda store: store.update(NOTES, {"tool_success": 1})),
    ],
    ids=["trace by a human", "trace by an operator", "signals by a runtime", "signals by a human"],
)
async def test_what_a_role_may_not_say_is_refused_and_kept(
    store_factory: StoreFactory, role: Role, call: Call
) -> None:
    """`not_permitted`, a dead letter, and no effect."""
    async with store_factory() as world:
        async with world.open(role) as store:
            with pytest.raises(EventRefused, match=role) as refused:
                await call(store)
        assert refused.value.reason == Reason.NOT_PERMITTED
        await one_letter(world, Reason.NOT_PERMITTED)
        assert await world.digests() == {}


async def test_a_scope_that_is_not_the_publishers_is_refused_and_kept(
    store_factory: StoreFactory,
) -> None:
    """A runtime of one team speaks of no other: `scope_mismatch`, a dead letter, no effect."""
    async with store_factory() as world:
        async with world.open("runtime", scopes=["team"]) as store:
            await store.bulk_update_from_trace(trace("t1", scope="team"))
            await known(lambda: store.get(NOTES._replace(scope="team")))
            for scope in ("", "another"):
                with pytest.raises(EventRefused, match="team") as refused:
                    await store.bulk_update_from_trace(trace(f"t {scope}", scope=scope))
                assert refused.value.reason == Reason.SCOPE_MISMATCH
        letters = await eventually(world.dead_letters, lambda seen: len(seen) == 2)
        assert {letter.reason for letter in letters} == {Reason.SCOPE_MISMATCH}
        assert {subject.scope for subject in await world.digests()} == {"team"}


async def test_feedback_on_a_trace_of_another_scope_moves_nothing_of_it(
    store_factory: StoreFactory,
) -> None:
    """The log knows whose trace it is: `scope_mismatch`, an error where that is known at once."""
    async with store_factory() as world:
        async with world.open() as owner:
            await owner.bulk_update_from_trace(trace("t1"), an_hour_ago(world))
            await known(lambda: owner.get(DONE))
            before = await world.digests()
        async with world.open("human", scopes=["team"]) as store:
            with contextlib.suppress(EventRefused):
                await store.record_approval_outcome("t1", answer("denied"))
        await one_letter(world, Reason.SCOPE_MISMATCH)
        assert await world.digests() == before


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda store: store.bulk_update_from_trace({"outcome": "done"}), "trace_id"),
        (lambda store: store.bulk_update_from_trace(trace("t", step("a"), step("a"))), "step"),
        (lambda store: store.bulk_update_from_trace(trace("t", cost_usd=-1)), "cost_usd"),
        (lambda store: store.update(NOTES, {"tool_success": 1.5}), "tool_success"),
        (lambda store: store.update(DONE, {"tool_success": 1}), "runtime"),
        (lambda store: store.record_approval_outcome("t", answer("perhaps")), "decision"),
        (lambda store: store.record_undo("t", ROBERTO, []), "step_ids"),
    ],
    ids=["no trace_id", "same step twice", "cost", "signal", "runtime", "decision", "no steps"],
)
async def test_what_is_no_event_is_refused_with_the_field_and_kept(
    store_factory: StoreFactory, call: Call, names: str
) -> None:
    """`invalid`: the message names the field; the bytes are kept as a dead letter."""
    async with store_factory() as world:
        async with world.open() as store:
            with pytest.raises(EventRefused, match=names) as refused:
                await call(store)
        assert refused.value.reason == Reason.INVALID
        await one_letter(world, Reason.INVALID)
        assert await world.digests() == {}


async def test_a_refusal_leaves_the_store_usable(store_factory: StoreFactory) -> None:
    """The next call through the same store is as good as ever."""
    async with store_factory() as world, world.open() as store:
        with pytest.raises(EventRefused):
            await store.bulk_update_from_trace({})
        await store.bulk_update_from_trace(trace("t1", step("a", SHELL)))
        assert (await known(lambda: store.get(SHELL))).n_samples == 1
