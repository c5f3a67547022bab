"""Standings: through bytes or not, the verdict on a subject is the same to the last bit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.policies import ASKED, NOTES, NOW, Rules, enforcing, perfect
from trustfold_projections.laws.policy import decide
from trustfold_projections.laws.policy.standing import (
    pack_standing,
    standing_of,
    unpack_standing,
)
from trustfold_projections.laws.time_weights import ZERO
from trustfold_schemas.amounts import PPM
from trustfold_schemas.instants import DAY
from trustfold_schemas.scores import State, content_digest

moments = st.none() | st.integers(ZERO, NOW)
weights = st.tuples(st.integers(0, 2**80), st.integers(0, 120)).map(lambda two: two[0] << two[1])
shares = st.tuples(*[st.integers(0, PPM)] * 5)


@st.composite
def states(draw: st.DrawFn) -> State:
    """Any sums within their ranges, and any moments."""
    den = draw(st.lists(weights, min_size=5, max_size=5))
    return State(
        subject=NOTES,
        num=[weight * share for weight, share in zip(den, draw(shares), strict=True)],
        den=den,
        n_samples=draw(st.integers(0, 2**53)),
        last_updated=draw(moments),
        last_bad_at=draw(moments),
        last_grant_at=draw(moments),
        version=draw(st.integers(0, 2**53)),
    )


def packed(state: State) -> bytes:
    """A state's standing as bytes."""
    return pack_standing(state, bytes.fromhex(content_digest(state)))


@given(states())
def test_a_standing_comes_out_of_bytes_as_it_went_in(state: State) -> None:
    """All that a decision rests on, whatever the sums, and every sum."""
    made, restored = (
        standing_of(state, content_digest(state)),
        unpack_standing(packed(state)),
    )
    assert replace(restored, sums=b"") == replace(made, sums=b"")
    assert [list(some) for some in restored.all_sums] == [state.num, state.den]


@given(states(), st.integers(0, PPM), st.integers(0, 2**40), st.integers(0, 40 * DAY))
def test_a_packed_standing_gets_the_verdict_of_its_state(
    state: State, score: int, many: int, later: int
) -> None:
    """Every ground, reason and word; also where the score is too near for floats."""
    rules, now = enforcing(), NOW + later
    standing = unpack_standing(packed(state))
    rules.threshold("*", "reversible", min_score=score / PPM, min_samples=many, min_grants=many)
    nearest = round(decide(state, rules.policy, ASKED, now).score * PPM) / PPM
    rules.threshold("fs_*", "reversible", min_score=nearest)
    assert decide(standing, rules.policy, ASKED, now) == decide(state, rules.policy, ASKED, now)


def test_a_young_subject_takes_little_room() -> None:
    """The zero bits that every weight of an era ends in are not kept."""
    assert len(packed(perfect(traces=1))) < 220


def test_a_policy_that_remembers_all_it_can_answers_as_before() -> None:
    """More effects, scopes and tools than are remembered: each still has its own ruling."""
    rules = Rules()
    rules.declare("fs_*", "reversible")
    rules.say("trust.revoked", "r1", scope="user1*", tool="*7", effect="*9*")
    for number in range(5_000):
        subject = NOTES._replace(scope=f"user{number}", tool=f"tool{number}", effect=f"fs_{number}")
        reasons = [
            reason.value
            for reason in decide(None, rules.policy, replace(ASKED, subject=subject), NOW).reasons
        ]
        text = str(number)
        named = text.startswith("1") and text.endswith("7") and "9" in text
        assert ("revoked" in reasons) == named
        assert "undeclared_effect" not in reasons
