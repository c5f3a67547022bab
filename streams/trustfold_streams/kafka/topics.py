"""The topics: creating what is missing, and finding what is wrong.

What each must be like stands in `topic_rules`; what they are called, in `settings`; how they are
filled is the business of the stages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from trustfold_streams.kafka.admin import Admin, NewTopic, TopicState, connected
from trustfold_streams.kafka.errors import BrokerSlowError
from trustfold_streams.kafka.settings import INPUT_TOPICS, KafkaSettings
from trustfold_streams.kafka.topic_rules import ADVICE, DAY_MS, OWN_TOPICS, SINGLE, Rule, rules_of

READY_LOOKS_MAX: Final = 150
READY_LOOK_SECONDS: Final = 0.2


class Topic(Struct, frozen=True):
    """A topic with its rules. `partitions` None: any number, `new_partitions` when created."""

    name: str
    partitions: int | None
    new_partitions: int
    rules: tuple[Rule, ...]


class Finding(Struct, frozen=True, kw_only=True):
    """Something about a topic, or about the broker (`topic` None), that should be otherwise."""

    topic: str | None
    setting: str
    have: str
    want: str
    why: str
    mend: str
    breaks_a_promise: bool = True

    def __str__(self) -> str:
        place = "the broker" if self.topic is None else self.topic
        return (
            f"{place}: {self.setting} is {self.have}, want {self.want}: {self.why}. "
            f"Mend: {self.mend}"
        )


def declared(settings: KafkaSettings) -> dict[str, Topic]:
    """Every topic of these settings, by full name."""
    made: dict[str, Topic] = {}
    for name in (*INPUT_TOPICS, *OWN_TOPICS):
        wanted = 1 if name in SINGLE else settings.partitions
        free = name in INPUT_TOPICS and name not in SINGLE
        full = settings.topic(name)
        rules = tuple(rules_of(name, settings.memory_days * DAY_MS))
        made[full] = Topic(full, None if free else wanted, wanted, rules)
    return made


async def create(settings: KafkaSettings) -> list[str]:
    """Create the topics that are missing and wait until they can be used; their names.

    What exists is left as it is, right or wrong: `check` tells.

    Raises:
        BrokerError: by its kind; see `errors`.
    """
    async with connected(settings) as admin:
        have = await admin.topics()
        nodes = await admin.nodes()
        if not nodes:
            raise BrokerSlowError(
                f"{settings.bootstrap} answers, but no node is up yet: it has just started, or was "
                "silent for seconds; try again in a moment"
            )
        replication = _replication(settings, nodes)
        missing = [
            NewTopic(
                topic.name,
                topic.new_partitions,
                replication,
                {rule.key: rule.create for rule in topic.rules} | _replicated(replication),
            )
            for topic in declared(settings).values()
            if topic.name not in have
        ]
        if not missing:
            return []
        existed = await admin.create(missing)
        await _ready(admin, [topic.name for topic in missing])
        return [topic.name for topic in missing if topic.name not in existed]


async def check(settings: KafkaSettings) -> list[Finding]:
    """Compare the broker and its topics with what they must be; nothing found is fine.

    Raises:
        BrokerError: by its kind; see `errors`.
    """
    async with connected(settings) as admin:
        wanted = declared(settings)
        have = await admin.topics()
        configs = await admin.topic_configs(name for name in wanted if name in have)
        nodes = await admin.nodes()
        found = list(_of_the_broker(nodes, await admin.node_configs(nodes)))
        for topic in wanted.values():
            state = have.get(topic.name)
            if state is None:
                found.append(_missing(topic))
            else:
                found += _of_a_topic(topic, state, configs[topic.name])
                found += _of_replicas(topic.name, state, configs[topic.name], settings, nodes)
        return found


async def _ready(admin: Admin, names: Sequence[str]) -> None:
    """Wait for the metadata: creation is acknowledged before it is everywhere."""
    waiting = list(names)
    for _ in range(READY_LOOKS_MAX):
        have = await admin.topics()
        waiting = [name for name in waiting if name not in have or not have[name].ready]
        if not waiting:
            return
        await asyncio.sleep(READY_LOOK_SECONDS)
    raise BrokerSlowError(
        f"created, but not usable (or not ours to describe) after "
        f"{READY_LOOKS_MAX * READY_LOOK_SECONDS:.0f} s: {', '.join(waiting)}"
    )


def _replicated(replication: int) -> dict[str, str]:
    return {"min.insync.replicas": "2"} if replication >= 3 else {}


def _replication(settings: KafkaSettings, nodes: Sequence[int]) -> int:
    return min(3, len(nodes)) if settings.replication is None else settings.replication


# ---- findings --------------------------------------------------------------------------------


def _missing(topic: Topic) -> Finding:
    return Finding(
        topic=topic.name,
        setting="topic",
        have="missing",
        want="there",
        why="nothing is created by the way",
        mend="trustfold topics create",
    )


def _of_a_topic(topic: Topic, state: TopicState, configs: Mapping[str, str]) -> Iterator[Finding]:
    if topic.partitions not in (None, state.partitions):
        single = topic.partitions == 1
        yield Finding(
            topic=topic.name,
            setting="partitions",
            have=str(state.partitions),
            want=str(topic.partitions),
            why="its records have one order" if single else "keys would lie in other partitions",
            mend="delete the topic if it holds nothing yet and create it again; else "
            + (
                "choose a new prefix and replay the inputs"
                if single
                else f"set partitions = {state.partitions}, if that is what the others have, or "
                "choose a new prefix and replay the inputs"
            ),
        )
    for rule in topic.rules:
        have = configs.get(rule.key, "")
        if not rule.holds(have):
            yield Finding(
                topic=topic.name,
                setting=rule.key,
                have=have,
                want=rule.want,
                why=rule.why,
                mend=_alter(topic.name, rule.key, rule.create),
                breaks_a_promise=rule.grave,
            )


def _of_replicas(
    name: str,
    state: TopicState,
    configs: Mapping[str, str],
    settings: KafkaSettings,
    nodes: Sequence[int],
) -> Iterator[Finding]:
    # On a lone node there is nothing to mend in a topic: the node itself is the finding.
    wanted = min(3, len(nodes)) if settings.replication is None else settings.replication
    wanted = max(wanted, 2 if len(nodes) > 1 else 1)
    if state.replication < wanted:
        yield Finding(
            topic=name,
            setting="replication",
            have=str(state.replication),
            want=str(wanted),
            why="the disk of one node lost, its records are lost"
            if state.replication == 1
            else "fewer copies than were asked for",
            mend="kafka-reassign-partitions.sh spreads it over more nodes",
            breaks_a_promise=False,
        )
    insync = configs.get("min.insync.replicas", "1")
    least = 2 if state.replication >= 3 else 1
    if not insync.isdigit() or not least <= int(insync) <= state.replication:
        yield Finding(
            topic=name,
            setting="min.insync.replicas",
            have=insync,
            want=f"{least} to {state.replication}" if least < state.replication else str(least),
            why="a record must be on two nodes before it counts as durable"
            if insync == "1"
            else "with fewer replicas than that nothing can be written",
            mend=_alter(name, "min.insync.replicas", str(least)),
        )


def _of_the_broker(
    nodes: Sequence[int], configs: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    alone = len(nodes) == 1
    if alone:
        yield Finding(
            topic=None,
            setting="nodes",
            have="1",
            want="3",
            why="every record is there once, replication 1: the disk lost, all is lost",
            mend="three nodes, replication 3, min.insync.replicas=2",
            breaks_a_promise=False,
        )
    for node in map(str, nodes):
        for advice in ADVICE:
            have = configs[node].get(advice.key)
            if have == advice.wrong and advice.alone in (None, alone):
                yield Finding(
                    topic=None,
                    setting=advice.key,
                    have=f"{have} on node {node}",
                    want=advice.want,
                    why=advice.why,
                    mend=f"{advice.key}={advice.want} in the node's server.properties, restart it",
                    breaks_a_promise=False,
                )


def _alter(topic: str, key: str, value: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics "
        f"--entity-name {topic} --add-config {key}={value}"
    )
