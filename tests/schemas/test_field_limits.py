"""The limits of single fields, and of fields that must fit each other (SPEC 2, SPEC 3)."""

import pytest

from tests.schemas.examples import (
    ANNA,
    LEAVE_OUT,
    STEP,
    SUBJECT,
    Document,
    Path,
    changed,
    example,
    spelled,
    written,
)
from tests.schemas.refusals import Refusal, assert_accepted, assert_refused
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.decoding import EVENT_TYPES

NAMES = [name.split(".", 1)[1].removesuffix(".v1") for name in EVENT_TYPES]


def place(path: Path) -> str:
    """A path as a message names it."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


def invalid(wanted: str, got: str, path: Path) -> Refusal:
    """A refusal of a document that is JSON."""
    return Refusal(Reason.INVALID, wanted, got, place(path))


LIMITS: list[tuple[str, Path, int, int]] = [
    *((name, (field,), 1, 256) for name in NAMES for field in ("id", "source")),
    ("trace.closed", ("data", "trace_id"), 1, 256),
    ("trace.closed", ("data", "scope"), 0, 256),
    ("trace.closed", ("data", "session"), 0, 256),
    ("trace.closed", ("data", "agent"), 0, 256),
    ("trace.closed", ("data", "outcome"), 1, 512),
    ("trace.closed", ("data", "violations", 0, "step_id"), 1, 256),
    ("trace.closed", ("data", "steps", 0, "step_id"), 1, 256),
    ("trace.closed", ("data", "steps", 0, "tool"), 1, 256),
    ("trace.closed", ("data", "steps", 0, "effect"), 1, 512),
    ("trace.closed", ("data", "steps", 0, "error"), 0, 64),
    ("trace.closed", ("data", "steps", 0, "args_fingerprint"), 0, 256),
    ("trace.closed", ("data", "steps", 0, "decision_id"), 1, 256),
    ("step.recorded", ("data", "trace_id"), 1, 256),
    ("step.recorded", ("data", "scope"), 0, 256),
    ("step.recorded", ("data", "step", "tool"), 1, 256),
    ("signals.reported", ("data", "trace_id"), 1, 256),
    ("signals.reported", ("data", "subject", 0), 0, 256),
    ("signals.reported", ("data", "subject", 1), 1, 256),
    ("signals.reported", ("data", "subject", 2), 1, 512),
    ("approval.decided", ("data", "step_ids", 0), 1, 256),
    ("approval.decided", ("data", "subjects", 0, 1), 1, 256),
    ("approval.decided", ("data", "decided_by", "id"), 1, 256),
    ("undo.executed", ("data", "by", "id"), 1, 256),
    ("trace.excluded", ("data", "by"), 1, 256),
    ("trace.included", ("data", "trace_id"), 1, 256),
    ("selfplay.completed", ("data", "context"), 1, 256),
    ("selfplay.completed", ("data", "winner"), 1, 249),
    ("selfplay.completed", ("data", "loser"), 1, 249),
    ("selfplay.completed", ("data", "critic"), 1, 249),
    ("neuron.synthesized", ("data", "neuron"), 1, 249),
    ("neuron.synthesized", ("data", "approved_by"), 1, 256),
    ("subject.rolled_back", ("data", "subject", 2), 1, 512),
    ("rollback.lifted", ("data", "rollback_id"), 1, 256),
    ("cost.median", ("data", "effect"), 1, 512),
    ("threshold.set", ("data", "effect"), 1, 512),
    ("threshold.removed", ("data", "effect"), 1, 512),
    ("effect.declared", ("data", "effect"), 1, 512),
    ("trust.revoked", ("data", "scope"), 0, 256),
    ("trust.revoked", ("data", "tool"), 1, 256),
    ("trust.revoked", ("data", "effect"), 1, 512),
    ("trust.reinstated", ("data", "revocation_id"), 1, 256),
    ("policy.mode", ("data", "by"), 1, 256),
]


@pytest.mark.parametrize(("name", "path", "least", "most"), LIMITS)
def test_lengths(name: str, path: Path, least: int, most: int) -> None:
    """The longest string is accepted, one character more is refused; so is an empty id.

    Characters are code points, so one beyond the Basic Multilingual Plane counts once. A neuron
    leaves room for the `neuron:` that its tool begins with.
    """
    for character in ("x", "é", "😀"):
        assert_accepted(written(changed(name, *path, to=character * most)))
        long = character * (most + 1)
        said = invalid(f"Expected `str` of length <= {most}", f'`"{long[:80]}', path)
        assert_refused(written(changed(name, *path, to=long)), said)
    empty = written(changed(name, *path, to=""))
    if least:
        assert_refused(empty, invalid("Expected `str` of length >= 1", '`""`', path))
    else:
        assert_accepted(empty)


@pytest.mark.parametrize(
    ("name", "path", "value", "wanted", "got"),
    [
        ("trace.closed", ("id",), 5, "Expected `str`", "`int`"),
        ("trace.closed", ("source",), None, "Expected `str`", "`null`"),
        ("trace.closed", ("specversion",), "0.3", "Expected one of `1.0`", '`"0.3"`'),
        ("trace.closed", ("specversion",), 1.0, "Expected `str`", "`float`"),
        ("trace.closed", ("type",), 5, "Expected `str`", "`5`"),
        ("trace.closed", ("data",), [], "Expected `object`", "`array`"),
        ("trace.closed", ("subject",), 5, "Expected `str | null`", "`int`"),
        ("trace.closed", ("time",), 1767323045, "Expected an RFC 3339 time", "`1767323045`"),
        ("trace.closed", ("time",), None, "Expected an RFC 3339 time", "`null`"),
        ("trace.closed", ("time",), "2026-01-02T03:04:05", "Expected an RFC 3339 time", "`2026"),
        ("trace.closed", ("time",), "2026-01-02T03:04:60Z", "Expected seconds 00", "a leap second"),
        ("trace.closed", ("time",), "2026-02-30T00:00:00Z", "Expected a moment of the", "`2026-02"),
        ("trace.closed", ("time",), "0001-01-01T00:00:00+01:00", "Expected a moment", "`0001-01"),
        (
            "trace.closed",
            ("time",),
            "2019-12-31T23:59:59.999999Z",
            "Expected a time from 2020 on",
            "`2019-12-31T23:59:59.999999Z`",
        ),
        (
            "trace.closed",
            ("time",),
            "2020-01-01T00:30:00+01:00",
            "Expected a time from 2020 on",
            "`2019-12-31T23:30:00.000000Z`",
        ),
        ("trace.closed", ("data", "cost_usd"), "1", "Expected an amount of USD", '`"1"`'),
        ("trace.closed", ("data", "cost_usd"), -0.01, "Expected an amount of USD", "`-0.01`"),
        ("trace.closed", ("data", "cost_usd"), True, "Expected an amount of USD", "`true`"),
        ("trace.closed", ("data", "cost_usd"), 10**12 + 1, "Expected an amount of USD", "`1000"),
        ("trace.closed", ("data", "steps"), {}, "Expected `array`", "`object`"),
        ("trace.closed", ("data", "steps", 0), "s1", "Expected `object`", "`str`"),
        ("trace.closed", ("data", "steps", 0, "step_id"), 1, "Expected `str`", "`int`"),
        ("trace.closed", ("data", "steps", 0, "tool"), "runtime", "Expected a tool", "`runtime`"),
        ("trace.closed", ("data", "steps", 0, "status"), "okay", "Expected one of `error`", "`"),
        (
            "trace.closed",
            ("data", "steps", 0, "via"),
            "luck",
            "Expected one of `human`",
            '`"luck"`',
        ),
        (
            "trace.closed",
            ("data", "steps", 0, "reversibility"),
            "maybe",
            "Expected one of `irreversible`, `reversible`, `reversible_with_cost`",
            '`"maybe"`',
        ),
        ("trace.closed", ("data", "step_count"), -1, "Expected `int` >= 0", "`-1`"),
        ("trace.closed", ("data", "step_count"), 1.5, "Expected `int | null`", "`float`"),
        ("trace.closed", ("data", "step_count"), 0, "Expected `step_count` to be at least", "0"),
        ("trace.closed", ("data", "violations", 0, "law"), 4, "Expected `int` <= 3", "`4`"),
        ("trace.closed", ("data", "violations", 0, "law"), -1, "Expected `int` >= 0", "`-1`"),
        ("trace.closed", ("data", "violations", 0, "law"), True, "Expected `int`", "`bool`"),
        ("step.recorded", ("data", "step", "tool"), "runtime", "Expected a tool", "`runtime`"),
        (
            "signals.reported",
            ("data", "undo_flag"),
            True,
            "Expected a number from 0 to 1",
            "`true`",
        ),
        ("signals.reported", ("data", "tool_success"), 1.1, "Expected a number from 0", "`1.1`"),
        ("signals.reported", ("data", "subject"), ["", "a"], "Expected `array` of length 3", "an"),
        ("signals.reported", ("data", "subject"), "shell", "Expected `array`", "`str`"),
        (
            "approval.decided",
            ("data", "decision"),
            "maybe",
            "Expected one of `denied`",
            '`"maybe"`',
        ),
        (
            "approval.decided",
            ("data", "decided_by", "kind"),
            "robot",
            "Expected one of `human`, `policy`, `rule`",
            '`"robot"`',
        ),
        ("approval.decided", ("data", "decided_by"), "anna", "Expected `object`", "`str`"),
        ("approval.decided", ("data", "grants_visible"), 1, "Expected `bool`", "`int`"),
        ("approval.decided", ("data", "step_ids"), [], "Expected `array` of length >= 1", "an"),
        ("approval.decided", ("data", "subjects"), [], "Expected `array` of length >= 1", "an"),
        ("undo.executed", ("data", "step_ids"), [], "Expected `array` of length >= 1", "an"),
        ("undo.executed", ("data", "subjects"), [], "Expected `array` of length >= 1", "an array"),
        ("undo.executed", ("data", "by", "kind"), "", "Expected one of `human`", '`""`'),
        (
            "neuron.synthesized",
            ("data", "reward"),
            1.0000001,
            "Expected a number from 0",
            "`1.0000",
        ),
        ("neuron.synthesized", ("data", "reward"), -0.1, "Expected a number from 0", "`-0.1`"),
        ("neuron.synthesized", ("data", "reward"), None, "Expected a number from 0 to 1", "`null`"),
        ("neuron.synthesized", ("data", "breakdown"), [], "Expected `object`", "`array`"),
        ("selfplay.completed", ("data", "critic_cost_usd"), None, "Expected an amount", "`null`"),
        ("subject.rolled_back", ("data", "to"), "yesterday", "Expected an RFC 3339", "`yesterday`"),
        ("cost.median", ("data", "samples"), 2**53 + 1, "Expected `int` <= 9007", "`9007199254740"),
        ("cost.median", ("data", "effective_at"), "2026-04-23", "Expected an RFC 3339", "`2026-04"),
        ("threshold.set", ("data", "min_samples"), 0.5, "Expected `int`", "`float`"),
        (
            "threshold.set",
            ("data", "cap_autonomy"),
            "allow",
            "Expected one of `approve_",
            '`"allow"',
        ),
        ("effect.declared", ("data", "reversibility"), None, "Expected `str`", "`null`"),
        ("policy.mode", ("data", "mode"), "off", "Expected one of `enforce`, `shadow`", '`"off"`'),
        ("policy.mode", ("data", "spot_check_one_in"), -1, "Expected `int` >= 0", "`-1`"),
    ],
)
def test_ill_typed_or_out_of_range(
    name: str, path: Path, value: object, wanted: str, got: str
) -> None:
    """The message names the path, what it got, and what it wanted."""
    # What one field of an object forbids to another is said of the object.
    of_all = wanted.startswith(("Expected a tool", "Expected `step_count`"))
    said = invalid(wanted, got, path[:-1] if of_all else path)
    assert_refused(written(changed(name, *path, to=value)), said)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        *((name, (field,)) for name in NAMES for field in ("specversion", "id", "source", "time")),
        *((name, ("data",)) for name in NAMES),
        ("trace.closed", ("type",)),
        ("trace.closed", ("data", "outcome")),
        ("trace.closed", ("data", "steps", 0, "status")),
        ("trace.closed", ("data", "violations", 0, "law")),
        ("signals.reported", ("data", "subject")),
        ("step.recorded", ("data", "step")),
        ("approval.decided", ("data", "decided_by", "kind")),
        ("undo.executed", ("data", "by")),
        ("trace.excluded", ("data", "why")),
        ("selfplay.completed", ("data", "critic")),
        ("neuron.synthesized", ("data", "breakdown")),
        ("subject.rolled_back", ("data", "to")),
        ("threshold.set", ("data", "min_approval_rate")),
    ],
)
def test_a_missing_field_is_named(name: str, path: Path) -> None:
    """What is required and not there: the message names it and the object that misses it."""
    wanted = f"Expected the required field `{path[-1]}`, got an object without it"
    said = invalid(wanted, "an object", path[:-1])
    assert_refused(written(changed(name, *path, to=LEAVE_OUT)), said)


@pytest.mark.parametrize(
    ("name", "data", "wanted", "got"),
    [
        (
            "trace.closed",
            {"steps": [STEP, STEP | {"step_id": "s2"}, STEP], "step_count": None},
            "Expected distinct step ids in `steps`",
            "`s1` twice",
        ),
        (
            "trace.closed",
            {"steps": [STEP, STEP | {"step_id": "s2"}], "step_count": 1},
            "Expected `step_count` to be at least the 2 steps listed",
            "1",
        ),
        (
            "signals.reported",
            {"subject": ["", "runtime", "completed"]},
            "Expected subjects of steps",
            "the tool `runtime`",
        ),
        (
            "approval.decided",
            {"subjects": [SUBJECT, ["", "runtime", "completed"]]},
            "Expected subjects of steps",
            "the tool `runtime`",
        ),
        (
            "undo.executed",
            {"subjects": [["", "runtime", "completed"]]},
            "Expected subjects of steps",
            "the tool `runtime`",
        ),
        ("selfplay.completed", {"loser": "alpha"}, "Expected two competitors", "`alpha` as both"),
        ("selfplay.completed", {"critic": "alpha"}, "Expected a critic that is no", "`alpha`"),
        ("selfplay.completed", {"critic": "beta"}, "Expected a critic that is no", "`beta`"),
    ],
)
def test_fields_that_do_not_fit_each_other(
    name: str, data: Document, wanted: str, got: str
) -> None:
    """What only several fields together say wrong is said of the data."""
    document = example(name)
    document["data"] |= data
    assert_refused(written(document), invalid(wanted, got, ("data",)))


def test_fields_that_fit_each_other() -> None:
    """The nearest neighbours of what is refused are accepted."""
    two = [STEP, STEP | {"step_id": "S1"}]
    for steps, count in ((two, 2), (two, 3), (two, None), ([], 0), ([], 10_000)):
        document = example("trace.closed")
        document["data"] |= {"steps": steps, "step_count": count}
        assert_accepted(written(document))
    assert_accepted(written(changed("rollback.lifted", "data", "subject", 1, to="runtime")))
    assert_accepted(written(changed("selfplay.completed", "data", "critic", to="Alpha")))
    nobody = example("undo.executed") | {"data": {"trace_id": "t1", "by": ANNA}}
    assert_accepted(written(nobody))


def test_an_integer_has_neither_fraction_nor_exponent() -> None:
    """1.0 and 1e0 are no integers, since not every reader of JSON can tell them apart."""
    for text in ("2.0", "2e0"):
        said = invalid("Expected `int | null`", "`float`", ("data", "step_count"))
        assert_refused(spelled("trace.closed", ("data", "step_count"), text), said)


def test_an_unknown_type_has_its_own_reason() -> None:
    """What this version does not know may be known to the next: the reason says so."""
    wanted = "Expected one of `trustfold.trace.closed.v1`, `trustfold.signals.reported.v1`, "
    for unknown in ("trustfold.trace.closed.v2", "", "x" * 1000):
        said = Refusal(Reason.UNKNOWN_TYPE, wanted, f"`{unknown[:80]}", "$.type")
        assert_refused(written(changed("trace.closed", "type", to=unknown)), said)


@pytest.mark.parametrize(
    ("document", "got"),
    [(b"[]", "`array`"), (b'"x"', "`str`"), (b"5", "`int`"), (b"null", "`null`")],
)
def test_json_that_is_no_object(document: bytes, got: str) -> None:
    """JSON of another kind is invalid, not malformed."""
    assert_refused(document, invalid("Expected `object`", got, ()))
