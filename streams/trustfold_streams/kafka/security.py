"""How a connection to the broker is secured, and as whom: passed through to aiokafka.

Secrets are never shown: not in a repr, and so in no log and no error.
"""

from __future__ import annotations

import ssl
from typing import Any, Literal

from msgspec import Struct

from trustfold_streams.kafka.errors import KafkaSettingsError

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"]

_SECRETS = frozenset({"sasl_plain_password", "ssl_password"})


class Security(Struct, frozen=True, forbid_unknown_fields=True):
    """The keys that aiokafka knows, under its names; the `ssl_` ones name PEM files.

    `sasl_plain_username` and `sasl_plain_password` serve SCRAM as well as PLAIN. What the chosen
    protocol would not use is refused: it tells of a connection that is meant to be safer.
    """

    security_protocol: Protocol = "PLAINTEXT"
    sasl_mechanism: Mechanism | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = None
    sasl_kerberos_service_name: str | None = None
    sasl_kerberos_domain_name: str | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = None

    def __post_init__(self) -> None:
        for part, switch in (("sasl_", "SASL"), ("ssl_", "SSL")):
            given = [key for key in self.given() if key.startswith(part)]
            if given and switch not in self.security_protocol.split("_"):
                raise ValueError(
                    f"{given[0]} is given, but security_protocol {self.security_protocol} "
                    "would not use it"
                )
        if not self.security_protocol.startswith("SASL"):
            return
        if self.sasl_mechanism is None:
            raise ValueError(f"{self.security_protocol} needs sasl_mechanism")
        if self.sasl_mechanism != "GSSAPI":
            for key in ("sasl_plain_username", "sasl_plain_password"):
                if getattr(self, key) is None:
                    raise ValueError(f"sasl_mechanism {self.sasl_mechanism} needs {key}")

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{key}={'***' if key in _SECRETS else repr(value)}"
            for key, value in self.given().items()
        )
        return f"Security({shown})"

    def given(self) -> dict[str, str]:
        """What was set, by key."""
        every = {key: getattr(self, key) for key in self.__struct_fields__}
        return {key: value for key, value in every.items() if value is not None}

    def client_options(self) -> dict[str, Any]:
        """The keyword arguments of every aiokafka client.

        Raises:
            KafkaSettingsError: a file that is named cannot be used.
        """
        options: dict[str, Any] = {
            key: value for key, value in self.given().items() if not key.startswith("ssl_")
        }
        if "SSL" in self.security_protocol.split("_"):
            options["ssl_context"] = self._ssl_context()
        return options

    def _ssl_context(self) -> ssl.SSLContext:
        key = "ssl_cafile"
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile)
            key = "ssl_certfile, ssl_keyfile or ssl_password"
            if self.ssl_certfile is not None:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile, self.ssl_password)
        except (OSError, ValueError) as error:
            raise KafkaSettingsError(f"kafka.security.{key} cannot be used: {error}") from None
        return context
