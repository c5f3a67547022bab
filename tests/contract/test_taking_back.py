"""What every store takes back, and gives back: rollbacks, exclusions."""

from __future__ import annotations

import pytest

from tests.contract.scenes import DONE, NOTES, SHELL, an_hour_ago, answer, step, trace
from tests.contract.stores import StoreFactory, eventually, known
from trustfold_schemas.errors import TrustfoldError
from trustfold_schemas.subject import Subject
from trustfold_streams.trust_store import TrustStore


async def samples(store: TrustStore, subject: Subject) -> int:
    """How many samples a subject has."""
    score = await store.get(subject)
    return 0 if score is None else score.n_samples


async def test_a_rollback_goes_back_to_a_moment_and_lifting_it_undoes_it(
    store_factory: StoreFactory,
) -> None:
    """The subject is as it was then, bit for bit; others stay; lifted, it is as it was before."""
    async with store_factory() as world, world.open() as store:
        for number in range(2):
            await store.bulk_update_from_trace(trace(f"t{number}", step("a"), step("b", SHELL)))
        await eventually(lambda: samples(store, NOTES), lambda count: count == 2)
        early = await world.digests()
        moment = await world.between()
        await store.bulk_update_from_trace(trace("t2", step("a"), step("b", SHELL)))
        await eventually(lambda: samples(store, SHELL), lambda count: count == 3)
        late = await world.digests()

        rollback_id = await store.rollback(NOTES, moment, "ann", "a broken sensor")
        await eventually(lambda: samples(store, NOTES), lambda count: count == 2)
        assert await world.digests() == {**late, NOTES: early[NOTES]}

        await store.lift(rollback_id, "ann", "it was right")
        await eventually(lambda: samples(store, NOTES), lambda count: count == 3)
        assert await world.digests() == late


async def test_evidence_after_a_rollback_counts(store_factory: StoreFactory) -> None:
    """Only what was recorded between the moment and the rollback does not count."""
    async with store_factory() as world, world.open() as store:
        moment = await world.between()
        await store.bulk_update_from_trace(trace("t1", step(status="error")))
        await eventually(lambda: samples(store, NOTES), lambda count: count == 1)
        await store.rollback(NOTES, moment)
        await eventually(lambda: samples(store, NOTES), lambda count: count == 0)
        await world.between()
        await store.bulk_update_from_trace(trace("t2"))
        score = await known(lambda: store.get(NOTES))
        assert (score.n_samples, score.tool_success) == (1, 1.0)


async def test_a_rollback_lifts_no_brake(store_factory: StoreFactory) -> None:
    """A denial that was recorded since the moment still suspends promotion."""
    async with store_factory() as world, world.open() as store:
        await store.bulk_update_from_trace(trace("t1"), an_hour_ago(world))
        await eventually(lambda: samples(store, NOTES), lambda count: count == 1)
        moment = await world.between()
        await store.record_approval_outcome("t1", answer("denied"), an_hour_ago(world, 1))
        await eventually(
            lambda: store.get(NOTES), lambda seen: seen is not None and seen.last_bad_at is not None
        )
        await store.rollback(NOTES, moment)
        score = await eventually(
            lambda: store.get(NOTES),
            lambda seen: seen is not None and seen.human_approval_rate == 0.5,
        )
        assert score is not None
        assert score.last_bad_at == an_hour_ago(world, 1)


async def test_an_unknown_rollback_cannot_be_lifted(store_factory: StoreFactory) -> None:
    """There is nothing of this name, and the caller is told."""
    async with store_factory() as world, world.open() as store:
        with pytest.raises(TrustfoldError, match="r99"):
            await store.lift("r99")


async def test_an_excluded_trace_does_not_count_until_it_is_included(
    store_factory: StoreFactory,
) -> None:
    """Its evidence leaves every score and comes back; the brake it set stays."""
    async with store_factory() as world, world.open() as store:
        await store.bulk_update_from_trace(trace("t1"), an_hour_ago(world))
        await store.bulk_update_from_trace(trace("t2", step("a", SHELL)), an_hour_ago(world))
        await eventually(lambda: samples(store, NOTES), lambda count: count == 1)
        await eventually(lambda: samples(store, SHELL), lambda count: count == 1)
        await eventually(lambda: samples(store, DONE), lambda count: count == 2)
        before = {**await store.snapshot()}

        await store.exclude("t1", "ann", "a rehearsal")
        await eventually(lambda: samples(store, NOTES), lambda count: count == 0)
        await eventually(lambda: samples(store, DONE), lambda count: count == 1)
        assert await samples(store, SHELL) == 1

        await world.between()
        await store.include("t1", "ann", "no rehearsal")
        await eventually(lambda: samples(store, DONE), lambda count: count == 2)
        score = await known(lambda: store.get(NOTES))
        assert score.raw_score == before[NOTES].raw_score
        assert score.last_bad_at is not None
