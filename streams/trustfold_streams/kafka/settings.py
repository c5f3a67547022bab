"""Where the broker is, how topics are named and cut, and as whom publishers speak.

Values come, the later over the earlier, from the defaults here, a TOML file (`--config FILE`, else
the one that TRUSTFOLD_CONFIG names), the environment, and the command line:

    [kafka]
    bootstrap = "kafka-1:9092,kafka-2:9092"     # TRUSTFOLD_KAFKA_BOOTSTRAP, --store kafka://...
    prefix = "trustfold."                       # TRUSTFOLD_TOPIC_PREFIX
    partitions = 12                             # TRUSTFOLD_TOPIC_PARTITIONS
    replication = 3                             # TRUSTFOLD_TOPIC_REPLICATION
    memory_days = 14
    session_timeout_ms = 10000                  # TRUSTFOLD_SESSION_TIMEOUT_MS
    worker_instance = "worker-0"                # TRUSTFOLD_WORKER_INSTANCE

    [kafka.security]                            # each also as TRUSTFOLD_KAFKA_<KEY>
    security_protocol = "SASL_SSL"
    sasl_mechanism = "SCRAM-SHA-512"
    sasl_plain_username = "worker"

    [kafka.publishers.approval]                 # the role comes with the topic (SPEC 2)
    identity = "approval-service"
    scopes = ["alice", "bob"]                   # left out: all scopes

Other tables of the file belong to others and are not looked at. Nothing here opens a connection.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_args

import msgspec
from msgspec import Meta, Struct

from trustfold_schemas.facts import Role, Stamp
from trustfold_streams.kafka.errors import KafkaSettingsError
from trustfold_streams.kafka.security import Security

InputTopic = Literal[
    "trace-closed",
    "signals",
    "step",
    "approval",
    "undo",
    "exclusion",
    "self-play",
    "synthesis",
    "rollback",
    "policy",
    "cost-median",
]
"""The topics that publishers write to, without their prefix (SPEC 2)."""

INPUT_TOPICS: Final[tuple[InputTopic, ...]] = get_args(InputTopic)

ROLES: Final[Mapping[InputTopic, Role]] = {
    "trace-closed": "runtime",
    "step": "runtime",
    "self-play": "runtime",
    "approval": "human",
    "undo": "human",
    "signals": "operator",
    "exclusion": "operator",
    "synthesis": "operator",
    "rollback": "operator",
    "policy": "operator",
    "cost-median": "operator",
}
"""The one role that a topic's ACL admits: on Kafka the role comes from the topic (SPEC 2)."""

SCHEME = "kafka://"
CONFIG_VARIABLE = "TRUSTFOLD_CONFIG"
_SECURITY_PREFIX = "TRUSTFOLD_KAFKA_"
_VARIABLES = {
    "bootstrap": "TRUSTFOLD_KAFKA_BOOTSTRAP",
    "prefix": "TRUSTFOLD_TOPIC_PREFIX",
    "partitions": "TRUSTFOLD_TOPIC_PARTITIONS",
    "replication": "TRUSTFOLD_TOPIC_REPLICATION",
    "session_timeout_ms": "TRUSTFOLD_SESSION_TIMEOUT_MS",
    "worker_instance": "TRUSTFOLD_WORKER_INSTANCE",
}

_HOST_PORT = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")
_PLACE = re.compile(r" - at (?:`key` in )?`\$(?P<path>.*)`$")
_PREFIX = re.compile(r"[A-Za-z0-9._-]{0,128}")


class Publisher(Struct, frozen=True, forbid_unknown_fields=True):
    """Who speaks on an input topic, beside the role that comes with the topic.

    `identity` None: nobody in particular. `scopes` None: all of them.
    """

    identity: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    scopes: tuple[Annotated[str, Meta(max_length=256)], ...] | None = None


class KafkaSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """All that a process must know to work on one set of topics.

    `bootstrap` is `host:port[,host:port]`. `partitions` bounds how many tasks of a stage work side
    by side; it is chosen once, since a change means a new prefix and a replay. `replication` None:
    as many nodes as there are, at most 3. `memory_days`: for so long a trace is remembered, and so
    long at least the input topics keep what they hold. `session_timeout_ms`: a worker silent for
    so long has lost its partitions. `worker_instance` names a worker's slot, so that a restart of
    it moves no partitions; each slot needs its own.
    """

    bootstrap: str
    prefix: str = "trustfold."
    partitions: Annotated[int, Meta(ge=1, le=10_000)] = 12
    replication: Annotated[int, Meta(ge=1, le=100)] | None = None
    memory_days: Annotated[int, Meta(ge=1, le=36_500)] = 14
    session_timeout_ms: Annotated[int, Meta(ge=1_000, le=300_000)] = 10_000
    worker_instance: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}$")] | None = None
    security: Security = Security()
    publishers: dict[InputTopic, Publisher] = {}

    def __post_init__(self) -> None:
        for part in self.bootstrap.split(","):
            found = _HOST_PORT.fullmatch(part)
            if found is None or not 0 < int(found["port"]) < 1 << 16:
                raise ValueError(f"`{part}` is not HOST:PORT, in bootstrap `{self.bootstrap}`")
        if _PREFIX.fullmatch(self.prefix) is None:
            raise ValueError(
                f"prefix `{self.prefix}` may hold only letters, digits, `.`, `_` and `-`, "
                "at most 128 of them"
            )

    @property
    def app_id(self) -> str:
        """What our groups, transactional ids and client names begin with.

        It begins with the whole prefix: one prefixed ACL covers all names, and the pipelines of
        two prefixes never share a name and fence each other.
        """
        return f"{self.prefix}worker"

    def instance(self, stage: str) -> str | None:
        """The static member of a stage's group on this worker; None joins anew each time."""
        return None if self.worker_instance is None else f"{self.worker_instance}-{stage}"

    def topic(self, name: str) -> str:
        """The full name of a topic."""
        return self.prefix + name

    def stamp(self, topic: InputTopic) -> Stamp:
        """As whom everything on an input topic is taken."""
        publisher = self.publishers.get(topic, Publisher())
        return Stamp(ROLES[topic], publisher.identity, publisher.scopes)

    def client_options(self) -> dict[str, Any]:
        """The keyword arguments that every aiokafka client takes: where, and as whom."""
        return {"bootstrap_servers": self.bootstrap, **self.security.client_options()}


def load(
    store: str | None = None,
    config: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> KafkaSettings:
    """The settings of this process.

    Args:
        store: what `--store` said, `kafka://HOST:PORT[,HOST:PORT]`; None leaves it to the others.
        config: the TOML file, instead of the one that TRUSTFOLD_CONFIG names.
        environment: the variables to look at.

    Raises:
        KafkaSettingsError: something cannot be used; names the place and the key.
    """
    table, origin = _from_file(config, environment)
    table |= _from_environment(KafkaSettings, _VARIABLES, environment)
    table |= _security(table.get("security", {}), environment)
    if store is not None:
        table["bootstrap"] = bootstrap_of(store)
    if "bootstrap" not in table:
        raise KafkaSettingsError(
            "no broker is named: give --store kafka://HOST:PORT, or bootstrap in [kafka] of the "
            f"file that {CONFIG_VARIABLE} names"
        )
    try:
        return msgspec.convert(table, KafkaSettings)
    except msgspec.ValidationError as error:
        # What came from elsewhere was converted by itself, so that this is the file's.
        said, where = _PLACE.sub("", str(error)), _PLACE.search(str(error))
        key = "kafka" + (where["path"].replace("[...]", "") if where else "")
        place = "" if origin is None else f"{origin}: "
        raise KafkaSettingsError(f"{place}{key}: {said}") from None


def bootstrap_of(store: str) -> str:
    """The `host:port[,host:port]` of a store's name `kafka://host:port[,host:port]`."""
    hosts = store.removeprefix(SCHEME).removesuffix("/")
    wrong = [part for part in hosts.split(",") if _HOST_PORT.fullmatch(part) is None]
    if not store.startswith(SCHEME) or wrong:
        raise KafkaSettingsError(
            f"--store {store}: a broker is named {SCHEME}HOST:PORT[,HOST:PORT]"
        )
    return hosts


def _from_file(
    config: Path | None, environment: Mapping[str, str]
) -> tuple[dict[str, Any], str | None]:
    """What the file says of Kafka, and how to name the file in an error."""
    named = environment.get(CONFIG_VARIABLE)
    path = config if config is not None else Path(named) if named else None
    if path is None:
        return {}, None
    origin = str(path) if config is not None else f"{path} ({CONFIG_VARIABLE})"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaSettingsError(f"{origin} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise KafkaSettingsError(f"{origin} is not TOML: {error}") from None
    table: Any = content.get("kafka", {})
    if not isinstance(table, dict):
        raise KafkaSettingsError(f"{origin}: kafka must be a table, [kafka]")
    table = cast("dict[str, Any]", table)
    return table, origin


def _security(given: Any, environment: Mapping[str, str]) -> dict[str, Any]:
    """The key `security`, if there is anything to say: what the environment says is laid over."""
    variables = {key: f"{_SECURITY_PREFIX}{key.upper()}" for key in Security.__struct_fields__}
    known = [_VARIABLES["bootstrap"], *variables.values()]
    for variable in environment:
        if variable.startswith(_SECURITY_PREFIX) and variable not in known:
            raise KafkaSettingsError(
                f"{variable} in the environment is no setting; known are {', '.join(known)}"
            )
    said = _from_environment(Security, variables, environment)
    if not said:
        return {"security": given} if given else {}
    return {"security": {**given, **said} if isinstance(given, dict) else given}


def _from_environment(
    kind: type[Struct], variables: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, Any]:
    """The fields of a struct that variables set, each judged by itself."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        variable = variables.get(field.name)
        if variable is not None and variable in environment:
            try:
                found[field.name] = msgspec.convert(environment[variable], field.type, strict=False)
            except msgspec.ValidationError as error:
                raise KafkaSettingsError(f"{variable} in the environment: {error}") from None
    return found
