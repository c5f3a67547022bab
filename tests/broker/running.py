"""Which broker the tests talk to, and what to say when there is none."""

from __future__ import annotations

import os
import shutil
from typing import NamedTuple

from compose.kafka.broker import Broker, BrokerError, find_java

VARIABLE = "TRUSTFOLD_TEST_KAFKA"


class Running(NamedTuple):
    """A broker that answers. `process` is None for one that we did not start."""

    bootstrap: str
    process: Broker | None = None

    @property
    def store(self) -> str:
        """As `--store` names it."""
        return f"kafka://{self.bootstrap}"


def why_there_is_none() -> str | None:
    """One line that says what is missing and how to run the tests; None if they can run."""
    if os.environ.get(VARIABLE):
        return None
    try:
        find_java()
    except BrokerError as error:
        missing = str(error).partition(":")[0]
    else:
        if shutil.which("mvn"):
            return None
        missing = "there is no mvn in PATH"
    return (
        f"no broker for the tests marked `broker`, since {missing}: to run them install Java 17 or "
        f"newer and Maven, or name a running broker with {VARIABLE}=HOST:PORT"
    )
