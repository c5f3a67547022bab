"""Where the publisher sends what, in which role, and what it refuses before the stages do."""

from __future__ import annotations

import pytest

from tests.embedded.documents import NOTES, closed, decided, event
from trustfold_projections.laws.admission import admit
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.facts import Role
from trustfold_streams.kafka.publisher import LOGS, refusal_topic, route
from trustfold_streams.kafka.replaying import origin_topic
from trustfold_streams.kafka.settings import ROLES, InputTopic, KafkaSettings, Publisher

PLAIN = KafkaSettings("host:9092")
SCOPED = KafkaSettings("host:9092", publishers={"trace-closed": Publisher(scopes=("team",))})

RULE = {"kind": "rule", "id": "r7"}
HUMAN = {"kind": "human", "id": "ann"}


def approval(by: dict[str, str]) -> bytes:
    """A grant by somebody."""
    return event(
        "approval.decided", "g", {"trace_id": "t", "decision": "granted", "decided_by": by}
    )


def undo(by: dict[str, str]) -> bytes:
    """An undo by somebody."""
    return event("undo.executed", "u", {"trace_id": "t", "by": by})


def signals(value: float = 1) -> bytes:
    """Ready-made evidence."""
    return event(
        "signals.reported", "s", {"trace_id": "s", "subject": NOTES, "tool_success": value}
    )


MEDIAN = event(
    "cost.median",
    "m",
    {"effect": "x", "median_usd": -1, "samples": 20, "effective_at": "2026-01-01T00:00:00Z"},
)


@pytest.mark.parametrize(
    ("document", "role", "topic"),
    [
        (approval(HUMAN), "owner", "approval"),
        (approval(HUMAN), "human", "approval"),
        (approval(RULE), "owner", "step"),
        (approval(RULE), "runtime", "step"),
        (approval(RULE), "human", "approval"),
        (undo(HUMAN), "owner", "undo"),
        (undo(RULE), "runtime", "step"),
        (signals(), "operator", "signals"),
    ],
)
def test_the_topic_of_an_event_is_one_that_its_role_may_write(
    document: bytes, role: Role, topic: InputTopic
) -> None:
    """Words of rules travel with the runtime's steps; what is sent is taken by the stages."""
    way = route(document, role, PLAIN)
    assert (way.topic, way.refused) == (topic, None)
    assert role in ("owner", ROLES[topic])
    admit(document, PLAIN.stamp(topic))


@pytest.mark.parametrize(
    ("document", "role", "topic", "reason"),
    [
        (b"no event", "owner", "step", Reason.MALFORMED),
        (b"[1]", "human", "approval", Reason.INVALID),
        (signals(1.5), "owner", "signals", Reason.INVALID),
        (signals(1.5), "operator", "signals", Reason.INVALID),
        (signals(), "runtime", "step", Reason.NOT_PERMITTED),
        (approval(HUMAN), "runtime", "step", Reason.NOT_HUMAN),
        (approval(HUMAN), "operator", "signals", Reason.NOT_HUMAN),
        (MEDIAN, "owner", "step", Reason.INVALID),
        (b"x" * (2 << 20), "owner", "step", Reason.TOO_LARGE),
    ],
    ids=lambda value: value[:20].decode() if isinstance(value, bytes) else str(value),
)
def test_what_is_refused_is_sent_where_the_stages_refuse_it_too(
    document: bytes, role: Role, topic: InputTopic, reason: Reason
) -> None:
    """To a topic of the role, that of its type if it can be, and for the same reason."""
    way = route(document, role, PLAIN)
    assert way.refused is not None
    assert (way.topic, way.refused.reason) == (topic, reason)
    assert way.topic not in LOGS
    with pytest.raises(EventRefused) as refused:
        admit(document, PLAIN.stamp(topic))
    assert refused.value.reason == reason


def test_scopes_are_those_of_the_topic() -> None:
    """The configuration says of which scopes a topic may speak; it is refused where it is sent."""
    for document, refused in ((closed("t"), True), (approval(HUMAN), False)):
        way = route(document, "owner", SCOPED)
        assert (way.refused is not None) is refused
    assert route(closed("t"), "owner", SCOPED).topic == "trace-closed"
    assert route(decided("t", "granted"), "owner", SCOPED).refused is None


def test_the_type_of_a_refused_document_need_not_be_readable() -> None:
    """Whatever stands there, there is a topic for it."""
    for document in (b'{"type":7}', b'{"type":"unknown"}', b"\xff", b"[" * 5_000, b""):
        assert refusal_topic(document, "owner") == "step"


@pytest.mark.parametrize(
    ("origin", "topic"),
    [
        ("trustfold.step/3/17", "step"),
        ("trustfold.trace-closed/0/0", "trace-closed"),
        ("trustfold.policy/0/4", None),
        ("trustfold.facts/0/4", None),
        ("other.step/0/4", None),
        ("log.jsonl:7", None),
    ],
)
def test_the_topic_that_a_dead_letter_came_from(origin: str, topic: InputTopic | None) -> None:
    """An input topic of this pipeline that a stage reads; nothing else."""
    assert origin_topic(PLAIN, origin) == topic
