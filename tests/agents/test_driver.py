"""What of a fetch is handed on to Faust, and what it must not lose by that."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from trustfold_streams.agents.driver import keys_that_begin_with, last_of_each_key


class Fetched(NamedTuple):
    """What is looked at of a record."""

    offset: int
    key: bytes | None


fetches = st.lists(
    st.sampled_from([b"self-play a", b"self-play b", b"trace t", b"\0pos", None]), max_size=12
).flatmap(
    lambda keys: st.integers(0, 5).map(
        lambda first: [Fetched(first + n, key) for n, key in enumerate(keys)]
    )
)


def offsets(records: Any) -> list[int]:
    """The offsets of records."""
    return [one.offset for one in records]


@given(fetches)
def test_every_wanted_record_is_handed_on(fetch: Any) -> None:
    """None with the wanted prefix is left out, and all stay in order."""
    handed = keys_that_begin_with(b"self-play ")(fetch)
    wanted = [one.offset for one in fetch if one.key and one.key.startswith(b"self-play ")]
    assert set(wanted) <= set(offsets(handed))
    assert offsets(handed) == sorted(offsets(handed))


@given(fetches)
def test_of_each_key_the_last_record_is_handed_on(fetch: Any) -> None:
    """The newest value of every key is seen; a worker's own rows are not wanted."""
    handed = last_of_each_key(fetch)
    last = {one.key: one.offset for one in fetch if one.key and not one.key.startswith(b"\0")}
    assert set(last.values()) <= set(offsets(handed))


@given(fetches)
def test_the_end_of_a_fetch_is_handed_on(fetch: Any) -> None:
    """Whatever is left out, the last record is there, so that its acknowledgement covers it."""
    for thin in (keys_that_begin_with(b"self-play "), last_of_each_key):
        assert offsets(thin(fetch))[-1:] == offsets(fetch)[-1:]


@given(fetches)
def test_there_is_no_gap_behind_the_first_offset(fetch: Any) -> None:
    """Faust never closes a gap behind offset 0: offset 1 is handed on with it."""
    for thin in (keys_that_begin_with(b"self-play "), last_of_each_key):
        assert {one for one in offsets(fetch) if one < 2} <= set(offsets(thin(fetch)))
