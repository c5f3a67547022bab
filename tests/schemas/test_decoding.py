"""Strict decoding: documents as a whole, as JSON, and their times and amounts (SPEC 2).

The limits of single fields are in `test_field_limits`, what an event says in `test_content`.
"""

import json
import sys

import pytest

from tests.schemas.examples import (
    EXAMPLES,
    LEAVE_OUT,
    STEP,
    SUBJECT,
    Path,
    changed,
    example,
    spelled,
    written,
)
from tests.schemas.refusals import Refusal, assert_accepted, assert_refused
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.decoding import EVENT_BYTES_MAX, EVENT_TYPES, NESTING_MAX, decode_event
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import NeuronSynthesizedEvent, TraceClosedEvent, type_of
from trustfold_schemas.instants import format_instant
from trustfold_schemas.policy_events import TrustRevokedEvent


@pytest.mark.parametrize("type_name", EVENT_TYPES)
def test_every_type_decodes_its_example(type_name: str) -> None:
    """The example of every type is accepted and becomes the struct of that type."""
    assert type_of(decode_event(written(EXAMPLES[type_name]))) == type_name


def refused_as_json(text: str, wanted: str, got: str, path: str = "$.data.new") -> object:
    """One case of `test_more_strict_than_json`."""
    return pytest.param(text, Refusal(Reason.MALFORMED, wanted, got, path), id=text[:24])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        refused_as_json('{"a":1,"a":1}', "Expected each key once", "`a` twice"),
        refused_as_json('{"a":1, "b":2,\n"a":1}', "Expected each key once", "`a` twice"),
        refused_as_json('{"a":1,"\\u0061":2}', "Expected each key once", "`a` twice"),
        refused_as_json('{"é":1,"\\u00e9":2}', "Expected each key once", "`é` twice"),
        refused_as_json('{"":1,"":2}', "Expected each key once", "`` twice"),
        refused_as_json(
            '[{"deep":[0,{"a":1,"a":1}]}]',
            "Expected each key once",
            "`a` twice",
            "$.data.new[0].deep[1]",
        ),
        refused_as_json("1e999", "Expected a finite number", "`1e999`"),
        refused_as_json("[-1e999]", "Expected a finite number", "`-1e999`", "$.data.new[0]"),
        refused_as_json("1e99999999999999999999", "Expected a finite number", "`1e99999"),
        refused_as_json("NaN", "Expected a finite number", "`NaN`"),
        refused_as_json("Infinity", "Expected a finite number", "`Infinity`"),
        refused_as_json("-Infinity", "Expected a finite number", "`-Infinity`"),
        refused_as_json('"\\ud800"', "Expected no lone surrogates", "`\\ud800`"),
        refused_as_json('"\\uDC00"', "Expected no lone surrogates", "`\\udc00`"),
        refused_as_json('"\\udc00\\ud800"', "Expected no lone surrogates", "`\\udc00\\ud800`"),
        refused_as_json('{"\\ud800":1}', "Expected no lone surrogates", "the key `\\ud800`"),
        refused_as_json("1" * 4301, "Expected an integer of at most 4300 digits", "`1111"),
    ],
)
def test_more_strict_than_json(text: str, said: Refusal) -> None:
    """What JSON readers disagree about is malformed, in fields that nobody reads too."""
    assert_refused(spelled("trace.closed", ("data", "new"), text), said)


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        (
            ("id",),
            '"e1","id":"e1"',
            Refusal(Reason.MALFORMED, "Expected each key once", "`id` twice", "$"),
        ),
        (
            ("data", "steps", 0, "tool"),
            '"shell","\\u0074ool":"shell"',
            Refusal(Reason.MALFORMED, "Expected each key once", "`tool` twice", "$.data.steps[0]"),
        ),
        (
            ("data", "cost_usd"),
            "1e400",
            Refusal(Reason.MALFORMED, "Expected a finite number", "`1e400`", "$.data.cost_usd"),
        ),
        (
            ("data", "trace_id"),
            '"\\ud83d"',
            Refusal(
                Reason.MALFORMED, "Expected no lone surrogates", "`\\ud83d`", "$.data.trace_id"
            ),
        ),
        (
            ("type",),
            '"trustfold.trace.closed.v1","type":"nonsense"',
            Refusal(Reason.MALFORMED, "Expected each key once", "`type` twice", "$"),
        ),
    ],
)
def test_more_strict_than_json_where_it_is_read(path: Path, text: str, said: Refusal) -> None:
    """The same holds for the fields that are read."""
    assert_refused(spelled("trace.closed", path, text), said)


PLAIN = written(example("trace.closed"))


@pytest.mark.parametrize(
    ("document", "place"),
    [
        pytest.param(b"", "line 1 column 1", id="empty"),
        pytest.param(b" \n", "line 2 column 1", id="white space"),
        pytest.param(PLAIN[:-1], "line 1 column", id="cut off"),
        pytest.param(PLAIN + b"x", "Extra data: line 1 column", id="trailing garbage"),
        pytest.param(PLAIN + b"\n" + PLAIN, "Extra data: line 2 column 1", id="two documents"),
        pytest.param(b"\xef\xbb\xbf" + PLAIN, "BOM", id="byte order mark"),
        pytest.param(PLAIN.decode().encode("utf-16"), "can't decode byte 0xff", id="UTF-16"),
        pytest.param(PLAIN.replace(b"laptop", b"l\xffp"), "can't decode byte 0xff", id="0xff"),
        pytest.param(
            PLAIN.replace(b"laptop", b"\xed\xa0\x80"), "can't decode byte 0xed", id="raw surrogate"
        ),
        pytest.param(
            PLAIN.replace(b"laptop", b"\xc0\xaf"), "can't decode byte 0xc0", id="overlong"
        ),
        pytest.param(PLAIN.replace(b"laptop", b"a\tb"), "control character", id="raw tab"),
        pytest.param(PLAIN.replace(b"laptop", b"\\x"), "escape", id="bad escape"),
        pytest.param(PLAIN.replace(b"0.0125", b"01"), "delimiter", id="leading zero"),
        pytest.param(PLAIN.replace(b"0.0125", b".5"), "Expecting value", id="no whole part"),
        pytest.param(PLAIN.replace(b'"laptop"', b"'laptop'"), "Expecting value", id="quotes"),
        pytest.param(PLAIN[:-1] + b",}", "double quotes", id="trailing comma"),
        pytest.param(b'{"a":1e999,', "line 1 column", id="two faults"),
    ],
)
def test_what_is_no_json_in_utf_8(document: bytes, place: str) -> None:
    """Malformed, and the message says where: by line and column, or by byte."""
    with pytest.raises(EventRefused, match="Expected one JSON document in UTF-8") as refusal:
        decode_event(document)
    assert refusal.value.reason is Reason.MALFORMED
    assert place in refusal.value.detail


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_a_hundred_thousand_levels_are_refused(opening: str) -> None:
    """Nesting that no stack holds is refused and crashes nothing, closed or not."""
    for closing in ("", "1" + opening[::-1].translate({91: "]", 123: "}", 34: "", 58: "", 97: ""})):
        with pytest.raises(EventRefused, match=f"at most {NESTING_MAX} levels") as refusal:
            decode_event((opening * 100_000 + closing * 100_000).encode()[:EVENT_BYTES_MAX])
        assert refusal.value.reason is Reason.MALFORMED


def nested(levels: int) -> bytes:
    """A document of so many levels, with brackets in its strings and many steps besides."""
    steps = [STEP | {"step_id": str(i), "effect": "[[{{"} for i in range(100)]
    document = changed("trace.closed", "data", "steps", to=steps)
    document["data"]["step_count"] = None
    document["data"]["new"] = json.loads("[" * (levels - 2) + "]" * (levels - 2))
    return written(document)


def test_the_bound_on_nesting_is_exact() -> None:
    """64 levels are accepted, 65 refused."""
    assert_accepted(nested(NESTING_MAX))
    path = "$.data.new" + "[0]" * (NESTING_MAX - 2)
    wanted = f"Expected at most {NESTING_MAX} levels"
    assert_refused(nested(NESTING_MAX + 1), Refusal(Reason.MALFORMED, wanted, "more", path))


def test_the_bound_on_nesting_is_the_same_on_a_deep_stack() -> None:
    """What a shallow stack accepts, one of hundreds of frames accepts too."""

    def deeper(frames: int) -> None:
        return deeper(frames - 1) if frames else assert_accepted(nested(NESTING_MAX))

    deeper(sys.getrecursionlimit() // 2)


def test_a_mebibyte_exactly() -> None:
    """1 MiB is accepted and a byte more is refused, before anything is read."""
    room = EVENT_BYTES_MAX - len(written(changed("trace.closed", "data", "new", to="")))
    fits = written(changed("trace.closed", "data", "new", to="x" * room))
    assert len(fits) == EVENT_BYTES_MAX
    assert_accepted(fits)
    with pytest.raises(EventRefused, match="at most 1048576 bytes, got 1048577") as refusal:
        decode_event(fits + b" ")
    assert refusal.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize("type_name", EVENT_TYPES)
def test_producers_may_be_newer_than_readers(type_name: str) -> None:
    """Fields that this version does not know are ignored, at every level."""
    document = json.loads(written(EXAMPLES[type_name]))
    known = decode_event(written(document))
    document["new"] = {"a": [1, None, {"b": 1e-400}]}
    document["data"]["new"] = '[{\\"😀'
    for step in document["data"].get("steps", ()):
        step["new"] = 10**400
    assert decode_event(written(document)) == known


def test_null_means_absent() -> None:
    """An optional field may be null; one with a default of its own may only be left out."""
    for field in ("session", "agent", "cost_usd", "step_count"):
        absent = decode_event(written(changed("trace.closed", "data", field, to=LEAVE_OUT)))
        assert decode_event(written(changed("trace.closed", "data", field, to=None))) == absent
    for field in ("scope", "steps", "violations"):
        with pytest.raises(EventRefused, match=f"got `null` - at `\\$.data.{field}`"):
            decode_event(written(changed("trace.closed", "data", field, to=None)))


def test_defaults() -> None:
    """What is left out is empty, or as wide as it can be."""
    minimal = example("trace.closed") | {"data": {"trace_id": "t1", "outcome": "completed"}}
    closed = decode_event(written(minimal))
    assert isinstance(closed, TraceClosedEvent)
    assert (closed.data.scope, closed.data.steps, closed.data.violations) == ("", (), ())
    everything = example("trust.revoked") | {"data": {"by": "oscar", "why": "all"}}
    revoked = decode_event(written(everything))
    assert isinstance(revoked, TrustRevokedEvent)
    assert (revoked.data.scope, revoked.data.tool, revoked.data.effect) == ("*", "*", "*")


def test_ten_thousand_steps() -> None:
    """10,000 steps are accepted, one more is refused."""
    steps = [{"step_id": str(i), "tool": "a", "effect": "b", "status": "ok"} for i in range(10_001)]
    document = changed("trace.closed", "data", "steps", to=steps[:10_000])
    document["data"]["step_count"] = 10_000
    assert_accepted(written(document))
    document["data"]["steps"] = steps
    wanted = "Expected `array` of length <= 10000"
    assert_refused(
        written(document), Refusal(Reason.INVALID, wanted, "an array of 10001", "$.data.steps")
    )
    assert_refused(
        written(changed("trace.closed", "data", "step_count", to=10_001)),
        Refusal(Reason.INVALID, "Expected `int` <= 10000", "`10001`", "$.data.step_count"),
    )


def test_a_thousand_names_in_one_feedback() -> None:
    """1,000 subjects are accepted, one more is refused."""
    assert_accepted(written(changed("undo.executed", "data", "subjects", to=[SUBJECT] * 1000)))
    assert_refused(
        written(changed("undo.executed", "data", "subjects", to=[SUBJECT] * 1001)),
        Refusal(
            Reason.INVALID,
            "Expected `array` of length <= 1000",
            "an array of 1001",
            "$.data.subjects",
        ),
    )


@pytest.mark.parametrize(
    ("time", "instant"),
    [
        ("2026-04-22t12:34:56.789012z", "2026-04-22T12:34:56.789012Z"),
        ("2026-04-22T14:34:56.7890129+02:00", "2026-04-22T12:34:56.789012Z"),
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.000000Z"),
        ("2019-12-31T23:30:00-01:00", "2020-01-01T00:30:00.000000Z"),
        ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_times_that_one_document_may_have(time: str, instant: str) -> None:
    """From 2020 on; that a time is in the future only correlation can say."""
    event = decode_event(written(changed("trace.closed", "time", to=time)))
    assert format_instant(event.time) == instant


@pytest.mark.parametrize(("text", "ppm"), [("0.72", 720_000), ("1", 10**6), ("0.0000005", 0)])
def test_rewards_are_in_millionths(text: str, ppm: int) -> None:
    """A reward is the JSON text as a decimal, half to even."""
    event = decode_event(spelled("neuron.synthesized", ("data", "reward"), text))
    assert isinstance(event, NeuronSynthesizedEvent)
    assert event.data.reward == ppm


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("0.0000005", 0),
        ("0.0000015", 2),
        ("0.1", 100_000),
        ("3", 3_000_000),
        ("2.5e-6", 2),
        ("-0.0", 0),
        ("0.0000005" + "0" * 100_000 + "1", 1),
        ("1." + "0" * 1_000_000, 1_000_000),
    ],
)
def test_money_is_in_millionths(text: str, micros: int) -> None:
    """Money is the JSON text as a decimal, half to even, however many digits it has."""
    event = decode_event(spelled("trace.closed", ("data", "cost_usd"), text))
    assert isinstance(event, TraceClosedEvent)
    assert event.data.cost_usd == micros
