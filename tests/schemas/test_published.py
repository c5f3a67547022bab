"""The published JSON Schemas: the same verdicts as decoding, for other languages."""

import json
from collections.abc import Iterator
from pathlib import Path as File
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from tests.schemas.examples import (
    ANNA,
    EXAMPLES,
    LEAVE_OUT,
    STEP,
    SUBJECT,
    Document,
    Path,
    changed,
    example,
    written,
)
from trustfold_schemas.decoding import EVENT_TYPES, decode_event
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.ledger import Entry
from trustfold_schemas.published import (
    all_schemas,
    entry_schema,
    event_schema,
    file_of,
    main,
    score_schema,
)
from trustfold_schemas.scores import TrustScore
from trustfold_schemas.subject import Subject

FOLDER = File(__file__).resolve().parents[2] / "docs" / "schemas"
VALIDATORS = {name: Draft202012Validator(event_schema(name)) for name in EVENT_TYPES}
SHORT = [name.split(".", 1)[1].removesuffix(".v1") for name in EVENT_TYPES]


def schema_accepts(document: Document, type_name: str) -> bool:
    """The verdict of the published schema."""
    return bool(VALIDATORS[type_name].is_valid(document))


def decoding_accepts(document: Document) -> bool:
    """The verdict of our own decoding."""
    try:
        decode_event(written(document))
    except EventRefused:
        return False
    return True


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a document, containers too."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


OTHERS: list[object] = [
    LEAVE_OUT, None, True, False, 7, -1, 0.5, 1.5, -0.5, 10**13, 2**53 + 1, "", "x", "😀" * 64,
    "😀" * 65, "😀" * 249, "😀" * 250, "😀" * 256, "😀" * 257, "😀" * 512, "😀" * 513, "runtime",
    "human", "2026-01-02T03:04:05.123456789+05:45", "2026-01-02t03:04:05z", "2026-01-02T03:04:05",
    "2016-12-31T23:59:60Z", "2026-13-02T03:04:05Z", "2026-01-02T24:04:05Z", "2026-01-02",
    [], {}, [[]], ["x"], [["", "x", "y"]], ["", "x", "y"], ["", "runtime", "y"], ["", "x"],
    ["", "x", "y", "z"], [["", "runtime", "y"]],
]  # fmt: skip
"""What is put in every place of every example: wrong types, and both sides of every limit."""


@pytest.mark.parametrize("name", SHORT)
def test_accepted_examples(name: str) -> None:
    """The full example, and the one with all that may be left out or null left out or null."""
    full, bare, null = example(name), example(name), example(name)
    event: Any = decode_event(written(full))
    for field in msgspec.structs.fields(event.data):
        if not field.required:
            del bare["data"][field.name]
        if field.default is None:
            null["data"][field.name] = None
    for document in (full, bare, null):
        assert schema_accepts(document, f"trustfold.{name}.v1")
        assert decoding_accepts(document)


@pytest.mark.parametrize("name", SHORT)
def test_the_same_verdict_on_every_change(name: str) -> None:
    """Whatever is put wherever in an example: schema and decoding agree, and both say both."""
    verdicts = {True: 0, False: 0}
    for path in places(example(name)):
        for other in OTHERS:
            document = changed(name, *path, to=other)
            verdict = decoding_accepts(document)
            assert schema_accepts(document, f"trustfold.{name}.v1") == verdict, (path, other)
            verdicts[verdict] += 1
    assert min(verdicts.values()) > 20


@pytest.mark.parametrize(
    "document",
    [
        changed("approval.decided", "data", "step_ids", to=[]),
        changed("approval.decided", "data", "subjects", to=[]),
        changed("undo.executed", "data", "subjects", to=[["", "runtime", "completed"]]),
        changed("undo.executed", "data", "subjects", to=[SUBJECT] * 1001),
        changed("signals.reported", "data", "subject", to=["", "runtime", "completed"]),
        changed("trace.closed", "data", "steps", 0, "tool", to="runtime"),
        changed("step.recorded", "data", "step", "tool", to="runtime"),
        changed("trace.closed", "data", "violations", to=[{"law": 4}]),
        changed("trace.closed", "data", "steps", 0, "status", to="skipped"),
        changed("trace.closed", "type", to="trustfold.trace.closed.v2"),
        changed("trace.closed", "specversion", to="0.3"),
        changed("neuron.synthesized", "data", "reward", to=1.0001),
        changed("selfplay.completed", "data", "critic_cost_usd", to=-0.01),
        example("trace.closed") | {"data": example("undo.executed")["data"]},
        example("undo.executed") | {"data": {"trace_id": "t1", "by": ANNA | {"kind": "robot"}}},
    ],
)
def test_refused_examples(document: Document) -> None:
    """What decoding refuses and JSON Schema can say, the schema refuses too."""
    name = document["type"].replace(".v2", ".v1")
    assert not schema_accepts(document, name)
    assert not decoding_accepts(document)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (changed("trace.closed", "data", "steps", to=[STEP, STEP]), "step ids in `steps` are dist"),
        (changed("trace.closed", "data", "step_count", to=0), "`step_count` is at least"),
        (changed("selfplay.completed", "data", "loser", to="alpha"), "Winner and loser are two"),
        (changed("selfplay.completed", "data", "critic", to="beta"), "the critic is neither"),
        (changed("trace.closed", "time", to="2026-02-30T00:00:00Z"), "exist in the calendar"),
        (changed("trace.closed", "data", "new", to="x" * 2**20), "at most 1048576 bytes"),
        (changed("trace.closed", "data", "step_count", to=2.0), "without fraction and exponent"),
    ],
)
def test_what_json_schema_cannot_say_the_description_says(document: Document, said: str) -> None:
    """The schema is wider than decoding in these places only, and its prose tells them all."""
    assert schema_accepts(document, document["type"])
    assert not decoding_accepts(document)
    assert said in event_schema(document["type"])["description"]


@pytest.mark.parametrize("file_name", all_schemas())
def test_each_schema_stands_alone(file_name: str) -> None:
    """A valid schema of its dialect that refers to itself only and is open to newer fields."""
    schema = all_schemas()[file_name]
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == "urn:trustfold:" + file_name.removesuffix(".json")
    assert schema["title"] == file_name.removesuffix(".json")
    assert len(schema["description"]) > 40
    assert all(inner.get("additionalProperties", {}) == {} for inner in objects_in(schema))
    references = [inner["$ref"] for inner in objects_in(schema) if "$ref" in inner]
    assert {reference.removeprefix("#/$defs/") for reference in references} == set(schema["$defs"])


def objects_in(value: Any) -> Iterator[Document]:
    """Every object inside a document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, (dict, list)):
            yield from objects_in(inner)


@pytest.mark.parametrize("type_name", EVENT_TYPES)
def test_cloudevents_attributes_are_required(type_name: str) -> None:
    """Every event has the attributes that CloudEvents demands, and a time and data besides."""
    schema = event_schema(type_name)
    wanted = {"specversion", "id", "source", "type", "time", "data"}
    assert set(schema["required"]) == wanted
    assert set(EXAMPLES[type_name]) == set(schema["properties"])


def test_the_ledger_entry_has_a_schema() -> None:
    """An entry as msgspec writes it is valid; one without its subject is not."""
    validator = Draft202012Validator(entry_schema())
    entry = Entry(
        kind="evidence",
        subject=Subject("", "shell", "invoke"),
        trace_id="t1",
        event_id="e1",
        source="laptop",
        occurred=1,
        recorded=2,
        chain=(2,),
        self_play=(10**6, 1),
    )
    document = json.loads(msgspec.json.encode(entry))
    assert validator.is_valid(document)
    del document["subject"]
    assert not validator.is_valid(document)


def test_the_score_has_a_schema() -> None:
    """A TrustScore as msgspec writes it is valid; one above 1 is not."""
    validator = Draft202012Validator(score_schema())
    document = json.loads(msgspec.json.encode(TrustScore.empty(Subject("", "shell", "invoke"))))
    assert validator.is_valid(document)
    assert not validator.is_valid(document | {"score": 1.5})


def test_the_files_in_docs_are_those_of_this_version(tmp_path: File) -> None:
    """What `python -m trustfold_schemas.published docs/schemas` writes is checked in."""
    main([str(tmp_path)])
    made = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert made == {name: file_of(schema) for name, schema in all_schemas().items()}
    assert made == {file.name: file.read_bytes() for file in FOLDER.iterdir()}


@pytest.mark.parametrize("arguments", [[], ["one", "two"]])
def test_wrong_use_of_the_writer(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one line of help."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert "DIR" in capsys.readouterr().err
