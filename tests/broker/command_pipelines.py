"""Pipelines on which commands are run, and what the tests of commands say to them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.broker.pipeline import table
from tests.broker.processes import ROOT
from tests.cli.commands import Ended
from tests.embedded.documents import event
from trustfold_schemas.instants import MINUTE, format_instant
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka import topics
from trustfold_streams.kafka.pipeline_progress import PipelineProgress
from trustfold_streams.kafka.settings import KafkaSettings

PARTITIONS = 2
EVENTS = ROOT / "examples" / "first_month.jsonl"
SHELL = ("shell", "shell:vcs_write")
SECONDS_MAX = 120.0

Run = Callable[..., Ended]
"""Runs a command on a pipeline."""


class Pipeline(NamedTuple):
    """Topics, and what a test wants of them."""

    settings: KafkaSettings

    @property
    def store(self) -> str:
        """As `--store` names it."""
        return f"kafka://{self.settings.bootstrap}"

    def caught_up(self) -> None:
        """Wait until everything published before this call is in the table."""
        asyncio.run(table(self.settings))

    def settled_now(self) -> str:
        """The present moment, once the log has settled by then."""
        moment = SystemClock().now()

        async def settled() -> None:
            async with asyncio.timeout(SECONDS_MAX):
                while True:
                    found = await PipelineProgress.read(self.settings, SystemClock())
                    if found.settled_up_to() >= moment:
                        return
                    await asyncio.sleep(0.2)

        asyncio.run(settled())
        return format_instant(moment)


def made(bootstrap: str) -> Pipeline:
    """A pipeline with topics and nobody at work."""
    settings = KafkaSettings(bootstrap, f"t{uuid.uuid4().hex[:12]}.", PARTITIONS)
    asyncio.run(topics.create(settings))
    return Pipeline(settings)


def configure(patch: pytest.MonkeyPatch, pipeline: Pipeline) -> None:
    """Name its topics in the environment, as a user does."""
    patch.setenv("TRUSTFOLD_TOPIC_PREFIX", pipeline.settings.prefix)
    patch.setenv("TRUSTFOLD_TOPIC_PARTITIONS", str(pipeline.settings.partitions))


def signal(name: str, subject: Subject, value: float = 1, minute: int = 0) -> bytes:
    """Ready-made evidence of a trace of this name."""
    data = {"trace_id": name, "subject": subject, "tool_success": value}
    moment = SystemClock().now() // MINUTE * MINUTE - 60 * MINUTE
    return event("signals.reported", name, data, moment + minute * MINUTE)


def said(ended: Ended) -> dict[str, Any]:
    """The one object that a command printed."""
    assert ended.code == 0, ended
    (value,) = ended.json
    return dict(value)
