"""`trustfold status`: what the store holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import click
import msgspec

from trustfold_schemas.status import PipelineStatus, StageStatus, Status
from trustfold_streams.cli.options import (
    Settings,
    json_option,
    moment_text,
    store_option,
)
from trustfold_streams.cli.output import console, plain, print_json, short_moment, table


@click.command()
@store_option
@json_option
@click.pass_obj
def status(settings: Settings, as_json: bool) -> int:
    """Print what the store holds, its last fact, and the head of its chain.

    Keep the head elsewhere: `trustfold verify --anchor HEAD` then finds a log that was cut. On a
    broker: what the topics hold, and how far each stage is in each partition.
    """
    with settings.open("read") as store:
        known = store.status()
    if as_json:
        print_json(_json(known))
    elif isinstance(known, Status):
        _print_file(known)
    else:
        _print_pipeline(known)
    return 0


def _json(known: Status | PipelineStatus) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(known)
    if isinstance(known, Status):
        made["first_recorded"] = moment_text(known.first_recorded)
        made["last_recorded"] = moment_text(known.last_recorded)
        return made
    made["complete_as_of"] = moment_text(known.complete_as_of)
    for stage, told in zip(known.stages, made["stages"], strict=True):
        told["caught_up"] = moment_text(stage.caught_up)
        told["written"] = moment_text(stage.written)
    return made


def _print_file(known: Status) -> None:
    out = console()
    made = table(f"{known.path}: layout {known.layout}, {known.bytes:,} bytes", "", "")
    made.add_row("facts", f"{known.facts:,}")
    for name, count in known.facts_by_type.items():
        made.add_row(f"  {name}", f"{count:,}")
    made.add_row("ledger entries", f"{known.entries:,}")
    made.add_row("subjects", f"{known.subjects:,}")
    made.add_row("traces", f"{known.traces:,}, of these open {known.traces_open:,}")
    made.add_row("dead letters", f"{sum(known.dead_letters_by_reason.values()):,}")
    for name, count in known.dead_letters_by_reason.items():
        made.add_row(f"  {name}", f"{count:,}")
    made.add_row("first recorded", short_moment(known.first_recorded))
    made.add_row("last recorded", short_moment(known.last_recorded))
    made.add_row("head of the chain", plain(known.head))
    out.print(made)
    if known.clock_behind_seconds:
        out.print(
            f"this machine's clock is {known.clock_behind_seconds:,.1f} s behind the last fact"
        )


def _print_pipeline(known: PipelineStatus) -> None:
    out = console()
    title = f"{known.bootstrap}, topics {known.prefix}*"
    topics = table(title, "topic", "partitions", "offsets", numbers=("partitions", "offsets"))
    for topic in known.topics:
        topics.add_row(topic.topic, f"{topic.partitions:,}", f"{topic.offsets:,}")
    out.print(topics)
    out.print()
    stages = table(
        "", "stage", "partitions", "lag", "caught up as of", "", numbers=("partitions", "lag")
    )
    for name, some in groupby(known.stages, key=lambda stage: stage.stage):
        stages.add_row(*_stage(name, list(some)))
    out.print(stages)
    out.print()
    letters = ", ".join(f"{name} {n:,}" for name, n in known.dead_letters_by_reason.items())
    out.print(f"dead letters: {letters or 'none'}")
    out.print(
        f"the table of scores is complete as of {short_moment(known.complete_as_of)}"
        + (": readers refuse it, is a worker running?" if known.stale else "")
    )


def _stage(name: str, partitions: Sequence[StageStatus]) -> tuple[str, ...]:
    """A stage in one row: all its lag, and the partition that is furthest behind."""
    slowest = min(partitions, key=lambda one: (one.caught_up or 0, one.partition))
    remarks = [f"{one.partition} is {one.state}" for one in partitions if one.state != "running"]
    if len({one.caught_up for one in partitions}) > 1:
        remarks.append(f"{slowest.partition} is furthest behind")
    return (
        name,
        f"{len(partitions):,}",
        f"{sum(one.lag for one in partitions):,}",
        short_moment(slowest.caught_up),
        ", ".join(remarks),
    )
