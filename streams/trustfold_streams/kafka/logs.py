"""Logs of a long-running worker: one JSON object a line on request, and no floods.

During an outage aiokafka says the same sentence a thousand times a second; what is repeated is
counted and told with the next line that passes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from msgspec import Struct

REPEAT_SECONDS = 10.0
CHATTY = ("aiokafka", "faust", "mode", "trustfold.agents")
"""Loggers, with their children, that may say the same again and again."""
KNOWN_MAX = 1_000
"""Sentences that are remembered; what comes to be too many is forgotten, and passes again."""


class _Said(Struct):
    at: float
    left_out: int = 0


class RepeatFilter(logging.Filter):
    """Lets one line per logger and message through in so many seconds, and counts the rest.

    A message is what was written in the program, before its arguments: the address that cannot
    be reached makes no new one. Put it on handlers; those of a logger miss its children.
    """

    def __init__(
        self,
        names: Iterable[str] = CHATTY,
        seconds: float = REPEAT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.left_out = 0
        self._names = tuple(names)
        self._seconds = seconds
        self._clock = clock
        self._said: dict[tuple[str, int, str], _Said] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record passes; one that does tells how many like it did not."""
        if not any(
            record.name == name or record.name.startswith(f"{name}.") for name in self._names
        ):
            return True
        key = (record.name, record.levelno, str(record.msg))
        now = self._clock()
        said = self._said.get(key)
        if said is not None and now < said.at + self._seconds:
            said.left_out += 1
            self.left_out += 1
            return False
        if said is not None and said.left_out:
            record.msg = f"{record.getMessage()} ({said.left_out} more like this were left out)"
            record.args = ()
        if said is None and len(self._said) >= KNOWN_MAX:
            self._said.clear()
        self._said[key] = _Said(now)
        return True


def set_up_logs(*, as_json: bool = False) -> None:
    """Make the root logger's handlers fit for a worker. Done again, it does nothing more.

    Messages of our own are shown from INFO on, others' as before; JSON only if asked for.
    """
    # Even a message that nobody reads costs: one for each record, 9 % of the stages' work.
    logging.disable(logging.DEBUG)
    logging.getLogger("trustfold").setLevel(logging.INFO)
    for handler in logging.getLogger().handlers:
        if not any(isinstance(one, RepeatFilter) for one in handler.filters):
            handler.addFilter(RepeatFilter())
        if as_json:
            handler.setFormatter(json_formatter())


def json_formatter() -> logging.Formatter:
    """One JSON object a line: timestamp (RFC 3339), level, logger, message, and any `extra`."""
    from pythonjsonlogger.msgspec import MsgspecFormatter

    return MsgspecFormatter(
        ["levelname", "name", "message"],
        rename_fields={"levelname": "level", "name": "logger", "exc_info": "exception"},
        timestamp=True,
    )
