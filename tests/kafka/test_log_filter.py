"""Logs of a worker: repetition is counted instead of shown, and JSON is one object a line."""

from __future__ import annotations

import io
import json
import logging

from trustfold_streams.kafka.logs import KNOWN_MAX, RepeatFilter, json_formatter


class Ear:
    """A filter with a clock that is told the time, and what passed it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.filter = RepeatFilter(clock=lambda: self.now)
        self.heard: list[str] = []

    def say(self, message: str, *args: object, logger: str = "aiokafka.conn") -> None:
        """Log a line."""
        record = logging.LogRecord(logger, logging.ERROR, "", 0, message, args, None)
        if self.filter.filter(record):
            self.heard.append(record.getMessage())


def test_one_line_passes_in_ten_seconds_and_tells_of_the_rest() -> None:
    """A thousand lines a second for half a minute are three, and no line is lost to the count."""
    ear = Ear()
    for n in range(30_000):
        ear.now = n / 1_000
        ear.say("Unable connect to node with id %s: %s", n % 3, "refused")
    assert ear.heard == [
        "Unable connect to node with id 0: refused",
        "Unable connect to node with id 1: refused (9999 more like this were left out)",
        "Unable connect to node with id 2: refused (9999 more like this were left out)",
    ]
    assert ear.filter.left_out == 29_997


def test_another_message_and_another_logger_pass() -> None:
    """What was not said yet is never held back by something else that was."""
    ear = Ear()
    ear.say("one")
    ear.say("two")
    ear.say("one", logger="aiokafka.client")
    assert ear.heard == ["one", "two", "one"]


def test_other_loggers_say_what_they_like() -> None:
    """Our own log lines are not counted; a logger whose name only begins alike is another one."""
    ear = Ear()
    for logger in ("trustfold.kafka.worker", "aiokafkaesque"):
        for _ in range(3):
            ear.say("fold has partitions", logger=logger)
    assert len(ear.heard) == 6


def test_what_is_remembered_is_bounded() -> None:
    """However many different messages come, memory does not grow without end."""
    ear = Ear()
    for n in range(3 * KNOWN_MAX):
        ear.say(f"message {n}")
    assert len(ear.heard) == 3 * KNOWN_MAX
    assert len(ear.filter._said) <= KNOWN_MAX


def test_a_percent_sign_in_what_was_said_stays() -> None:
    """The note is added to the finished message, whose own signs mean nothing any more."""
    ear = Ear()
    ear.say("%s", "100%s")
    ear.say("%s", "100%s")
    ear.now = 11.0
    ear.say("%s", "100%s")
    assert ear.heard[-1] == "100%s (1 more like this were left out)"


def test_json_is_one_object_a_line() -> None:
    """Line breaks and exceptions stay within their object; level, logger and time are named."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(json_formatter())
    logger = logging.getLogger("trustfold.test")
    logger.addHandler(handler)
    try:
        logger.warning("two\nlines", extra={"partition": 3})
        logger.error("it failed", exc_info=ValueError("because"))
    finally:
        logger.removeHandler(handler)
    first, second = map(json.loads, out.getvalue().splitlines())
    assert (first["level"], first["logger"]) == ("WARNING", "trustfold.test")
    assert (first["message"], first["partition"]) == ("two\nlines", 3)
    assert first["timestamp"].endswith("Z")
    assert "ValueError: because" in second["exception"]
