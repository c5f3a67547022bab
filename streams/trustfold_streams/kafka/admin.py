"""What we ask of a broker's administration, typed; the only place that knows aiokafka's answers.

aiokafka's admin client ships no types, answers with protocol rows, and leaves errors in them.
Topics are always listed whole: asking it for one that does not exist would create it on a broker
that creates topics by itself.
"""
# aiokafka has neither types nor stubs; each answer is given its type where it is unpacked.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from trustfold_streams.kafka.errors import (
    BrokerRefusedError,
    BrokerSlowError,
    BrokerUnreachableError,
)
from trustfold_streams.kafka.extra import require_extra
from trustfold_streams.kafka.settings import KafkaSettings

REQUEST_TIMEOUT_MS = 10_000
GROUP_ID_NOT_FOUND = 69
SECONDS_MAX = 60.0
"""Bound of one visit, whatever the number of requests."""


class TopicState(Struct, frozen=True):
    """A topic as the broker has it; `ready` when every partition has a leader."""

    partitions: int
    replication: int
    ready: bool


class NewTopic(Struct, frozen=True):
    """A topic to create."""

    name: str
    partitions: int
    replication: int
    configs: Mapping[str, str]


class Admin:
    """An open connection to a broker's administration. Made by `connected`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def topics(self) -> dict[str, TopicState]:
        """All topics that we are allowed to see."""
        found: dict[str, TopicState] = {}
        for topic in await self._client.describe_topics():
            partitions: list[dict[str, Any]] = topic["partitions"]
            if topic["error_code"] == 0 and partitions:
                found[topic["topic"]] = TopicState(
                    len(partitions),
                    min(len(partition["replicas"]) for partition in partitions),
                    all(partition["leader"] >= 0 for partition in partitions),
                )
        return found

    async def create(self, topics: Sequence[NewTopic]) -> set[str]:
        """Create topics; the names of those that somebody else created meanwhile.

        Raises:
            BrokerRefusedError: one of them cannot be created; the others may have been.
        """
        from aiokafka.admin import NewTopic as Wanted
        from aiokafka.errors import TopicAlreadyExistsError, for_code

        # A trap: it does not raise; what went wrong stands in the answer.
        answer = await self._client.create_topics(
            [
                Wanted(one.name, one.partitions, one.replication, topic_configs=dict(one.configs))
                for one in topics
            ]
        )
        existed: set[str] = set()
        refused: list[str] = []
        for name, code, *said in answer.topic_errors:
            error = for_code(code)
            if code and error is TopicAlreadyExistsError:
                existed.add(name)
            elif code:
                refused.append(f"{name}: {error.__name__}: {said[0] if said else ''}")
        if refused:
            raise BrokerRefusedError("topics cannot be created: " + "; ".join(refused))
        return existed

    async def topic_configs(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """The settings in force of topics, defaults included."""
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        return await self._configs(wanted) if wanted else {}

    async def nodes(self) -> list[int]:
        """The ids of the brokers that are up."""
        answer = await self._client.describe_cluster()
        return sorted(node["node_id"] for node in answer["brokers"])

    async def node_configs(self, nodes: Iterable[int]) -> dict[str, dict[str, str]]:
        """The settings in force of brokers, by id."""
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        return await self._configs(
            [ConfigResource(ConfigResourceType.BROKER, str(node)) for node in nodes]
        )

    async def members(self, group: str) -> int:
        """How many consumers a group has; 0 if nobody knows it."""
        from aiokafka.errors import for_code

        [answer] = await self._client.describe_consumer_groups([group])
        [(code, _, _, _, _, members, *_)] = answer.groups
        if code not in (0, GROUP_ID_NOT_FOUND):
            raise BrokerRefusedError(f"the group {group}: {for_code(code).__name__}")
        return len(members)

    async def _configs(self, resources: Sequence[Any]) -> dict[str, dict[str, str]]:
        from aiokafka.errors import for_code

        found: dict[str, dict[str, str]] = {}
        for answer in await self._client.describe_configs(list(resources)):
            for code, said, _, name, entries, *_ in answer.resources:
                if code:
                    raise BrokerRefusedError(
                        f"the settings of {name} cannot be read: {for_code(code).__name__}: {said}"
                    )
                found[name] = {entry[0]: entry[1] or "" for entry in entries}
        return found


@contextlib.asynccontextmanager
async def connected(settings: KafkaSettings) -> AsyncGenerator[Admin]:
    """Connect to a broker's administration, for at most a minute.

    Raises:
        StreamsExtraError: aiokafka is not installed.
        BrokerUnreachableError: no broker answers, or it refuses who we are.
        BrokerRefusedError: it answers with an error.
        BrokerSlowError: it takes too long.
    """
    require_extra()
    from aiokafka.admin import AIOKafkaAdminClient
    from aiokafka.errors import KafkaConnectionError, KafkaError, RequestTimedOutError

    client = AIOKafkaAdminClient(
        client_id=f"{settings.app_id}-admin",
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        **settings.client_options(),
    )
    try:
        async with asyncio.timeout(SECONDS_MAX):
            with _heard() as said:
                try:
                    await client.start()
                except KafkaError as error:
                    raise BrokerUnreachableError(
                        f"no broker answers at {settings.bootstrap} "
                        f"({settings.security.security_protocol}): "
                        f"{'; '.join(said) or error}; start it, or name another"
                    ) from None
            yield Admin(client)
    except (TimeoutError, RequestTimedOutError):
        raise BrokerSlowError(
            f"the broker at {settings.bootstrap} did not answer in time"
        ) from None
    except (KafkaConnectionError, OSError) as error:
        raise BrokerUnreachableError(
            f"the connection to {settings.bootstrap} was lost: {error}"
        ) from None
    except KafkaError as error:
        raise BrokerRefusedError(f"the broker at {settings.bootstrap} refused: {error}") from None
    finally:
        await client.close()


@contextlib.contextmanager
def _heard() -> Generator[list[str]]:
    """Collect, instead of printing, what the client only logs: why it could not connect."""
    said: list[str] = []

    def hear(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            # Some errors have a name and no text, such as a broker that hangs up on TLS.
            args = record.args if isinstance(record.args, tuple) else ()
            names = [
                type(one).__name__ for one in args if isinstance(one, Exception) and not f"{one}"
            ]
            said.append(record.getMessage() + "".join(names))
        return record.levelno < logging.WARNING

    loggers = [logging.getLogger(name) for name in ("aiokafka", "aiokafka.conn")]
    for logger in loggers:
        logger.addFilter(hear)
    try:
        yield said
    finally:
        for logger in loggers:
            logger.removeFilter(hear)
