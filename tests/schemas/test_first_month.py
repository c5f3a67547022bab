"""`examples/first_month.jsonl`, the first file that a newcomer ingests."""

import json
from itertools import pairwise
from pathlib import Path

from jsonschema import Draft202012Validator

from trustfold_schemas.decoding import EVENT_TYPES, decode_event
from trustfold_schemas.instants import DAY, parse_instant
from trustfold_schemas.published import event_schema

MONTH = Path(__file__).resolve().parents[2] / "examples" / "first_month.jsonl"
LINES = MONTH.read_bytes().splitlines()


def test_every_line_is_accepted() -> None:
    """No bad line: decoding and the published schemas accept all."""
    validators = {name: Draft202012Validator(event_schema(name)) for name in EVENT_TYPES}
    for line in LINES:
        decode_event(line)
        document = json.loads(line)
        validators[document["type"]].validate(document)


def test_it_is_one_month_in_order() -> None:
    """January 2026, in order of time, with no id twice, and short enough to be read."""
    events = [decode_event(line) for line in LINES]
    assert all(one.time < other.time for one, other in pairwise(events))
    assert len({(event.source, event.id) for event in events}) == len(events)
    first = parse_instant("2026-01-01T00:00:00Z")
    assert all(first < event.time < first + 31 * DAY for event in events)
    assert 120 <= len(events) <= 180


def test_it_is_compact_json() -> None:
    """Each line is compact JSON, as a producer writes it."""
    for line in LINES:
        compact = json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":"))
        assert line == compact.encode()
