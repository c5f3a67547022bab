"""What every store makes of what is published through it: evidence, approvals, undos."""

from __future__ import annotations

import contextlib

import pytest

from tests.contract.scenes import (
    DONE,
    NOTES,
    ROBERTO,
    SHELL,
    an_hour_ago,
    answer,
    step,
    trace,
)
from tests.contract.stores import StoreFactory, World, eventually, known
from trustfold_projections.laws.signals import TraceSignals
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.subject import Subject
from trustfold_streams.trust_store import TrustStore

SIGNALS = {
    "tool_success": 1,
    "cost_efficiency": 0.75,
    "constitution_clean": 0.5,
    "human_approval_delta": 0.25,
    "undo_flag": 0,
}


async def samples(store: TrustStore, subject: Subject, count: int) -> None:
    """Wait until a subject has so many samples."""
    await eventually(
        lambda: store.get(subject), lambda score: (0 if score is None else score.n_samples) == count
    )


# ---- ready-made evidence -----------------------------------------------------------------------


async def test_an_update_is_one_sample_of_the_components_given(
    store_factory: StoreFactory,
) -> None:
    """After one `update` the five components are the signals, and n_samples is 1."""
    async with store_factory() as world, world.open() as store:
        now = world.now()
        await store.update(NOTES, SIGNALS, now)
        score = await known(lambda: store.get(NOTES, now))
        assert (score.n_samples, score.last_updated) == (1, now)
        assert score.tool_success == 1
        assert score.cost_efficiency == 0.75
        assert score.constitution_clean == 0.5
        assert score.human_approval_rate == 0.25
        assert score.undo_rate == 0
        assert score.raw_score == 0.30 + 0.25 * 0.25 + 0.20 * 0.75 + 0.15 * 0.5 + 0.10


async def test_an_update_takes_signals_as_they_were_extracted(store_factory: StoreFactory) -> None:
    """A TraceSignals says what the mapping of its signals says; what is absent is no evidence."""
    digests = []
    signals = TraceSignals(subject=NOTES, tool_success=1.0, human_approval_delta=0.5)
    for said in (signals, {"tool_success": 1, "human_approval_delta": 0.5}):
        async with store_factory() as world, world.open() as store:
            await store.update(NOTES, said, an_hour_ago(world))
            await samples(store, NOTES, 1)
            digests.append(await world.digests())
    assert digests[0] == digests[1]


async def test_two_updates_are_two_traces(store_factory: StoreFactory) -> None:
    """The same signals twice are two samples: each call makes a trace of its own."""
    async with store_factory() as world, world.open() as store:
        names = {await store.update(NOTES, SIGNALS) for _ in range(2)}
        await samples(store, NOTES, 2)
        assert len(names) == 2


# ---- traces ------------------------------------------------------------------------------------


async def test_a_trace_is_one_vote_for_each_subject(store_factory: StoreFactory) -> None:
    """One sample with the share of good steps, however many; the global subject counts all."""
    steps = [step("a"), step("b", status="error"), step("c"), step("d", SHELL)]
    async with store_factory() as world, world.open() as store:
        await store.bulk_update_from_trace(trace("t1", *steps))
        for subject in (NOTES, SHELL, DONE):  # on Kafka they come one by one, in any order
            await samples(store, subject, 1)
        seen = {
            subject: (score.n_samples, round(score.tool_success, 6))
            for subject, score in (await store.snapshot()).items()
        }
        assert seen == {NOTES: (1, 0.666666), SHELL: (1, 1.0), DONE: (1, 0.75)}


async def test_the_same_trace_again_changes_nothing(store_factory: StoreFactory) -> None:
    """Its event id derives from the trace, so a second time is a duplicate and no error."""
    async with store_factory() as world, world.open() as store:
        closed_at = an_hour_ago(world)
        for _ in range(3):
            await store.bulk_update_from_trace(trace("t1", closed_at=closed_at))
        await samples(store, NOTES, 1)
        once = await world.digests()
        await store.bulk_update_from_trace(trace("t1"), closed_at)
        await world.caught_up()
        assert await world.digests() == once
        assert await world.dead_letters() == []


async def test_the_same_trace_with_other_content_changes_nothing(
    store_factory: StoreFactory,
) -> None:
    """The first content holds; the other one is a dead letter, and an error where it can be."""
    async with store_factory() as world, world.open() as store:
        closed_at = an_hour_ago(world)
        await store.bulk_update_from_trace(trace("t1"), closed_at)
        await samples(store, NOTES, 1)
        once = await world.digests()
        with contextlib.suppress(EventRefused):
            await store.bulk_update_from_trace(trace("t1", step(status="error")), closed_at)
        (letter,) = await eventually(world.dead_letters, bool)
        assert letter.reason == Reason.CONFLICT
        assert b'"error"' in letter.body
        assert await world.digests() == once


# ---- approvals ---------------------------------------------------------------------------------


async def approved(world: World, store: TrustStore, decision: str, *, first: bool) -> None:
    """Close a trace and answer for its one step, in either order."""
    if first:
        await store.record_approval_outcome("t1", answer(decision), an_hour_ago(world, 1))
    await store.bulk_update_from_trace(trace("t1"), an_hour_ago(world))
    if not first:
        await store.record_approval_outcome("t1", answer(decision), an_hour_ago(world, 1))


@pytest.mark.parametrize("first", [True, False], ids=["before the close", "after the close"])
@pytest.mark.parametrize(("decision", "rate"), [("granted", 1.0), ("denied", 0.0)])
async def test_an_answer_is_the_rate_and_the_brake(
    store_factory: StoreFactory, decision: str, rate: float, first: bool
) -> None:
    """A grant is rate 1 and a grant's moment; a denial is rate 0 and a brake; in any order."""
    async with store_factory() as world, world.open() as store:
        await approved(world, store, decision, first=first)
        score = await eventually(
            lambda: store.get(NOTES),
            lambda seen: seen is not None and seen.human_approval_rate == rate,
        )
        assert score is not None
        answered = an_hour_ago(world, 1)
        granted = decision == "granted"
        assert score.n_samples == 1
        assert score.last_grant_at == (answered if granted else None)
        assert score.last_bad_at == (None if granted else answered)


@pytest.mark.parametrize("decision", ["granted", "denied"])
async def test_an_answer_before_and_after_the_close_are_the_same(
    store_factory: StoreFactory, decision: str
) -> None:
    """The order in which close and answer arrive leaves no trace in the table."""
    digests = []
    for first in (True, False):
        async with store_factory() as world, world.open() as store:
            await approved(world, store, decision, first=first)
            await samples(store, DONE, 1)
            await world.caught_up()
            digests.append(await world.digests())
    assert digests[0] == digests[1]


async def test_not_asked_is_no_evidence(store_factory: StoreFactory) -> None:
    """Without an answer the rate has no weight: it neither raises nor lowers."""
    async with store_factory() as world, world.open() as store:
        await store.bulk_update_from_trace(trace("t1"))
        score = await known(lambda: store.get(NOTES))
        assert (score.human_approval_rate, score.effective_grants) == (0.5, 0)


# ---- undo --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("minutes", "rate"), [(0, 1.0), (10, 1.0), (10.01, 0.0), (50, 0.0)])
async def test_an_undo_counts_for_ten_minutes_and_brakes_for_ever(
    store_factory: StoreFactory, minutes: float, rate: float
) -> None:
    """Up to ten minutes after the close it sets undo_rate; later it only brakes."""
    async with store_factory() as world, world.open() as store:
        await store.bulk_update_from_trace(trace("t1"), an_hour_ago(world))
        await store.record_undo("t1", ROBERTO, now=an_hour_ago(world, minutes))
        score = await eventually(
            lambda: store.get(NOTES),
            lambda seen: seen is not None and seen.last_bad_at == an_hour_ago(world, minutes),
        )
        assert score is not None
        assert (score.undo_rate, score.n_samples) == (rate, 1)


async def test_an_undo_of_named_steps_spares_the_others(store_factory: StoreFactory) -> None:
    """Only the subjects of the steps that were taken back are touched."""
    async with store_factory() as world, world.open() as store:
        await store.bulk_update_from_trace(
            trace("t1", step("a"), step("b", SHELL)), an_hour_ago(world)
        )
        await store.record_undo("t1", ROBERTO, ["b"], an_hour_ago(world, 1))
        undone = await eventually(
            lambda: store.get(SHELL), lambda seen: seen is not None and seen.undo_rate == 1
        )
        spared = await known(lambda: store.get(NOTES))
        assert undone is not None
        assert undone.last_bad_at == an_hour_ago(world, 1)
        assert (spared.undo_rate, spared.last_bad_at) == (0, None)


async def test_an_undo_is_a_humans_unless_it_says_otherwise(store_factory: StoreFactory) -> None:
    """The seed's `record_undo(trace_id)` is typed by a person, so it counts."""
    async with store_factory() as world, world.open() as store:
        await store.bulk_update_from_trace(trace("t1"))
        await store.record_undo("t1")
        score = await eventually(
            lambda: store.get(NOTES), lambda seen: seen is not None and seen.undo_rate == 1
        )
        assert score is not None
        assert score.last_bad_at is not None
