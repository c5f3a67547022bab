"""`trustfold topics` against a real broker: creating, and finding every kind of wrong setting."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from compose.kafka.broker import free_port
from tests.broker.running import Running
from trustfold_streams.cli.front import run
from trustfold_streams.kafka import admin, topic_rules, topics
from trustfold_streams.kafka.errors import BrokerUnreachableError
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.topic_rules import DAY_MS, MEBIBYTE
from trustfold_streams.kafka.topics import Finding

broker_test = pytest.mark.broker

PARTITIONS = 2
SECONDS_MAX = 30.0

WRONG: Mapping[str, str] = {
    "retention.ms": "3600000",
    "retention.bytes": "1000000",
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(MEBIBYTE),
    "unclean.leader.election.enable": "true",
    "delete.retention.ms": "1000",
    "segment.ms": str(7 * DAY_MS),
}
"""A wrong value of every setting that has a rule; cleanup.policy has one by topic."""


@pytest.fixture
def settings(broker: Running, prefix: str) -> KafkaSettings:
    """Settings for topics that nobody else uses."""
    return KafkaSettings(broker.bootstrap, prefix, PARTITIONS)


@pytest.fixture
def trustfold(
    settings: KafkaSettings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str]]:
    """Runs `trustfold topics` on these settings; the exit code and what it printed."""
    monkeypatch.setenv("TRUSTFOLD_TOPIC_PREFIX", settings.prefix)
    monkeypatch.setenv("TRUSTFOLD_TOPIC_PARTITIONS", str(settings.partitions))

    def call(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        store = f"kafka://{settings.bootstrap}"
        code = run(["--store", store, "topics", *arguments])
        return code, "".join(capsys.readouterr())

    return call


def administer(bootstrap: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Do something to the broker that trustfold itself would not do."""

    async def done() -> Any:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(done())


def alter(settings: KafkaSettings, name: str, **changed: str) -> None:
    """Change settings of a topic (with `_` for `.`), leaving the others as they were created."""
    rules = topics.declared(settings)[settings.topic(name)].rules
    made = {rule.key: rule.create for rule in rules}
    made |= {key.replace("_", "."): value for key, value in changed.items()}
    alter_all(settings, {settings.topic(name): made})


def alter_all(settings: KafkaSettings, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Set exactly these settings of topics, and wait until the broker tells of them."""
    wanted = [
        ConfigResource(ConfigResourceType.TOPIC, name, dict(of)) for name, of in configs.items()
    ]
    for answer in administer(settings.bootstrap, lambda client: client.alter_configs(wanted)):
        assert [code for code, *_ in answer.resources if code] == []

    async def seen() -> None:
        async with admin.connected(settings) as asked, asyncio.timeout(SECONDS_MAX):
            while True:
                have = await asked.topic_configs(configs)
                if all(of.items() <= have[name].items() for name, of in configs.items()):
                    return
                await asyncio.sleep(0.02)

    asyncio.run(seen())


def check(settings: KafkaSettings) -> list[Finding]:
    """What is wrong with topics; a lone node is a note, and true of every broker here."""
    return [one for one in asyncio.run(topics.check(settings)) if one.topic is not None]


def places(findings: Sequence[Finding]) -> set[tuple[str | None, str]]:
    """Topic and setting of each finding."""
    return {(one.topic, one.setting) for one in findings}


# ---- create ----------------------------------------------------------------------------------


@broker_test
def test_what_is_created_is_right(settings: KafkaSettings) -> None:
    """Right after `create` every declared topic is there, and `check` finds nothing wrong."""
    created = asyncio.run(topics.create(settings))
    assert sorted(created) == sorted(topics.declared(settings))
    assert check(settings) == []


@broker_test
def test_create_twice_is_create_once(settings: KafkaSettings) -> None:
    """A second `create` makes nothing and changes nothing, be it wrong or right."""
    asyncio.run(topics.create(settings))
    alter(settings, "facts", retention_ms="1000")
    before = check(settings)
    assert asyncio.run(topics.create(settings)) == []
    assert check(settings) == before != []


@broker_test
def test_two_creates_at_once_are_one(settings: KafkaSettings) -> None:
    """Workers that start together may both create: each topic is made once, and neither fails."""

    async def both() -> tuple[list[str], list[str]]:
        return await asyncio.gather(topics.create(settings), topics.create(settings))

    one, other = asyncio.run(both())
    assert sorted(one + other) == sorted(topics.declared(settings))
    assert check(settings) == []


@broker_test
def test_create_fills_gaps(settings: KafkaSettings) -> None:
    """Where some topics exist, the missing ones are created beside them."""
    name = settings.topic("trace-closed")
    administer(settings.bootstrap, lambda client: client.create_topics([NewTopic(name, 5, 1)]))
    assert name not in asyncio.run(topics.create(settings))
    assert {one.topic for one in check(settings)} == {name}  # it has Kafka's own defaults


@broker_test
def test_the_largest_records_fit(settings: KafkaSettings) -> None:
    """An event of 1 MiB fits into its topic, and 7 MiB into the topics of states and envelopes."""
    asyncio.run(topics.create(settings))

    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=settings.bootstrap, max_request_size=8 * MEBIBYTE
        )
        await producer.start()
        try:
            headers = [("ce_type", b"trustfold.trace.closed.v1")]
            await producer.send_and_wait(
                settings.topic("trace-closed"), bytes(MEBIBYTE), b"t" * 256, headers=headers
            )
            for name in topic_rules.LARGE:
                await producer.send_and_wait(settings.topic(name), bytes(7 * MEBIBYTE), b"key")
        finally:
            await producer.stop()

    asyncio.run(send())


# ---- check -----------------------------------------------------------------------------------


@broker_test
def test_check_names_every_missing_topic_and_makes_none(settings: KafkaSettings) -> None:
    """All declared topics are missing at first, and still missing after `check` has asked."""
    wanted = {(name, "topic") for name in topics.declared(settings)}
    assert places(check(settings)) == wanted
    assert places(check(settings)) == wanted


@broker_test
def test_check_names_every_wrong_setting_and_how_to_mend_it(settings: KafkaSettings) -> None:
    """Each rule of each topic, broken, is found by itself; doing what `mend` says ends it."""
    asyncio.run(topics.create(settings))
    declared = topics.declared(settings)
    broken = {
        name: {
            rule.key: WRONG[rule.key]
            if rule.key in WRONG
            else {"compact": "compact,delete", "delete": "compact"}[rule.create]
            for rule in topic.rules
        }
        for name, topic in declared.items()
    }
    alter_all(settings, broken)
    findings = check(settings)
    assert places(findings) == {
        (name, rule.key) for name, topic in declared.items() for rule in topic.rules
    }
    assert {one.setting for one in findings if not one.breaks_a_promise} == {"segment.ms"}
    mended: dict[str, dict[str, str]] = {}
    for one in findings:
        told = re.search(r"--entity-name (\S+) --add-config (\S+)=(\S+)$", one.mend)
        assert told, one.mend
        mended.setdefault(told.group(1), {})[told.group(2)] = told.group(3)
    alter_all(settings, mended)
    assert check(settings) == []


@broker_test
def test_input_topics_may_not_take_what_no_dead_letter_could_hold(
    settings: KafkaSettings,
) -> None:
    """A limit of message size far over an event's is wrong too: its refusal could not be kept."""
    asyncio.run(topics.create(settings))
    alter(settings, "step", max_message_bytes=str(16 * MEBIBYTE))
    name = settings.topic("step")
    [found] = check(settings)
    assert (found.topic, found.setting, found.have) == (name, "max.message.bytes", "16777216")
    assert "at most 4194304" in found.want


@broker_test
def test_check_counts_partitions_where_they_matter(settings: KafkaSettings) -> None:
    """Input topics may have any number; the pipeline's own have theirs, and some must have one."""
    counts = {"trace-closed": 5, "facts": 5, "scores": 1, "progress": 2, "policy": 2}
    declared = topics.declared(settings)
    made = [
        NewTopic(
            settings.topic(name),
            count,
            1,
            topic_configs={rule.key: rule.create for rule in declared[settings.topic(name)].rules},
        )
        for name, count in counts.items()
    ]
    administer(settings.bootstrap, lambda client: client.create_topics(made))
    asyncio.run(topics.create(settings))
    found = {one.topic: (one.setting, one.have, one.want) for one in check(settings)}
    assert found == {
        settings.topic("facts"): ("partitions", "5", "2"),
        settings.topic("scores"): ("partitions", "1", "2"),
        settings.topic("progress"): ("partitions", "2", "1"),
        settings.topic("policy"): ("partitions", "2", "1"),
    }


@broker_test
def test_writing_that_can_never_succeed_is_found(settings: KafkaSettings) -> None:
    """A topic that wants more replicas in step than it has is wrong before anybody writes."""
    asyncio.run(topics.create(settings))
    alter(settings, "ledger", min_insync_replicas="2")
    name = settings.topic("ledger")
    [found] = check(settings)
    assert (found.topic, found.setting, found.have) == (name, "min.insync.replicas", "2")
    assert found.breaks_a_promise


@broker_test
def test_a_lone_node_is_a_note(broker: Running, settings: KafkaSettings) -> None:
    """On one node `check` says that every record is there once, and finds the node's settings."""
    if broker.process is None:
        pytest.skip("how many nodes there are is the choice of whoever started them")
    notes = [one for one in asyncio.run(topics.check(settings)) if one.topic is None]
    assert [(one.setting, one.have, one.breaks_a_promise) for one in notes] == [
        ("nodes", "1", False)
    ]

    async def configs() -> dict[str, str]:
        async with admin.connected(settings) as asked:
            return (await asked.node_configs(await asked.nodes()))["1"]

    known = asyncio.run(configs())
    assert {one.key for one in topic_rules.ADVICE} <= set(known)
    assert known["controlled.shutdown.enable"] == "false"


# ---- the command -----------------------------------------------------------------------------


@broker_test
def test_the_command_creates_and_checks(trustfold: Callable[..., tuple[int, str]]) -> None:
    """`check` is exit 1 before `create` and 0 after it; both say what they did in words."""
    code, said = trustfold("check")
    assert code == 1
    assert "topic is missing" in said
    assert "trustfold topics create" in said
    code, said = trustfold("create")
    assert code == 0
    assert said.count("created ") == 22
    assert "22 of 22 topics are as they must be" in said
    assert trustfold("check")[0] == 0
    assert "nothing to create" in trustfold("create")[1]


@broker_test
def test_the_command_speaks_json(
    settings: KafkaSettings, trustfold: Callable[..., tuple[int, str]]
) -> None:
    """`create --json` is one object, `check --json` one finding a line; wrong topics are exit 1."""
    code, said = trustfold("create", "--json")
    assert code == 0
    assert sorted(json.loads(said)["created"]) == sorted(topics.declared(settings))
    alter(settings, "watch", cleanup_policy="compact")
    code, said = trustfold("check", "--json")
    assert code == 1
    [found] = [one for one in map(json.loads, said.splitlines()) if one["breaks_a_promise"]]
    assert (found["topic"], found["setting"]) == (settings.topic("watch"), "cleanup.policy")
    assert set(found) == {
        "topic", "setting", "have", "want", "why", "mend", "breaks_a_promise"
    }  # fmt: skip


@pytest.mark.parametrize("command", ["create", "check"])
def test_a_broker_that_is_not_there_is_exit_3(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nobody listens, one line names the address and the reason; nothing waits for long."""
    port = free_port()
    assert run(["--store", f"kafka://127.0.0.1:{port}", "topics", command]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith(f"trustfold: no broker answers at 127.0.0.1:{port} (PLAINTEXT): ")


@broker_test
def test_a_frozen_broker_is_not_waited_for(
    own_broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose port is open and that says nothing is given up after the bounded wait."""
    assert own_broker.process is not None
    monkeypatch.setattr(admin, "REQUEST_TIMEOUT_MS", 500)
    own_broker.process.freeze()
    with pytest.raises(BrokerUnreachableError, match="TimeoutError"):
        asyncio.run(topics.check(KafkaSettings(own_broker.bootstrap)))
