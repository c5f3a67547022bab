"""What an event says: the digest by which duplicates are told from conflicts (SPEC 2)."""

import hashlib
import json
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.schemas.examples import EXAMPLES, Document, changed, example, spelled, written
from trustfold_schemas.decoding import EVENT_TYPES, content_of, decode_event

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = (
    st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-3, 3).map(float)
)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXT
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def content(document: bytes) -> bytes:
    """The content of a document that decoding accepts."""
    return content_of(decode_event(document), document)


def with_tree(tree: object) -> Document:
    """An event with a field that nobody knows."""
    return changed("trace.excluded", "data", "new", to=tree)


def respelled(value: Any, random: Random) -> str:
    """The same JSON in other words: order, white space, escapes, and the spelling of numbers."""
    gap = random.choice(["", " ", "\n\t"])
    if isinstance(value, dict):
        keys = random.sample(list(value), len(value))
        inside = (f"{respelled(k, random)}:{respelled(value[k], random)}" for k in keys)
        return f"{{{gap}{f'{gap},'.join(inside)}{gap}}}"
    if isinstance(value, list):
        return f"[{gap}{f',{gap}'.join(respelled(one, random) for one in value)}]{gap}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        exact = Decimal(repr(value))
        plain = f"{exact:f}"
        digits = plain if "." in plain else plain + ".0"
        return random.choice([repr(value), f"{exact:e}", plain, digits, digits + "00"])
    text = json.dumps(value, ensure_ascii=random.random() < 0.5)
    return text.replace("/", "\\/") if random.random() < 0.5 else text


def leaf_paths(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a tree has values that hold no others; an empty array or object is one."""
    if not tree or not isinstance(tree, (dict, list)):
        return [path]
    members = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return [found for key, inner in members for found in leaf_paths(inner, (*path, key))]


def meaning(leaf: object) -> tuple[str, object]:
    """Two leaves mean the same exactly where this is equal: a number is its exact decimal."""
    if isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
        return "number", Decimal(repr(leaf))
    return type(leaf).__name__, leaf


@given(tree=TREES, seed=st.integers(0, 10**6))
def test_the_same_in_other_words(tree: object, seed: int) -> None:
    """However a document is written, it says the same."""
    document = with_tree(tree)
    assert content(respelled(document, Random(seed)).encode()) == content(written(document))


@given(tree=TREES, other=LEAVES, data=st.data())
def test_another_leaf_says_something_else(tree: object, other: object, data: st.DataObject) -> None:
    """One changed value anywhere, in a field that nobody knows too, is another content."""
    document = with_tree({"": tree})
    path = data.draw(st.sampled_from(leaf_paths(tree, ("data", "new", ""))))
    place: Any = document
    for part in path[:-1]:
        place = place[part]
    assume(meaning(place[path[-1]]) != meaning(other))
    before = content(written(document))
    place[path[-1]] = other
    assert content(written(document)) != before


@given(st.dictionaries(TEXT, TEXT | st.integers(-(2**60), 2**60), max_size=8))
def test_the_digest_is_computed_by_others_too(tree: dict[str, object]) -> None:
    """SHA-256 of type, microseconds and data in compact JSON, keys sorted: as json.dumps has it."""
    document = example("trace.excluded")
    document["data"]["new"] = tree
    said = ["trustfold.trace.excluded.v1", "1776861296789012", document["data"]]
    text = json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert content(written(document)) == hashlib.sha256(text.encode()).digest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.0", "1"),
        ("1e2", "100"),
        ("1E+2", "100.00"),
        ("0.10", "0.1"),
        ("-0", "0"),
        ("-0.0e-7", "0"),
        ("1e22", "10000000000000000000000"),
        ("1.5e-320", "15e-321"),
        ("1" + "0" * 308, "1e308"),
        ("1." + "0" * 1_000_000, "1"),
        ('"\\u00e9\\/\\ud83d\\ude00"', '"é/😀"'),
        ('"\\u000a\\u001F"', '"\\n\\u001f"'),
        ('{"b":[1, 2],"a":{}}', '{ "a" : { } , "b" : [1,2] }'),
        ('{"\\u0061":1}', '{"a":1}'),
    ],
)
def test_spellings_of_the_same(one: str, other: str) -> None:
    """White space, key order, escapes and the spelling of a number change nothing."""
    path = ("data", "new")
    assert content(spelled("trace.closed", path, one)) == content(
        spelled("trace.closed", path, other)
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", '"1"'),
        ("1", "true"),
        ("0", "false"),
        ("0", "null"),
        ("[]", "{}"),
        ("[1,2]", "[2,1]"),
        ("[[1],2]", "[1,[2]]"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ("9007199254740993", "9007199254740992"),
        ("4e-324", "0"),
        ('"é"', '"e\\u0301"'),
        ('"a"', '"A"'),
        ('{"a":null}', "{}"),
        ('{"a":1}', '{"A":1}'),
    ],
)
def test_different_things(one: str, other: str) -> None:
    """What no reader of JSON takes for the same is not the same; numbers are exact."""
    path = ("data", "new")
    assert content(spelled("trace.closed", path, one)) != content(
        spelled("trace.closed", path, other)
    )


def test_the_time_is_an_instant() -> None:
    """Its zone, case and digits beyond microseconds change nothing; a microsecond does."""
    plain = content(written(example("trace.closed")))
    for same in ("2026-04-22T12:34:56.789012999Z", "2026-04-22t18:19:56.789012+05:45"):
        assert content(written(changed("trace.closed", "time", to=same))) == plain
    other = changed("trace.closed", "time", to="2026-04-22T12:34:56.789013Z")
    assert content(written(other)) != plain


def test_times_inside_the_data_are_text() -> None:
    """Only `time` is compared as an instant: the data are compared as the JSON that they are."""
    utc = changed("subject.rolled_back", "data", "to", to="2026-04-01T00:00:00Z")
    zone = changed("subject.rolled_back", "data", "to", to="2026-04-01T01:00:00+01:00")
    assert content(written(utc)) != content(written(zone))


def test_the_other_attributes_say_nothing() -> None:
    """Content is type, time and data: the envelope beside them may differ."""
    plain = content(written(example("trace.closed")))
    for field in ("id", "source", "subject", "traceparent", "new"):
        assert content(written(changed("trace.closed", field, to="else"))) == plain


def test_the_type_is_content() -> None:
    """An exclusion and an inclusion with the same data say different things."""
    excluded = example("trace.excluded")
    included = excluded | {"type": "trustfold.trace.included.v1"}
    assert content(written(excluded)) != content(written(included))


@pytest.mark.parametrize("type_name", EVENT_TYPES)
def test_every_known_field_is_content(type_name: str) -> None:
    """Leaving out any field of the data, where that is allowed, changes what is said."""
    whole = content(written(EXAMPLES[type_name]))
    assert len(whole) == 32
    name = type_name.split(".", 1)[1].removesuffix(".v1")
    for field, value in EXAMPLES[type_name]["data"].items():
        other = changed(name, "data", f"not_{field}", to=value)
        assert content(written(other)) != whole
