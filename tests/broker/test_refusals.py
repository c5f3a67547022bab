"""What may not count is a dead letter with its bytes, and stops nothing that comes after it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from tests.broker.loads import START
from tests.broker.pipeline import (
    SUBJECT,
    Headers,
    Raw,
    close,
    create,
    digests_in,
    foreseen,
    letters,
    publish,
    settings_for,
    story,
    table,
    working,
    write,
)
from tests.broker.processes import until
from tests.broker.running import Running
from tests.embedded.documents import decided, event, median
from tests.embedded.test_thresholds import threshold
from tests.kafka.odd_names import Name, careless_clients
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.decoding import EVENT_BYTES_MAX
from trustfold_schemas.instants import DAY, format_instant
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka.records import Letter
from trustfold_streams.kafka.settings import InputTopic, KafkaSettings

pytestmark = pytest.mark.broker


@pytest.fixture
def settings(broker: Running, prefix: str) -> KafkaSettings:
    """A pipeline that nobody else uses."""
    return settings_for(broker.bootstrap, prefix)


def binary(document: bytes, **changed: bytes | None) -> tuple[bytes, Headers]:
    """An event in the binary mode of CloudEvents: its data, and its attributes as headers."""
    attributes: dict[str, Any] = msgspec.json.decode(document)
    data = msgspec.json.encode(attributes.pop("data"))
    headers: dict[str, Any] = {f"ce_{name}": text.encode() for name, text in attributes.items()}
    headers |= {"content-type": b"application/json"} | changed
    return data, list(headers.items())


class Poison(NamedTuple):
    """A record that may not count, and why not."""

    name: str
    reason: Reason
    value: bytes | None
    headers: Headers = ()


GOOD = close("poisoned")
BINARY, ATTRIBUTES = binary(GOOD)
POISONS = (
    Poison("no JSON", Reason.MALFORMED, b"\x00\xff\xfe not JSON"),
    Poison("empty", Reason.MALFORMED, b""),
    Poison("null", Reason.MALFORMED, None),
    Poison("cut off", Reason.MALFORMED, GOOD[:-1]),
    Poison("a list", Reason.INVALID, b"[]"),
    Poison("a key twice", Reason.MALFORMED, GOOD[:-1] + b',"id":"another"}'),
    Poison("a lone surrogate", Reason.MALFORMED, GOOD.replace(b"completed", b"\\ud800")),
    Poison("bytes that are no UTF-8", Reason.MALFORMED, GOOD.replace(b"completed", b"\xc3\x28")),
    Poison("not a number", Reason.MALFORMED, GOOD.replace(b"0.004", b"NaN")),
    Poison("too deep", Reason.MALFORMED, b"[" * 100_000),
    Poison("unknown type", Reason.UNKNOWN_TYPE, GOOD.replace(b"closed.v1", b"closed.v9")),
    Poison("no zone", Reason.INVALID, GOOD.replace(b'Z"', b'"')),
    Poison("an ill-typed field", Reason.INVALID, GOOD.replace(b'"completed"', b"7")),
    Poison("too large", Reason.TOO_LARGE, GOOD[:-1] + b',"x":"%b"}' % (b"x" * EVENT_BYTES_MAX)),
    Poison("our own headers", Reason.MALFORMED, b"{", [("tf-role", b"human"), ("tf-reason", b"?")]),
    Poison("no id", Reason.INVALID, BINARY, [one for one in ATTRIBUTES if one[0] != "ce_id"]),
    Poison("another version", Reason.INVALID, *binary(GOOD, ce_specversion=b"0.3")),
    Poison("data that are no JSON", Reason.MALFORMED, b"\xff", ATTRIBUTES),
    Poison("no data", Reason.INVALID, None, ATTRIBUTES),
    Poison("a type that is no UTF-8", Reason.UNKNOWN_TYPE, *binary(GOOD, ce_type=b"\xff")),
    Poison("a header without value", Reason.INVALID, *binary(GOOD, ce_id=None)),
    Poison("no version at all", Reason.INVALID, *binary(GOOD, ce_specversion=None)),
)  # fmt: skip


@story
async def test_a_poison_record_stops_nothing(settings: KafkaSettings) -> None:
    """Each kind is a dead letter with its bytes and headers; the record after it is processed."""
    records: list[Raw] = []
    for number, poison in enumerate(POISONS):
        records.append(Raw("trace-closed", poison.value, b"k", poison.headers, 0))
        records.append(Raw("trace-closed", close(f"after-{number}"), b"k", (), 0))
    await create(settings)
    async with working(settings):
        await write(settings, records)
        found = await table(settings)
    assert found == digests_in(foreseen(close(f"after-{n}") for n in range(len(POISONS))))
    told = {
        int(one.letter.origin.rpartition("/")[2]): one.letter for one in await letters(settings)
    }
    for number, poison in enumerate(POISONS):
        letter = told.pop(2 * number, None)
        assert letter is not None, poison.name
        assert (poison.name, letter.reason) == (poison.name, poison.reason), letter.detail
        assert letter.body == (poison.value or b"")
        assert letter.stamp.role == "runtime"
        kept = [one for one in poison.headers if not one[0].startswith("tf-")]
        assert list(letter.headers) == kept
    assert told == {}


@story
async def test_a_header_whose_name_is_no_text_stops_nobody(settings: KafkaSettings) -> None:
    """On every topic of publishers it is a dead letter with its bytes; the next one is taken."""
    odd: Headers = [("fine", b"1"), (Name(b"\xff\xfe\\"), b"2")]
    topics: tuple[InputTopic, ...] = ("trace-closed", "cost-median", "policy")
    records = [Raw(topic, close(f"odd-{topic}"), b"k", odd, 0) for topic in topics]
    await create(settings)
    with careless_clients():
        await write(settings, records)
    async with working(settings):
        await publish(settings, [median(SUBJECT.effect), close("after")])
        assert await table(settings) == digests_in(
            foreseen([median(SUBJECT.effect), close("after")])
        )
        told = await eventually_letters(settings, 3)
    for topic in topics:
        letter = told[settings.topic(topic), 0]
        assert (letter.reason, letter.body) == (Reason.MALFORMED, close(f"odd-{topic}"))
        assert "b'\\xff\\xfe" in letter.detail
        assert list(letter.headers) == [("fine", b"1"), ("\\xff\\xfe\\", b"2")]


@story
async def test_what_the_logs_of_their_own_refuse_is_told_once(settings: KafkaSettings) -> None:
    """On `cost-median` and `policy`: one letter each, over restarts and with two workers."""
    first = median(SUBJECT.effect)
    again = first.replace(b'"median/', b'"again/').replace(b"0.02", b"0.03")
    conflict = first.replace(b"0.02", b"0.04")
    set_one = threshold("a", 0.7, 0)
    stale = threshold("b", 0.8, 0)
    good: list[tuple[InputTopic, bytes]] = [("cost-median", first), ("policy", set_one)]
    bad: list[tuple[InputTopic, bytes, Reason]] = [
        ("cost-median", b"{", Reason.MALFORMED),
        ("cost-median", again, Reason.ALREADY_SET),
        ("cost-median", conflict, Reason.CONFLICT),
        ("cost-median", close("elsewhere"), Reason.NOT_PERMITTED),
        ("cost-median", set_one, Reason.NOT_PERMITTED),
        ("policy", b"[]", Reason.INVALID),
        ("policy", stale, Reason.STALE_VERSION),
    ]
    records = [Raw(topic, body) for topic, body in good]
    records += [Raw(topic, body) for topic, body, _ in bad]
    await create(settings)
    async with working(settings) as worker:
        await write(settings, records[:5])
        await eventually_letters(settings, 3)
        assert worker.apart is not None
        assert sum(worker.apart.refused.values()) == 3
    async with working(settings) as one, working(settings) as two:
        await write(settings, records[5:])
        told = await eventually_letters(settings, len(bad))
        assert one.apart is not None
        assert two.apart is not None
        assert sum((one.apart.refused + two.apart.refused).values()) == len(bad) - 3
        await publish(settings, [close("t")])
        assert await table(settings) == digests_in(foreseen([first, close("t")]))
    assert sorted((letter.body, letter.reason) for letter in told.values()) == sorted(
        (body, reason) for _, body, reason in bad
    )
    assert len(await letters(settings)) == len(bad)


async def eventually_letters(settings: KafkaSettings, count: int) -> dict[tuple[str, int], Letter]:
    """Wait for so many dead letters; they by topic and offset of what was refused."""
    found: dict[tuple[str, int], Letter] = {}

    async def look() -> str | None:
        for one in await letters(settings):
            topic, _, offset = one.letter.origin.split("/")
            found[topic, int(offset)] = one.letter
        return None if len(found) >= count else f"{found}"

    await until(f"{count} dead letters are written", look, 30.0)
    return found


@story
async def test_a_repaired_dead_letter_counts(settings: KafkaSettings) -> None:
    """Its bytes repaired and published under a new id give the table that was meant."""
    broken = close("broken").replace(b'"cost_usd": 0.004', b'"cost_usd": -0.004')
    await create(settings)
    async with working(settings):
        await write(settings, [Raw("trace-closed", broken), Raw("trace-closed", close("other"))])
        assert await table(settings) == digests_in(foreseen([close("other")]))
        [one] = await letters(settings)
        assert (one.letter.reason, one.letter.body) == (Reason.INVALID, broken)
        repaired = one.letter.body.replace(b"-0.004", b"0.004")
        repaired = repaired.replace(b"close/broken", b"repaired/close/broken")
        await publish(settings, [repaired])
        assert await table(settings) == digests_in(foreseen([close("other"), repaired]))
        assert len(await letters(settings)) == 1


@story
async def test_both_modes_of_cloudevents_are_one(settings: KafkaSettings) -> None:
    """An event in binary mode counts as its structured twin does, and beside it only once."""
    await create(settings)
    documents = [close(f"t{n}", minute=n) for n in range(4)]
    records = [
        Raw("trace-closed", *(value, None, headers)) for value, headers in map(binary, documents)
    ]
    async with working(settings):
        await write(settings, records)
        await publish(settings, documents[:2])
        assert await table(settings) == digests_in(foreseen(documents))
    assert await letters(settings) == []


@story
async def test_a_topic_is_a_role(settings: KafkaSettings) -> None:
    """What the role of its topic may not say is a dead letter, whatever the data claim."""
    trace, granted = close("t"), decided("t")
    synthetic = {"trace_id": "s", "subject": ["", "a", "b"], "tool_success": 1}
    signals = event("signals.reported", "s", synthetic, START)
    by_rule = granted.replace(b'"human"', b'"rule"').replace(b"granted/t", b"rule/t")
    wrong: list[tuple[InputTopic, bytes, Reason]] = [
        ("step", granted, Reason.NOT_HUMAN),
        ("trace-closed", granted, Reason.NOT_HUMAN),
        ("signals", granted, Reason.NOT_HUMAN),
        ("approval", trace, Reason.NOT_PERMITTED),
        ("signals", trace, Reason.NOT_PERMITTED),
        ("exclusion", by_rule, Reason.NOT_PERMITTED),
        ("trace-closed", signals, Reason.NOT_PERMITTED),
        ("undo", signals, Reason.NOT_PERMITTED),
        # Of the right role; but nobody looks for it there, and not everybody would have it.
        ("signals", median(SUBJECT.effect), Reason.NOT_PERMITTED),
    ]
    await create(settings)
    async with working(settings):
        await write(settings, [Raw(topic, document) for topic, document, _ in wrong])
        await publish(settings, [trace, by_rule])
        assert await table(settings) == digests_in(foreseen([trace, by_rule]))
        told = {
            (one.letter.origin.split("/")[0], one.letter.body, one.letter.reason)
            for one in await letters(settings)
        }
        assert told == {(settings.topic(topic), body, reason) for topic, body, reason in wrong}
        await publish(settings, [granted])
        assert await table(settings) == digests_in(foreseen([trace, by_rule, granted]))


@story
async def test_what_only_the_log_can_judge(settings: KafkaSettings) -> None:
    """Conflicts, second closes, the far future and what is older than the memory: dead letters."""
    now = SystemClock().now()

    def at(moment: int, name: str) -> bytes:
        old = format_instant(START).encode()
        assert old in close(name)
        return close(name).replace(old, format_instant(moment).encode())

    good = at(now - DAY, "good")
    bad = {
        at(now + DAY, "future"): Reason.FUTURE,
        at(now - 30 * DAY, "old"): Reason.TOO_OLD,
        good.replace(b"0.004", b"0.005"): Reason.CONFLICT,
        good.replace(b"close/good", b"close/again"): Reason.ALREADY_CLOSED,
    }
    await create(settings)
    async with working(settings, history=False):
        await publish(settings, [good])
        expected = await table(settings)
        assert expected == digests_in(foreseen([good]))
        await publish(settings, bad)
        assert await table(settings) == expected
        told = {one.letter.body: one.letter.reason for one in await letters(settings)}
        assert told == bad
