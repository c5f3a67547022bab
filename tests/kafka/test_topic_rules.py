"""The rules of topics by themselves; against a broker they are in tests/broker/test_topics.py."""

from __future__ import annotations

import pytest

from trustfold_streams.kafka import topic_rules, topics
from trustfold_streams.kafka.admin import TopicState
from trustfold_streams.kafka.settings import INPUT_TOPICS, KafkaSettings
from trustfold_streams.kafka.topic_rules import DAY_MS, Rule

SETTINGS = KafkaSettings("one:9092", "p.")


def rule(topic: str, key: str) -> Rule:
    """One rule of one topic."""
    [found] = [one for one in topics.declared(SETTINGS)[f"p.{topic}"].rules if one.key == key]
    return found


def test_every_topic_of_the_specification_is_declared_once() -> None:
    """Inputs and own topics are 22, none in two classes that contradict each other."""
    assert len(topics.declared(SETTINGS)) == len(INPUT_TOPICS) + len(topic_rules.OWN_TOPICS) == 22
    names = set(INPUT_TOPICS) | set(topic_rules.OWN_TOPICS)
    for some in (
        topic_rules.KEPT_FOR_EVER,
        topic_rules.COMPACTED,
        topic_rules.LARGE,
        topic_rules.SINGLE,
    ):
        assert some <= names
    assert not topic_rules.KEPT_FOR_EVER & topic_rules.COMPACTED


def test_what_is_created_keeps_the_rules() -> None:
    """A new topic is right by every rule, and no key has two."""
    for topic in topics.declared(SETTINGS).values():
        keys = [one.key for one in topic.rules]
        assert len(keys) == len(set(keys))
        for one in topic.rules:
            assert one.holds(one.create), (topic.name, one.key)


@pytest.mark.parametrize(
    ("topic", "have", "holds"),
    [
        ("step", "-1", True),
        ("step", str(14 * DAY_MS), True),
        ("step", str(14 * DAY_MS - 1), False),
        ("dead-letters", str(DAY_MS), False),
        ("facts", "-1", True),
        ("facts", str(1000 * DAY_MS), False),
        ("facts", "", False),
    ],
)
def test_retention_is_long_enough(topic: str, have: str, holds: bool) -> None:
    """Inputs must outlast the memory of traces; what scores derive from is kept for ever."""
    assert rule(topic, "retention.ms").holds(have) is holds


def test_unlimited_is_no_size_of_a_message() -> None:
    """Where a rule has an upper bound, Kafka's -1 for no limit does not keep it."""
    assert not rule("step", "max.message.bytes").holds("-1")


def test_a_longer_memory_asks_for_a_longer_retention() -> None:
    """The bound follows the configured memory."""
    longer = KafkaSettings("one:9092", "p.", memory_days=30)
    [found] = [one for one in topics.declared(longer)["p.undo"].rules if one.key == "retention.ms"]
    assert not found.holds(str(14 * DAY_MS))


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([1], {"nodes", "controlled.shutdown.enable", "auto.create.topics.enable"}),
        (
            [1, 2, 3],
            {
                "auto.create.topics.enable",
                "transaction.state.log.replication.factor",
                "offsets.topic.replication.factor",
            },
        ),
    ],
)
def test_brokers_are_warned_of(nodes: list[int], found: set[str]) -> None:
    """Controlled shutdown is a danger on a lone node only, lone copies elsewhere; none stops us."""
    worst = {advice.key: advice.wrong for advice in topic_rules.ADVICE}
    findings = list(topics._of_the_broker(nodes, {str(node): worst for node in nodes}))
    assert {one.setting for one in findings} == found
    assert all(one.topic is None and not one.breaks_a_promise for one in findings)
    best = {advice.key: advice.want for advice in topic_rules.ADVICE}
    rest = topics._of_the_broker(nodes, {str(node): best for node in nodes})
    assert {one.setting for one in rest} <= {"nodes"}


@pytest.mark.parametrize(
    ("nodes", "wanted", "replication", "insync", "found"),
    [
        (1, None, 1, "1", []),
        (3, None, 1, "1", [("replication", "3", False)]),
        (3, None, 3, "2", []),
        (3, None, 3, "1", [("min.insync.replicas", "2 to 3", True)]),
        (3, None, 3, "4", [("min.insync.replicas", "2 to 3", True)]),
        (3, 3, 2, "1", [("replication", "3", False)]),
        (3, 1, 1, "1", [("replication", "2", False)]),
        (1, None, 1, "2", [("min.insync.replicas", "1", True)]),
    ],
)
def test_replicas(
    nodes: int,
    wanted: int | None,
    replication: int,
    insync: str,
    found: list[tuple[str, str, bool]],
) -> None:
    """Too few copies are warned of; acknowledging too early, or never, breaks a promise."""
    settings = KafkaSettings("one:9092", replication=wanted)
    state = TopicState(12, replication, ready=True)
    findings = topics._of_replicas(
        "p.facts", state, {"min.insync.replicas": insync}, settings, range(nodes)
    )
    assert [(one.setting, one.want, one.breaks_a_promise) for one in findings] == found


def test_a_finding_says_everything_in_a_line() -> None:
    """Its text has the topic, the setting, have, want, the promise and how to mend it."""
    [found] = topics._of_a_topic(
        topics.Topic("p.facts", None, 1, (rule("facts", "message.timestamp.type"),)),
        TopicState(1, 1, ready=True),
        {"message.timestamp.type": "CreateTime"},
    )
    assert str(found) == (
        "p.facts: message.timestamp.type is CreateTime, want LogAppendTime: recorded is assigned "
        "by the log, never by a publisher. Mend: kafka-configs.sh --bootstrap-server HOST:PORT "
        "--alter --entity-type topics --entity-name p.facts --add-config "
        "message.timestamp.type=LogAppendTime"
    )
