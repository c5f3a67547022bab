"""Every store comes to the digests of the pure law, whatever arrives in whatever order."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.stores import StoreFactory, eventually
from tests.embedded.feeding import by_one_owner
from tests.laws.runs import run
from tests.oracles.histories import Draft, rearranged, tame_histories, told
from trustfold_schemas.scores import content_digest
from trustfold_schemas.subject import Subject

EXAMPLES = {"embedded": 15, "kafka": 4}
"""Each example makes a store of its own; a pipeline takes seconds."""


@pytest.fixture
def examples(request: pytest.FixtureRequest) -> int:
    """How many a test of one kind of store tries."""
    return EXAMPLES[request.node.callspec.params["store_factory"]]


def by_the_law(history: list[Draft]) -> dict[Subject, str]:
    """What the laws alone make of a history."""
    states = run(told(by_one_owner(history))).states
    return {subject: content_digest(state) for subject, state in states.items()}


def documents(history: list[Draft]) -> list[bytes]:
    """The documents of a history."""
    return [msgspec.json.encode(event) for *_, event in history]


def test_a_store_comes_to_the_digests_of_the_law(
    store_factory: StoreFactory, examples: int
) -> None:
    """A history without exclusive facts, ingested as raw documents, gives the law's digests."""

    @settings(max_examples=examples)
    @given(history=tame_histories())
    def holds(history: list[Draft]) -> None:
        asyncio.run(comes_to(store_factory, [history], history))

    holds()


def test_order_repetition_and_batches_leave_no_mark(
    store_factory: StoreFactory, examples: int
) -> None:
    """The same history told otherwise, in pieces and with repetitions, gives the same digests."""

    @settings(max_examples=examples)
    @given(history=tame_histories(), data=st.data())
    def holds(history: list[Draft], data: st.DataObject) -> None:
        other = data.draw(rearranged(history))
        cut = data.draw(st.integers(0, len(other)))
        asyncio.run(comes_to(store_factory, [other[:cut], other[cut:]], history))

    holds()


async def comes_to(
    store_factory: StoreFactory, pieces: list[list[Draft]], history: list[Draft]
) -> None:
    """Ingested in these pieces, a store comes to what the law makes of the history."""
    async with store_factory() as world:
        for some in pieces:
            await world.ingest(documents(some))
        expected = by_the_law(history)
        await eventually(world.digests, lambda seen: seen == expected)
