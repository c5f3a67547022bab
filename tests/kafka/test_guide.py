"""docs/kafka.md names what there is: no topic, setting or role was forgotten."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest

from trustfold_schemas.facts import Role
from trustfold_streams.cli.worker import worker
from trustfold_streams.kafka.security import Security
from trustfold_streams.kafka.settings import (
    INPUT_TOPICS,
    ROLES,
    KafkaSettings,
    load,
)
from trustfold_streams.kafka.topic_rules import OWN_TOPICS

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "kafka.md").read_text(encoding="utf-8")
LOOPS = re.findall(r"^for topic in (.*?); do\n +ACLS (.*)$", GUIDE, re.MULTILINE)


def topics_of(principal: str, operation: str) -> set[str]:
    """The topics on which the recipe of ACLs allows an operation."""
    return {
        topic
        for names, allowed in LOOPS
        if f"User:{principal} " in allowed and f"--operation {operation} " in allowed
        for topic in names.split()
    }


def test_the_recipe_of_acls_is_shell() -> None:
    """Run with a stand-in for kafka-acls.sh it asks for what the loops say, topic by topic."""
    (block,) = re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    stand_in = 'set -eu\nACLS() { printf "%s\\n" "$*"; }\n'
    done = subprocess.run(
        ["bash", "-c", stand_in + block], capture_output=True, text=True, check=True
    )
    asked = [line.split() for line in done.stdout.splitlines()]
    assert all(words[0] == "--add" and "--allow-principal" in words for words in asked)
    writes = {
        words[words.index("--topic") + 1]
        for words in asked
        if "User:human" in words and "Write" in words
    }
    assert writes == {"trustfold.approval", "trustfold.undo"}


def test_every_option_of_a_worker_is_told() -> None:
    """In the table of options."""
    for option in worker.params:
        name = option.opts[0]
        assert f"`{name}" in GUIDE or name == "--store", name


def test_every_topic_is_told() -> None:
    """In the table of topics, by its name without the prefix."""
    for name in (*INPUT_TOPICS, *OWN_TOPICS):
        assert f"`{name}`" in GUIDE


def test_every_setting_is_told() -> None:
    """The keys of [kafka]; those that are tables have an example."""
    for field in msgspec.structs.fields(KafkaSettings):
        assert f"`{field.name}`" in GUIDE or f"[kafka.{field.name}" in GUIDE
    assert "[kafka.security]" in GUIDE
    for key in ("security_protocol", "sasl_mechanism", "ssl_cafile"):
        assert key in Security.__struct_fields__
        assert key in GUIDE


def test_the_example_of_settings_can_be_read(tmp_path: Path) -> None:
    """It is TOML of the shape that is read, but for the certificate that is not there."""
    (block,) = re.findall(r"^```toml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    (tmp_path / "kafka.toml").write_text(block, encoding="utf-8")
    settings = load(None, tmp_path / "kafka.toml", {})
    assert settings.security.security_protocol == "SASL_SSL"
    assert settings.stamp("approval").identity == "approval-service"


@pytest.mark.parametrize("role", ["runtime", "human", "operator"])
def test_a_role_may_write_its_topics_and_no_other(role: Role) -> None:
    """The recipe allows what the roles say; an operator marks dead letters, too."""
    own = {topic for topic, admitted in ROLES.items() if admitted == role}
    assert topics_of(role, "Write") - {"dead-letters"} == own


def test_a_worker_may_do_its_work() -> None:
    """It reads every topic and writes all that are not inputs."""
    assert topics_of("worker", "Read") == {*INPUT_TOPICS, *OWN_TOPICS}
    assert topics_of("worker", "Write") == set(OWN_TOPICS)
