"""States that went through bytes go on as if they had not: what a store may keep and restore."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.runs import Run, run
from tests.oracles.histories import Draft, told, wild_histories
from trustfold_projections.laws.correlation.packed import (
    pack_key,
    pack_state,
    unpack_key,
    unpack_state,
)
from trustfold_schemas.scores import content_digest


@given(wild_histories(), st.data())
def test_a_restored_state_goes_on_like_the_first(history: list[Draft], data: st.DataObject) -> None:
    """Packing and unpacking every state between any two facts changes no digest and no refusal."""
    facts = told(history)
    cut = data.draw(st.integers(0, len(facts)))
    expected = run(facts)
    made = Run()
    for position, fact in enumerate(facts):
        if position == cut:
            made.keys = {
                unpack_key(pack_key(key)): unpack_state(key, pack_state(state))
                for key, state in made.keys.items()
            }
        made.take(fact)
    assert made.reasons == expected.reasons
    assert {s: content_digest(x) for s, x in made.states.items()} == {
        s: content_digest(x) for s, x in expected.states.items()
    }
