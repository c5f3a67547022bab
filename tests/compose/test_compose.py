"""compose.yaml and its Dockerfile, read: no Docker is needed to know that they say what we mean."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types, and what it reads is Any anyway

from compose.kafka.settings import server_properties

COMPOSE = Path(__file__).resolve().parents[2] / "compose"
REQUIREMENTS = COMPOSE.parent / "requirements"
FILE: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
DOCKERFILE = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")
POM = (COMPOSE / "kafka" / "pom.xml").read_text(encoding="utf-8")

ONE_SHOT = {"topics"}

PROMISES = (
    "process.roles",
    "controlled.shutdown.enable",
    "broker.session.timeout.ms",
    "broker.heartbeat.interval.ms",
    "auto.create.topics.enable",
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)
"""What both brokers must have alike; the rest makes the one without Docker lighter."""


def pins(lock: Path) -> set[str]:
    """Every `name==version` of a lock."""
    return set(re.findall(r"^[a-z0-9-]+==\S+", lock.read_text(encoding="utf-8"), re.MULTILINE))


def test_the_file_is_a_compose_file() -> None:
    """compose.yaml is valid by the vendored schema of the Compose Specification."""
    schema = json.loads((COMPOSE / "schema" / "compose-spec.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    checker = jsonschema.Draft202012Validator(schema)
    assert [error.message for error in checker.iter_errors(FILE)] == []
    assert list(checker.iter_errors({"services": {"kafka": {"imag": "x"}}}))


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONE_SHOT))
def test_what_runs_is_watched_and_comes_back(name: str) -> None:
    """A service that runs on has a health check and is started again, even after exit 70."""
    service = SERVICES[name]
    assert service["healthcheck"]["test"]
    assert {"interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"])
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(ONE_SHOT))
def test_what_ends_is_not_started_again(name: str) -> None:
    """A service that ends is waited for by its success and needs no health check."""
    assert SERVICES[name]["restart"] == "no"
    waiting = [
        other
        for other, service in SERVICES.items()
        if service.get("depends_on", {}).get(name, {}).get("condition")
        == "service_completed_successfully"
    ]
    assert waiting == ["worker"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_has_a_limit_of_memory(name: str) -> None:
    """No service can take the machine's memory."""
    assert re.fullmatch(r"\d+[mg]", SERVICES[name]["mem_limit"])


def test_the_log_outlives_its_container() -> None:
    """What Kafka writes lies on a named volume."""
    [volume] = SERVICES["kafka"]["volumes"]
    name, _, folder = volume.partition(":")
    assert name in FILE["volumes"]
    assert folder == SERVICES["kafka"]["environment"]["KAFKA_LOG_DIRS"]


def test_only_this_machine_reaches_the_broker() -> None:
    """Without TLS and ACLs nothing is published beyond 127.0.0.1."""
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_versions_are_pinned() -> None:
    """Images have versions; ours is built here and told from any that a registry has."""
    images = [service["image"] for service in SERVICES.values() if "build" not in service]
    images += re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert images
    for image in images:
        assert re.fullmatch(r"[a-z0-9/-]+:\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?", image), image


def test_both_brokers_are_the_same_kafka() -> None:
    """The image and the jars are of one version."""
    version = re.search(r"<kafka.version>(.+)</kafka.version>", POM)
    assert version
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{version.group(1)}"


@pytest.mark.parametrize("key", PROMISES)
def test_both_brokers_keep_the_same_promises(key: str) -> None:
    """What must hold of a lone node holds with and without Docker."""
    variable = "KAFKA_" + key.upper().replace(".", "_")
    without_docker = server_properties(Path("log"), 9092, 9093)
    assert SERVICES["kafka"]["environment"][variable] == without_docker[key]


def test_a_lone_node_has_no_controlled_shutdown() -> None:
    """The setting with which SIGTERM under load loses the ends of transactions is off."""
    assert server_properties(Path("log"), 9092, 9093)["controlled.shutdown.enable"] == "false"


def test_clients_find_the_broker_by_the_address_that_it_advertises() -> None:
    """The workers' store and the advertised listener name the same host and port."""
    advertised = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert "PLAINTEXT://kafka:9092" in advertised.split(",")
    for name in ("topics", "worker"):
        assert SERVICES[name]["command"][:2] == ["--store", "kafka://kafka:9092"]


def test_the_image_installs_what_is_locked() -> None:
    """Everything comes from a lock with hashes; pip resolves nothing by itself."""
    installs = re.findall(r"pip (?:install|wheel) ([^&\n]+)", DOCKERFILE)
    assert len(installs) == 4
    for install in installs:
        assert "--require-hashes" in install or "--no-deps --no-index" in install, install
    assert pins(REQUIREMENTS / "streams.lock")
    assert pins(REQUIREMENTS / "streams.lock") <= pins(REQUIREMENTS / "dev.lock")
    assert pins(REQUIREMENTS / "run.lock") <= pins(REQUIREMENTS / "streams.lock")


def test_the_image_does_not_run_as_root() -> None:
    """The last word on who runs is a number other than 0."""
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert users
    assert int(users[-1]) > 0
