"""The topic of dead letters as a list: what is one letter, and which of them were replayed."""

from __future__ import annotations

from itertools import count

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.facts import Stamp
from trustfold_streams.kafka.dead_letters import KeptLetter, gathered
from trustfold_streams.kafka.records import (
    Letter,
    Output,
    Replayed,
    letter_output,
    replayed_output,
)
from trustfold_streams.kafka.stage import Record

PARTITIONS = 3
TOPIC = "dead-letters"


def letter(
    body: bytes = b"{}", origin: str = "step/0/7", reason: Reason = Reason.INVALID, **more: object
) -> Output:
    """A dead letter as its record."""
    headers = tuple((name, str(value).encode()) for name, value in more.items())
    return letter_output(
        TOPIC,
        1,
        Letter(
            reason=reason,
            detail=f"of {origin}",
            origin=origin,
            stamp=Stamp("runtime"),
            body=body,
            headers=headers,
        ),
    )


def mark(number: int, origin: str = "step/0/9") -> Output:
    """The mark that a letter was replayed."""
    return replayed_output(TOPIC, 1, Replayed(letter=number, event_id="e1", origin=origin))


def listed(*outputs: Output) -> list[KeptLetter]:
    """The letters of a partition that holds these records, a millisecond apart."""
    offsets = count(5)
    return gathered(
        [
            Record(one.topic, one.partition, at, at, one.key, one.value, one.headers)
            for one, at in zip(outputs, offsets, strict=False)
        ],
        PARTITIONS,
    )


def test_a_letter_is_numbered_by_its_place() -> None:
    """Offset times partitions plus partition: no two records of the topic have the same."""
    (found,) = listed(letter())
    assert found.number == 5 * PARTITIONS + 1


def test_what_ingest_repeated_is_one_letter_told_once() -> None:
    """The same origin twice is one refusal; it is at-least-once."""
    (found,) = listed(letter(), letter())
    assert (found.number, len(found.origins)) == (16, 1)
    assert (found.first_recorded, found.last_recorded) == (5_000, 6_000)


def test_the_same_bytes_again_are_the_same_letter() -> None:
    """From another place it was refused a second time: counted, with the last place."""
    (found,) = listed(letter(), letter(origin="step/1/3"))
    stored = found.stored()
    assert (stored.dead_letter_id, stored.times, stored.origin) == (16, 2, "step/1/3")
    assert stored.detail == "of step/1/3"


def test_another_reason_or_other_bytes_are_another_letter() -> None:
    """As in every store."""
    assert len(listed(letter(), letter(b"[]"), letter(reason=Reason.MALFORMED))) == 3


def test_binary_events_with_the_same_data_are_different_letters() -> None:
    """What is compared is the whole document, put together from headers and data."""
    one, other = (letter(b"{}", ce_specversion="1.0", ce_id=name) for name in ("a", "b"))
    found = listed(one, other)
    assert [b'"id":"a"' in found[0].body, b'"id":"b"' in found[1].body] == [True, True]


def test_a_mark_says_that_a_letter_was_replayed() -> None:
    """When, and under which id; other letters stay as they are."""
    first, second = listed(letter(), letter(b"[]"), mark(16))
    assert (first.replayed, first.replayed_as) == (7_000, "e1")
    assert second.replayed is None


def test_a_mark_is_void_if_what_was_sent_was_refused_again() -> None:
    """Before or after the mark, with the same bytes or with repaired ones."""
    for again in (letter(origin="step/0/9"), letter(b"[1]", origin="step/0/9")):
        assert listed(letter(), mark(16), again)[0].replayed is None
        assert listed(letter(), again, mark(16))[0].replayed is None


def test_a_mark_of_a_letter_that_is_gone_is_harmless() -> None:
    """The topic is kept for a time; a mark may outlive its letter."""
    (found,) = listed(letter(), mark(1))
    assert found.replayed is None
