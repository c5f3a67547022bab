"""Visiting a pipeline: what clients raise becomes an error of ours, and topics are looked at first.

Where to look instead: `admin` talks to the broker's administration, `topics` checks every setting.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Iterable, Mapping

from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

from trustfold_streams.kafka.admin import TopicState, connected
from trustfold_streams.kafka.errors import (
    BrokerRefusedError,
    BrokerSlowError,
    BrokerUnreachableError,
    UnsafeTopicsError,
)
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.topics import declared

CLIENT_LOG = "aiokafka"


@contextlib.contextmanager
def translated(settings: KafkaSettings) -> Generator[None]:
    """Raise what befalls a client as the BrokerError of its kind."""
    try:
        yield
    except (TimeoutError, KafkaTimeoutError):
        raise BrokerSlowError(
            f"the broker at {settings.bootstrap} did not answer in time"
        ) from None
    except (KafkaConnectionError, OSError) as error:
        raise BrokerUnreachableError(
            f"the connection to {settings.bootstrap} was lost, or there was none: {error}"
        ) from error
    except KafkaError as error:
        raise BrokerRefusedError(
            f"the broker at {settings.bootstrap} refused: {type(error).__name__} {error}"
        ) from error


async def topics_there(settings: KafkaSettings) -> dict[str, TopicState]:
    """All topics that we may see, by full name. Raises BrokerError where nobody answers."""
    async with connected(settings) as admin:
        return await admin.topics()


def require_topics(
    settings: KafkaSettings, have: Mapping[str, TopicState], names: Iterable[str]
) -> None:
    """Raise UnsafeTopicsError unless these topics are there, cut as the settings say.

    A client would wait for a missing one as if it were on its way.
    """
    wanted = declared(settings)
    missing: list[str] = []
    for name in map(settings.topic, names):
        state = have.get(name)
        if state is None:
            missing.append(name)
        elif wanted[name].partitions not in (None, state.partitions):
            raise UnsafeTopicsError(
                f"{name} at {settings.bootstrap} has {state.partitions} partitions, the settings "
                f"say {wanted[name].partitions}: set partitions = {state.partitions} in [kafka], "
                "or TRUSTFOLD_TOPIC_PARTITIONS"
            )
    if missing:
        raise UnsafeTopicsError(
            f"at {settings.bootstrap} these topics are missing, or not ours to see: "
            f"{', '.join(missing)}. Create them with `trustfold topics create`, or set the prefix "
            f"(it is {settings.prefix!r})"
        )


@contextlib.contextmanager
def quiet_client() -> Generator[None]:
    """Keep the client's own log to itself: while a broker is away it says so thousands of times."""

    def drop(record: logging.LogRecord) -> bool:  # noqa: ARG001 - logging's signature
        return False

    loggers = [
        logging.getLogger(name)
        for name in logging.root.manager.loggerDict
        if name.split(".")[0] == CLIENT_LOG
    ]
    for logger in loggers:
        logger.addFilter(drop)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(drop)
