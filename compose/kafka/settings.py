"""What the one node is told: the settings of its `server.properties`, and a cluster id."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

HOST = "127.0.0.1"


def server_properties(log: Path, port: int, controller_port: int) -> dict[str, str]:
    """The settings of one node that is broker and controller, for this machine only."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
        "log.dirs": str(log),
        # With a controlled shutdown a lone node that gets SIGTERM under load reports transactions
        # as committed whose markers are missing on some partitions (KAFKA-20734).
        "controlled.shutdown.enable": "false",
        # Without it a broker that comes back must wait until its old self counts as dead: 9 s,
        # if nobody says otherwise.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # A misspelled topic is an error, not a new topic with the wrong settings.
        "auto.create.topics.enable": "false",
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # Light enough for a laptop: 50 partitions each, and a cleaner of 128 MiB, otherwise.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "log.cleaner.dedupe.buffer.size": str(32 << 20),
        "num.network.threads": "2",
        "num.io.threads": "4",
        # A group is complete when its first member is there, and tests lose members on purpose.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
    }


def cluster_id() -> str:
    """A fresh id as Kafka writes them: 16 bytes in URL-safe base64, no option-like dash first."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not made.startswith("-"):
            return made
