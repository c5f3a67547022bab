"""docs/asyncapi.json is that of this version, whole, and true of what is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from trustfold_projections.laws.self_play import Synapse
from trustfold_schemas.decoding import EVENT_TYPES
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.agents.synapse import Row
from trustfold_streams.agents.synapse import record_of as synapse_record
from trustfold_streams.agents.watch import look
from trustfold_streams.asyncapi import OWN, document, file_of, main
from trustfold_streams.kafka.records import Progress, Replayed
from trustfold_streams.kafka.score_records import Position, pack_score
from trustfold_streams.kafka.settings import INPUT_TOPICS, KafkaSettings
from trustfold_streams.kafka.topic_rules import OWN_TOPICS
from trustfold_streams.kafka.worker import progress_json

DOCS = Path(__file__).resolve().parents[2] / "docs"
SUBJECT = Subject("", "shell", "exec")


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a document."""
    if isinstance(value, dict):
        yield value
        for one in value.values():
            yield from walk(one)
    elif isinstance(value, list):
        for one in value:
            yield from walk(one)


def test_the_file_in_docs_is_that_of_this_version(tmp_path: Path) -> None:
    """What `python -m trustfold_streams.asyncapi docs/asyncapi.json` writes is checked in."""
    made = CliRunner().invoke(main, [str(tmp_path / "made.json")])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "made.json").read_bytes() == (DOCS / "asyncapi.json").read_bytes()


def test_wrong_use_of_the_writer() -> None:
    """Exit code 2, and how it is done."""
    ended = CliRunner().invoke(main, [])
    assert ended.exit_code == 2
    assert "Usage:" in ended.output


def test_every_topic_is_a_channel_with_an_operation() -> None:
    """By its name without the prefix; publishers' topics are received, the others sent."""
    made = document(KafkaSettings("one:9092", "p."))
    assert set(OWN) == set(OWN_TOPICS)
    assert set(made["channels"]) == {*INPUT_TOPICS, *OWN_TOPICS}
    assert {one["address"] for one in made["channels"].values()} == {
        f"p.{name}" for name in (*INPUT_TOPICS, *OWN_TOPICS)
    }
    actions = {
        one["channel"]["$ref"].rpartition("/")[2]: one["action"]
        for one in made["operations"].values()
    }
    assert actions == dict.fromkeys(INPUT_TOPICS, "receive") | dict.fromkeys(OWN_TOPICS, "send")


def test_every_reference_leads_somewhere() -> None:
    """Within the document to what is there; outside of it to a file beside it."""
    made = json.loads(file_of(document()))
    for one in walk(made):
        if "$ref" not in one:
            continue
        path, _, place = one["$ref"].partition("#")
        if path:
            assert (DOCS / path).is_file()
            continue
        found = made
        for name in place.strip("/").split("/"):
            found = found[name]


def test_every_type_of_event_is_a_message_on_its_topic() -> None:
    """With the JSON Schema of its document; an answer by a rule travels on `step`, too."""
    made = document()
    for name, event in EVENT_TYPES.items():
        assert name in made["channels"][event.topic]["messages"]
        payload = made["components"]["messages"][name]["payload"]
        assert payload["schema"] == {"$ref": f"schemas/{name}.json"}
    assert "trustfold.approval.decided.v1" in made["channels"]["step"]["messages"]
    facts = made["channels"]["facts"]["messages"]
    assert "fact.trustfold.trace.closed.v1" in facts
    assert not any("cost.median" in one for one in facts)


def state(version: int, tool: int) -> State:
    """A score of this subject."""
    weight = 1 << 200
    num, den = [tool * weight, 0, 0, 0, 0], [weight, 0, 0, 0, weight]
    return State(subject=SUBJECT, num=num, den=den, n_samples=1, version=version, last_updated=5)


def records() -> dict[str, bytes]:
    """A record of each kind as the product writes it."""
    known = look(None, state(1, 0))
    assert known is not None
    new = look(known[0], state(2, 10**6))
    assert new is not None
    progress = Progress(
        stage="fold", partition=0, positions={"t/0": 1}, caught_up=1, recorded=1, written=1
    )
    from msgspec.json import encode

    return {
        "score": pack_score(state(1, 10**6), Position(3, 0)),
        "synapse": synapse_record("c", Row(state=Synapse(), recorded=7)),
        "finding": encode(new[1][0]),
        "progress": progress_json(progress),
        "replayed": encode(Replayed(letter=1, event_id="e", origin="t/0/1")),
    }


@pytest.mark.parametrize("name", ["score", "synapse", "finding", "progress", "replayed"])
def test_what_is_written_is_what_is_described(name: str) -> None:
    """A record is valid, and one that lacks a field is not."""
    message = document()["components"]["messages"][name]
    validator = Draft202012Validator(json.loads(json.dumps(message["payload"]["schema"])))
    record = json.loads(records()[name])
    assert list(validator.iter_errors(record)) == []
    described = set(message["payload"]["schema"]["properties"])
    assert set(record) <= described
    first = message["payload"]["schema"]["required"][0]
    assert not validator.is_valid({key: value for key, value in record.items() if key != first})
