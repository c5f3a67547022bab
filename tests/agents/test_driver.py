"""What of a fetch is handed on to Faust, and what it must not lose by that."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from aiokafka import TopicPartition
from faust.transport.drivers import aiokafka as driver
from hypothesis import given
from hypothesis import strategies as st

from trustfold_streams.agents.driver import (
    Consumer,
    Handover,
    _ConsumerThread,
    keys_that_begin_with,
    where_each_key_changes,
)


class Fetched(NamedTuple):
    """What is looked at of a record."""

    offset: int
    key: bytes | None
    value: bytes | None = b""


changing = where_each_key_changes(lambda value: value)


keys = st.sampled_from([b"self-play a", b"self-play b", b"trace t", b"\0pos", None])
fetches = st.lists(st.tuples(keys, st.sampled_from([b"x", b"y"])), max_size=12).flatmap(
    lambda rows: st.integers(0, 5).map(
        lambda first: [Fetched(first + n, *row) for n, row in enumerate(rows)]
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
    handed = changing(fetch)
    last = {one.key: one.offset for one in fetch if one.key and not one.key.startswith(b"\0")}
    assert set(last.values()) <= set(offsets(handed))


@given(fetches)
def test_every_change_of_a_key_is_handed_on(fetch: Any) -> None:
    """What is handed on tells the same story of a key, without its repetitions."""

    def story(records: Any, key: bytes) -> list[bytes | None]:
        values = [one.value for one in records if one.key == key]
        return [one for n, one in enumerate(values) if n == 0 or one != values[n - 1]]

    handed = changing(fetch)
    for key in {one.key for one in fetch if one.key and not one.key.startswith(b"\0")}:
        assert story(handed, key) == story(fetch, key)


@given(fetches)
def test_the_end_of_a_fetch_is_handed_on(fetch: Any) -> None:
    """Whatever is left out, the last record is there, so that its acknowledgement covers it."""
    for thin in (keys_that_begin_with(b"self-play "), changing):
        assert offsets(thin(fetch))[-1:] == offsets(fetch)[-1:]


@given(fetches)
def test_there_is_no_gap_behind_the_first_offset(fetch: Any) -> None:
    """Faust never closes a gap behind offset 0: offset 1 is handed on with it."""
    for thin in (keys_that_begin_with(b"self-play "), changing):
        assert {one for one in offsets(fetch) if one < 2} <= set(offsets(thin(fetch)))


# ---- handing over ------------------------------------------------------------------------------


def test_what_comes_out_as_it_went_in_is_fine() -> None:
    """Gaps that the log or the thinning left, and partitions side by side, are no loss."""
    handover = Handover()
    for offset in (0, 1, 7, 9):
        handover.hand("facts", 0, offset)
        handover.hand("facts", 1, offset + 1)
    for offset in (0, 1, 7, 9):
        handover.take("facts", 0, offset)
        handover.take("facts", 1, offset + 1)


def test_a_record_that_does_not_come_out_is_found() -> None:
    """The next one of its partition tells; one of another partition does not."""
    handover = Handover()
    for offset in (3, 4):
        handover.hand("facts", 0, offset)
        handover.hand("facts", 1, offset)
    handover.take("facts", 1, 3)
    with pytest.raises(RuntimeError, match="facts/0: offset 3 "):
        handover.take("facts", 0, 4)


def test_a_seek_begins_anew() -> None:
    """What a rebalance swept out of the queues comes again, and is no loss."""
    handover = Handover()
    for offset in (3, 4, 5):
        handover.hand("facts", 0, offset)
    handover.sought()
    handover.hand("facts", 0, 4)
    handover.take("facts", 0, 4)


def test_what_is_held_in_hand_is_told_with_its_age() -> None:
    """A record that is not taken, or whose outcome does not become durable, and an idle agent."""
    moment = [100.0]
    handover = Handover(lambda: moment[0])
    handover.hand("facts", 0, 3)
    moment[0] += 40
    assert handover.stuck_seconds() == {("facts", 0): 40}
    handover.take("facts", 0, 3)
    moment[0] += 50
    assert handover.stuck_seconds() == {("facts", 0): 50}
    handover.settle("facts", 0)
    moment[0] += 60
    assert handover.stuck_seconds() == {}
    handover.hand("facts", 0, 4)
    moment[0] += 1
    assert handover.stuck_seconds() == {("facts", 0): 1}
    handover.sought()
    assert handover.stuck_seconds() == {}
    assert handover.asked_seconds() == 151
    handover.ask()
    assert handover.asked_seconds() == 0


def test_a_record_that_is_handed_again_is_no_loss() -> None:
    """Faust drops what it read before; its offset is behind those that went in already."""
    handover = Handover()
    for offset in (3, 4, 3, 4, 5):
        handover.hand("facts", 0, offset)
    for offset in (3, 4, 5):
        handover.take("facts", 0, offset)


@pytest.fixture
def restoring(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Our consumer over a Faust that only keeps the set of active partitions."""
    consumer: Any = Consumer.__new__(Consumer)
    active: set[Any] = set()

    async def seek(_: Any) -> None:
        """Nothing to seek."""

    fakes: dict[str, Any] = {
        "pause_partitions": lambda _, tps: active.difference_update(tps),
        "resume_partitions": lambda _, tps: active.update(tps),
        "resume_flow": lambda _: None,
        "perform_seek": seek,
        "_is_changelog_tp": lambda _, place: place.topic.endswith("changelog"),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(driver.Consumer, name, fake)
    vars(consumer).update(
        _held=set(), _sought=False, active=active, reading=SimpleNamespace(handover=Handover())
    )
    return consumer


def test_sources_are_held_until_their_position_is_known(restoring: Any) -> None:
    """In the order in which Faust restores tables, no source is fetched before the seek's end.

    Faust empties the agents' queues right after it; what was fetched before would be lost.
    """
    changelog, source = TopicPartition("synapse-changelog", 0), TopicPartition("facts", 0)
    for _ in range(2):  # at the start, and again at a rebalance
        restoring.pause_partitions({changelog, source})
        restoring.resume_partitions({changelog})
        restoring.resume_flow()
        assert restoring.active == {changelog}
        restoring.pause_partitions({changelog})
        restoring.resume_partitions({source})
        assert restoring.active == set()
        asyncio.run(restoring.perform_seek())
        assert restoring.active == set()
        restoring.resume_flow()
        assert restoring.active == {source}


def test_a_rebalance_in_between_lets_nothing_through(restoring: Any) -> None:
    """Sources that were held are forgotten when a new assignment pauses them."""
    source = TopicPartition("facts", 0)
    restoring.resume_partitions({source})
    asyncio.run(restoring.perform_seek())
    restoring.pause_partitions({source})
    restoring.resume_flow()
    assert restoring.active == set()


def test_no_active_partition_is_none_and_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The set that Faust empties while a fetch waits changes nothing of that fetch."""
    asked: list[Any] = []

    async def fetch(_: Any, __: Any, active: Any, **___: Any) -> Any:
        active_partitions.clear()
        asked.append(set(active))
        return {}

    monkeypatch.setattr(driver.AIOKafkaConsumerThread, "_fetch_records", fetch)
    thread: Any = _ConsumerThread.__new__(_ConsumerThread)
    vars(thread)["consumer"] = Consumer.__new__(Consumer)
    vars(thread.consumer)["reading"] = SimpleNamespace(thinners={})
    active_partitions = {TopicPartition("facts", 0)}
    asyncio.run(thread._fetch_records(None, active_partitions, timeout=1.0))
    asyncio.run(thread._fetch_records(None, active_partitions, timeout=1.0))
    assert asked == [{TopicPartition("facts", 0)}]
