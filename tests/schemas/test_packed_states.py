"""Packed states: what comes out is what went in, whatever the sums."""

from operator import lshift

from hypothesis import given
from hypothesis import strategies as st

from trustfold_schemas.packed_states import pack_state, unpack_state
from trustfold_schemas.scores import State, content_digest
from trustfold_schemas.subject import Subject

SUBJECT = Subject("", "fs_write", "fs_write:~/notes/*")
moments = st.none() | st.integers(0, 2**53)
sums = st.builds(lshift, st.integers(0, 2**80), st.integers(0, 120))


@given(
    st.lists(sums, min_size=12, max_size=12),
    st.integers(0, 2**53),
    st.integers(0, 2**53),
    st.tuples(moments, moments, moments),
)
def test_a_state_comes_out_as_it_went_in(
    numbers: list[int],
    samples: int,
    version: int,
    said: tuple[int | None, int | None, int | None],
) -> None:
    """All that a decision rests on, and the digest beside it."""
    state = State(
        subject=SUBJECT,
        num=numbers[:5],
        den=numbers[5:10],
        n_samples=samples,
        self_play_num=numbers[10],
        self_play_den=numbers[11],
        last_updated=said[0],
        last_bad_at=said[1],
        last_grant_at=said[2],
        version=version,
    )
    digest = content_digest(state)
    assert unpack_state(pack_state(state, bytes.fromhex(digest)), SUBJECT) == (state, digest)


def test_a_young_subject_takes_little_room() -> None:
    """The zero bits that every weight of an era ends in are not kept."""
    weight = (2**30 + 12345) << 80
    state = State(subject=SUBJECT, num=[weight * 10**6] * 5, den=[weight] * 5, n_samples=1)
    assert len(pack_state(state, bytes(32))) < 190
