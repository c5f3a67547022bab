"""The broker of compose/kafka as a process: it comes back with what it acknowledged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from compose.kafka.broker import Broker, BrokerError, answers, free_port
from tests.broker.running import Running

pytestmark = pytest.mark.broker

SECONDS_MAX = 60.0


async def create(bootstrap: str) -> None:
    """Make the topic `kept` with one partition."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic("kept", 1, 1)])
    finally:
        await admin.close()


async def send(bootstrap: str, value: bytes) -> None:
    """Send a record and wait for its acknowledgement."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    try:
        await producer.send_and_wait("kept", value, partition=0)
    finally:
        await producer.stop()


async def values(bootstrap: str) -> list[bytes]:
    """All that the topic holds."""
    place = TopicPartition("kept", 0)
    # With the default, `latest`, a reset to the end may overtake the seek to the beginning.
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        await consumer.seek_to_beginning(place)
        found: list[bytes] = []
        async with asyncio.timeout(SECONDS_MAX):
            while await consumer.position(place) < end:
                for records in (await consumer.getmany(place, timeout_ms=200)).values():
                    found += [record.value or b"" for record in records]
        return found
    finally:
        await consumer.stop()


def test_a_broker_comes_back_with_what_it_acknowledged(own_broker: Running) -> None:
    """After SIGTERM and after SIGKILL it answers on the same port and holds every record."""
    process, bootstrap = own_broker.process, own_broker.bootstrap
    assert process is not None
    asyncio.run(create(bootstrap))
    asyncio.run(send(bootstrap, b"before SIGTERM"))
    process.restart()
    asyncio.run(send(bootstrap, b"before SIGKILL"))
    process.kill()
    assert not answers(process.port)
    process.start()
    assert process.bootstrap == bootstrap
    assert asyncio.run(values(bootstrap)) == [b"before SIGTERM", b"before SIGKILL"]


def test_a_frozen_broker_does_not_answer_until_it_thaws(own_broker: Running) -> None:
    """SIGSTOP leaves its port open and nobody there; SIGCONT brings it back; SIGTERM ends both."""
    process = own_broker.process
    assert process is not None
    process.freeze()
    assert not answers(process.port)
    process.thaw()
    assert answers(process.port)
    process.freeze()
    process.stop()
    assert process.pid is None


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    """A start that fails shows the end of the broker's own log and leaves no process behind."""
    process = Broker(tmp_path, free_port())
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "meta.properties").write_text("version=1\nnode.id=7\n", encoding="ascii")
    with pytest.raises(
        BrokerError, match=r"(?s)ended while starting:.*No readable meta\.properties.*broker\.log"
    ):
        process.start()
    assert process.pid is None
