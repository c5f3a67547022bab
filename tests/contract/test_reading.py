"""What every store answers: one subject, one neuron, all of them, at a moment."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.contract.scenes import DONE, NOTES, SHELL, answer, step, trace
from tests.contract.stores import StoreFactory, eventually, known
from trustfold_schemas.subject import Subject

ALPHA = Subject("", "neuron:alpha", "invoke")


async def test_an_unknown_subject_has_no_score(store_factory: StoreFactory) -> None:
    """None, which means no trust; and a store that knows nothing has an empty board."""
    async with store_factory() as world, world.open() as store:
        assert await store.get(NOTES) is None
        assert await store.get_for_neuron("ghost") is None
        assert await store.snapshot() == {}


async def test_a_subject_that_was_only_braked_has_no_score(store_factory: StoreFactory) -> None:
    """A denial of a trace that never closed is a brake and no sample."""
    async with store_factory() as world, world.open() as store:
        await store.record_approval_outcome("t1", answer("denied", subjects=[NOTES]))
        await world.caught_up()
        assert await store.get(NOTES) is None
        assert await store.snapshot() == {}


@pytest.mark.parametrize("subject", [NOTES, tuple(NOTES), NOTES[1:]], ids=["Subject", "3", "2"])
async def test_a_subject_can_be_named_in_three_ways(
    store_factory: StoreFactory, subject: tuple[str, str]
) -> None:
    """As a Subject, as (scope, tool, effect), and as (tool, effect), whose scope is empty."""
    async with store_factory() as world, world.open() as store:
        await store.update(subject, {"tool_success": 1})
        score = await known(lambda: store.get(subject))
        assert score.subject == NOTES


async def test_a_neuron_is_found_by_its_name(store_factory: StoreFactory) -> None:
    """`get_for_neuron` is `get` of ("neuron:<name>", "invoke"), in the scope given."""
    async with store_factory() as world, world.open() as store:
        await store.update(ALPHA, {"tool_success": 1})
        await store.update(ALPHA._replace(scope="team"), {"tool_success": 0})
        now = world.now()
        score = await known(lambda: store.get_for_neuron("alpha", now=now))
        other = await known(lambda: store.get_for_neuron("alpha", "team", now))
        assert (score.tool_success, other.tool_success) == (1.0, 0.0)
        assert score == await store.get(ALPHA, now)
        assert other == await store.get(ALPHA._replace(scope="team"), now)


async def test_a_snapshot_is_every_subject_as_get_gives_it(store_factory: StoreFactory) -> None:
    """All subjects with samples, the global one too, read at one moment."""
    async with store_factory() as world, world.open() as store:
        await store.bulk_update_from_trace(trace("t1", step("a"), step("b", SHELL)))
        now = world.now()
        snapshot = await eventually(lambda: store.snapshot(now), lambda seen: len(seen) == 3)
        assert set(snapshot) == {NOTES, SHELL, DONE}
        for subject, score in snapshot.items():
            assert score == await store.get(subject, now)


async def test_a_score_halves_in_thirty_days(store_factory: StoreFactory) -> None:
    """Read 30 days later the same evidence gives half the score, and the same raw_score."""
    async with store_factory() as world, world.open() as store:
        now = world.now()
        await store.update(NOTES, {"tool_success": 1}, now)
        fresh = await known(lambda: store.get(NOTES, now))
        old = await known(lambda: store.get(NOTES, now + timedelta(days=30)))
        assert fresh.score == fresh.raw_score
        assert old.score == pytest.approx(fresh.score / 2)
        assert old.raw_score == fresh.raw_score
        assert old.effective_samples == pytest.approx(0.5)
