"""The agent `synapse` by itself: what it counts, what it writes, and what repetition does to it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents.messages import SETTINGS, Bench, Message
from tests.embedded.documents import closed, event
from trustfold_projections.laws.correlation import log_key_of
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.instants import DAY
from trustfold_streams.agents.rows import BYTES
from trustfold_streams.agents.synapse import KEY, SynapseAgent, SynapseRecord
from trustfold_streams.kafka.records import partition_of

NOW = 1_780_012_800_000_000  # 2026-05-29
PLAY = {"critic": "judge", "verdict": "why", "critic_cost_usd": 0}


def bench(memory: int | None = 14 * DAY) -> Bench:
    """The agent on a bench."""
    return Bench(lambda table, send: SynapseAgent(SETTINGS, table, send, memory))


def played(
    offset: int, event_id: str, context: str = "c", winner: str = "a", loser: str = "b", **more: Any
) -> Message:
    """A self-play in the log of facts, a second after the one before it."""
    data = {**PLAY, "context": context, "winner": winner, "loser": loser, **more}
    return fact(event("selfplay.completed", event_id, data, NOW), offset)


def fact(document: bytes, offset: int) -> Message:
    """A record of the log of facts, keyed as ingest keys it."""
    key = log_key_of(decode_event(document)).encode()
    return Message("p.facts", 1, offset, NOW / 1e6 + offset, key, document)


def records(found: Bench) -> dict[str, SynapseRecord]:
    """The topic `synapse` after compaction."""
    last = {one.key: one.value for one in found.written}
    made = {key: msgspec.json.decode(one, type=SynapseRecord) for key, one in last.items()}
    assert {key.decode() for key in made} == {one.context for one in made.values()}
    return {one.context: one for one in made.values()}


def test_the_key_is_the_one_of_ingest() -> None:
    """Records are chosen by key before they are read: the prefix is what ingest writes."""
    key = played(0, "1").key
    assert key is not None
    assert key.startswith(KEY)
    assert {"key_type": bytes, "value_type": bytes} == BYTES


def test_a_self_play_is_written_for_any_language() -> None:
    """The record says context, weights by scope and neuron, plays and when; keyed by context."""
    found = bench()
    found.take(played(0, "1"), played(1, "2", scope="s"))
    key, value, partition = found.written[-1]
    assert (key, partition) == (b"c", partition_of("c", SETTINGS.partitions))
    assert msgspec.json.decode(value) == {
        "context": "c",
        "weights": {"": {"a": 550, "b": 475}, "s": {"a": 550, "b": 475}},
        "plays": 2,
        "recorded": "2026-05-29T00:00:01.000000Z",
    }


def test_other_facts_are_passed_over() -> None:
    """What is no self-play writes nothing and is counted as ignored."""
    found = bench()
    found.take(fact(closed("t1"), 0), Message("p.facts", 1, 1, 0.0, None, b"{}"))
    assert (found.written, found.agent.tally.ignored) == ([], 2)


@pytest.mark.parametrize("value", [b"", b"{", None, closed("t1")])
def test_a_poison_record_is_counted_and_the_next_one_is_taken(value: bytes | None) -> None:
    """Whatever stands under the key of a self-play, the one behind it counts."""
    found = bench()
    found.take(played(0, "1")._replace(value=value), played(1, "2"))
    assert (found.agent.tally.poison, found.agent.tally.counted) == (1, 1)
    assert records(found)["c"].plays == 1


def test_a_repeated_event_id_has_no_effect() -> None:
    """The same event at another offset, as a publisher repeats it, writes nothing at all."""
    found = bench()
    found.take(played(0, "1"), played(1, "1"), played(2, "1", winner="b", loser="a"))
    assert len(found.written) == 1
    assert found.agent.tally.repeated == 2


def test_an_event_outside_the_memory_moves_nothing() -> None:
    """What correlation refuses as too old is not counted; a worker open for history counts it."""
    old = played(0, "1")._replace(timestamp=NOW / 1e6 + 15 * 86_400)
    for found, plays in ((bench(), 0), (bench(None), 1)):
        found.take(old)
        assert found.agent.tally.counted == plays


def test_a_record_read_again_moves_nothing_and_is_written_again() -> None:
    """After an end between row and acknowledgement the weights stay, and the record is sure."""
    found = bench()
    found.take(played(0, "1"), played(1, "2"))
    before, found.written[1:] = found.written[1], []  # the second record was lost on its way
    found.restart()
    found.take(played(0, "1"), played(1, "2"))
    assert found.written[-1] == before
    assert records(found)["c"].plays == 2
    assert found.agent.tally.repeated == 2


def test_a_row_that_was_not_durable_is_made_again() -> None:
    """If the row was lost, the record that is read again gives the same row and record."""
    found, undisturbed = bench(), bench()
    undisturbed.take(played(0, "1"))
    found.table.lost = True
    found.take(played(0, "1"))
    found.table.lost = False
    found.restart()
    found.take(played(0, "1"))
    assert found.table.rows == undisturbed.table.rows
    assert set(found.written) == set(undisturbed.written)


steps = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from("xy"), st.sampled_from(["ab", "ba", "bc"])),
    min_size=1,
    max_size=25,
)


@given(steps, st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=4))
def test_any_restarts_give_the_weights_of_the_undisturbed_run(
    told: list[tuple[int, str, str]], restarts: list[tuple[int, int]]
) -> None:
    """However often it restarts, and however far it goes back then, the topic ends the same."""
    log = [
        played(offset, str(event_id), context, pair[0], pair[1])
        for offset, (event_id, context, pair) in enumerate(told)
    ]
    undisturbed, found = bench(), bench()
    undisturbed.take(*log)
    reached = 0
    for until, back in restarts:
        found.take(*log[reached:until])
        reached = min(max(reached, until), len(log))
        reached = max(0, reached - back)
        found.restart()
    found.take(*log[reached:])
    assert records(found) == records(undisturbed)
    assert found.table.rows == undisturbed.table.rows
