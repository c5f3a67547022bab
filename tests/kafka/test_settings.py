"""KafkaSettings: where values come from, which one wins, and what an error says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from trustfold_projections.laws.admission import PUBLISHERS
from trustfold_schemas.facts import Stamp
from trustfold_streams.kafka.errors import KafkaSettingsError
from trustfold_streams.kafka.settings import INPUT_TOPICS, ROLES, KafkaSettings, bootstrap_of, load

STORE = "kafka://one:9092"
SASL = (
    'security_protocol = "SASL_SSL"\nsasl_mechanism = "SCRAM-SHA-512"\nsasl_plain_username = "w"\n'
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Where a test writes its configuration."""
    return tmp_path / "trustfold.toml"


def refusal(store: str | None, config: Path | None, environment: Mapping[str, str]) -> str:
    """What `load` says when it refuses."""
    with pytest.raises(KafkaSettingsError) as caught:
        load(store, config, environment)
    return str(caught.value)


# ---- where values come from ------------------------------------------------------------------


def test_a_store_is_enough() -> None:
    """With only a broker named, everything else has its documented default."""
    made = load("kafka://one:9092,[::1]:9093", None, {})
    assert made == KafkaSettings("one:9092,[::1]:9093")
    assert (made.prefix, made.partitions, made.memory_days) == ("trustfold.", 12, 14)
    assert made.client_options() == {
        "bootstrap_servers": "one:9092,[::1]:9093",
        "security_protocol": "PLAINTEXT",
    }


def test_the_nearer_place_wins(config: Path) -> None:
    """The command line goes over the environment, and that over the file."""
    config.write_text(
        '[kafka]\nbootstrap = "file:1"\nprefix = "file."\npartitions = 3\n', encoding="utf-8"
    )
    environment = {
        "TRUSTFOLD_CONFIG": str(config),
        "TRUSTFOLD_KAFKA_BOOTSTRAP": "environment:1",
        "TRUSTFOLD_TOPIC_PREFIX": "environment.",
    }
    made = load(None, None, environment)
    assert (made.bootstrap, made.prefix, made.partitions) == ("environment:1", "environment.", 3)
    assert load(STORE, None, environment).bootstrap == "one:9092"
    assert load(None, None, {"TRUSTFOLD_CONFIG": str(config)}).bootstrap == "file:1"


def test_config_goes_over_the_variable(config: Path, tmp_path: Path) -> None:
    """`--config` is read instead of the file that TRUSTFOLD_CONFIG names, which may be missing."""
    config.write_text("[kafka]\npartitions = 7\n", encoding="utf-8")
    environment = {"TRUSTFOLD_CONFIG": str(tmp_path / "missing.toml")}
    assert load(STORE, config, environment).partitions == 7


def test_other_tables_are_left_to_others(config: Path) -> None:
    """A configuration that says nothing of Kafka, or of other things too, is fine."""
    config.write_text("[http]\nport = 80\n", encoding="utf-8")
    assert load(STORE, config, {}) == KafkaSettings("one:9092")


def test_a_password_may_come_from_the_environment_alone(config: Path) -> None:
    """The file may hold all but the secret, which the environment adds."""
    config.write_text(f"[kafka.security]\n{SASL}", encoding="utf-8")
    environment = {"TRUSTFOLD_KAFKA_SASL_PLAIN_PASSWORD": "hunter2"}
    made = load(STORE, config, environment)
    assert made.client_options()["sasl_plain_password"] == "hunter2"
    assert made.client_options()["sasl_mechanism"] == "SCRAM-SHA-512"
    assert "needs sasl_plain_password" in refusal(STORE, config, {})


# ---- what an error says ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "key", "said"),
    [
        ("partitions = 0", "kafka.partitions", "Expected `int` >= 1"),
        ("partitions = '12'", "kafka.partitions", "Expected `int`, got `str`"),
        ("partition = 12", "kafka", "unknown field `partition`"),
        ("bootstrap = 'one'", "kafka", "`one` is not HOST:PORT"),
        ("bootstrap = 'one:70000'", "kafka", "`one:70000` is not HOST:PORT"),
        ("prefix = 'a/b'", "kafka", "prefix `a/b` may hold only"),
        ("memory_days = 1.5", "kafka.memory_days", "Expected `int`, got `float`"),
        ("[kafka.publishers.aproval]", "kafka.publishers", "Invalid enum value 'aproval'"),
        ("[kafka.publishers.undo]\nscope = 'x'", "kafka.publishers", "unknown field `scope`"),
        ("[kafka.security]\nsasl_mechanism = 'OAUTHBEARER'", "kafka.security", "Invalid enum"),
        ("security = 3", "kafka.security", "Expected `object`, got `int`"),
    ],
)
def test_an_error_names_the_file_and_the_key(
    config: Path, content: str, key: str, said: str
) -> None:
    """What is wrong in the file is told with the file's name, the key, and what was wanted."""
    config.write_text(f"[kafka]\n{content}\n", encoding="utf-8")
    told = refusal(None if "bootstrap" in content else STORE, config, {})
    assert told.startswith(f"{config}: {key}")
    assert said in told


@pytest.mark.parametrize(
    "variable",
    ["TRUSTFOLD_TOPIC_PARTITIONS", "TRUSTFOLD_TOPIC_REPLICATION", "TRUSTFOLD_SESSION_TIMEOUT_MS"],
)
def test_an_error_names_the_variable(config: Path, variable: str) -> None:
    """What is wrong in the environment is not blamed on the file."""
    config.write_text("[kafka]\npartitions = 3\n", encoding="utf-8")
    told = refusal(STORE, config, {variable: "many"})
    assert told.startswith(f"{variable} in the environment: Expected `int")


def test_a_misspelled_variable_is_an_error() -> None:
    """A variable that would set nothing is refused: somebody means a safer connection."""
    told = refusal(STORE, None, {"TRUSTFOLD_KAFKA_SASL_PASWORD": "hunter2"})
    assert told.startswith("TRUSTFOLD_KAFKA_SASL_PASWORD in the environment is no setting")
    assert "TRUSTFOLD_KAFKA_SASL_PLAIN_PASSWORD" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read"), ("[kafka", "is not TOML"), ("kafka = 3", "must be a table")],
)
def test_a_file_that_is_none_is_told(config: Path, content: str | None, said: str) -> None:
    """A missing file, or one of another kind, is named together with the variable that named it."""
    if content is not None:
        config.write_text(content, encoding="utf-8")
    told = refusal(STORE, None, {"TRUSTFOLD_CONFIG": str(config)})
    assert told.startswith(f"{config} (TRUSTFOLD_CONFIG)")
    assert said in told


@pytest.mark.parametrize(
    "store", ["trust.db", "kafka:one:9092", "kafka://", "kafka://one", "kafka://one:9092,", "a:1"]
)
def test_a_store_that_names_no_broker_is_told(store: str) -> None:
    """`--store` must be kafka://HOST:PORT, and the message says so."""
    with pytest.raises(KafkaSettingsError, match=re.escape("kafka://HOST:PORT[,HOST:PORT]")):
        bootstrap_of(store)


def test_no_broker_at_all_is_told() -> None:
    """Without any place that names a broker the message lists the places."""
    told = refusal(None, None, {})
    assert "--store kafka://HOST:PORT" in told
    assert "TRUSTFOLD_CONFIG" in told


# ---- security --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"SASL_PLAIN_PASSWORD": "x"}, "would not use it"),
        ({"SSL_CAFILE": "ca.pem"}, "would not use it"),
        ({"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SSL_CAFILE": "ca.pem"}, "would not use it"),
        ({"SECURITY_PROTOCOL": "SASL_SSL"}, "needs sasl_mechanism"),
        (
            {"SECURITY_PROTOCOL": "SASL_SSL", "SASL_MECHANISM": "PLAIN"},
            "needs sasl_plain_username",
        ),
    ],
)
def test_security_that_contradicts_itself_is_refused(keys: Mapping[str, str], said: str) -> None:
    """What would silently leave a connection less safe than it was meant to be is an error."""
    environment = {f"TRUSTFOLD_KAFKA_{key}": value for key, value in keys.items()}
    assert said in refusal(STORE, None, environment)


def test_a_certificate_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A missing PEM file is an error that names its key, before anything connects."""
    environment = {
        "TRUSTFOLD_KAFKA_SECURITY_PROTOCOL": "SSL",
        "TRUSTFOLD_KAFKA_SSL_CAFILE": str(tmp_path / "ca.pem"),
    }
    made = load(STORE, None, environment)
    with pytest.raises(KafkaSettingsError, match=r"kafka\.security\.ssl_cafile cannot be used"):
        made.client_options()


def test_secrets_are_not_shown() -> None:
    """No repr holds a password, so that no log and no traceback does."""
    environment = {
        "TRUSTFOLD_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "TRUSTFOLD_KAFKA_SASL_MECHANISM": "PLAIN",
        "TRUSTFOLD_KAFKA_SASL_PLAIN_USERNAME": "worker",
        "TRUSTFOLD_KAFKA_SASL_PLAIN_PASSWORD": "hunter2",
        "TRUSTFOLD_KAFKA_SSL_PASSWORD": "hunter3",
    }
    made = load(STORE, None, environment)
    assert "worker" in repr(made)
    assert "hunter" not in repr(made)


# ---- names and publishers --------------------------------------------------------------------


def test_every_name_on_the_broker_begins_with_the_prefix() -> None:
    """One prefixed ACL covers topics, groups and transactional ids; no two prefixes share any."""
    for prefix in ("trustfold.", "a.", "a-", "a", ""):
        made = KafkaSettings("one:9092", prefix)
        assert made.topic("facts") == f"{prefix}facts"
        assert made.app_id.startswith(prefix)
    ids = {KafkaSettings("one:9092", prefix).app_id for prefix in ("a.", "a-", "a", "a.worker", "")}
    assert len(ids) == 5


def test_a_slot_names_a_member_in_every_group() -> None:
    """With a slot a worker is the same member after a restart; without one it joins anew."""
    assert KafkaSettings("one:9092").instance("fold") is None
    assert KafkaSettings("one:9092", worker_instance="w0").instance("fold") == "w0-fold"


def test_publishers_come_from_the_configuration(config: Path) -> None:
    """Identity and scopes are the topic's; left out, nobody in particular speaks of all scopes."""
    config.write_text(
        '[kafka.publishers.approval]\nidentity = "desk"\nscopes = ["alice", ""]\n', encoding="utf-8"
    )
    made = load(STORE, config, {})
    assert made.stamp("approval") == Stamp("human", "desk", ("alice", ""))
    assert made.stamp("step") == Stamp("runtime")


def test_every_input_topic_has_the_one_role_of_its_acl() -> None:
    """The roles agree with the law of admission: each may publish there, and no other topic is."""
    assert set(INPUT_TOPICS) == set(ROLES) == set(PUBLISHERS)
    for topic, role in ROLES.items():
        assert role in PUBLISHERS[topic]
    # Approvals and undos by rule or policy travel on `step`, so that these two speak for humans.
    assert {topic for topic, role in ROLES.items() if role == "human"} == {"approval", "undo"}


def test_settings_and_topics_need_no_kafka_library() -> None:
    """The command line starts, and says what to install, where the extra is missing."""
    code = (
        "import sys; sys.modules['aiokafka'] = None\n"
        "from trustfold_streams.cli.front import run\n"
        "sys.exit(run(['--store', 'kafka://127.0.0.1:9', 'topics', 'check']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "trustfold: talking to Kafka needs an extra that is not installed (aiokafka missing): "
        "pip install 'trustfold[streams]'\n"
    )
