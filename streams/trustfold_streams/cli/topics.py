"""`trustfold topics`: create the topics of a pipeline, and find what is wrong with them."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Sequence

import click
import msgspec

from trustfold_streams.cli.options import Settings, json_option, store_option
from trustfold_streams.cli.output import print_json
from trustfold_streams.kafka.topics import Finding, check, create, declared


@click.group()
def topics() -> None:
    """The topics of a pipeline on Kafka, at `--store kafka://HOST:PORT`."""


@topics.command("create")
@store_option
@json_option
@click.pass_obj
def create_topics(settings: Settings, as_json: bool) -> int:
    """Create the topics that are missing, then check them all.

    What exists is never changed. Exit 1 if a topic would break a promise.
    """
    broker = settings.kafka_settings
    created = asyncio.run(create(broker))
    findings = asyncio.run(check(broker))
    if as_json:
        print_json({"created": created, "findings": [msgspec.to_builtins(one) for one in findings]})
    else:
        for name in created:
            click.echo(f"created {name}")
        if not created:
            click.echo("nothing to create")
        _print(findings, len(declared(broker)))
    return _code(findings)


@topics.command("check")
@store_option
@json_option
@click.pass_obj
def check_topics(settings: Settings, as_json: bool) -> int:
    """Compare every topic with what it must be, and say how to mend what is wrong.

    Exit 1 if a topic would break a promise: a worker would not start.
    """
    broker = settings.kafka_settings
    findings = asyncio.run(check(broker))
    if as_json:
        for finding in findings:
            print_json(finding)
    else:
        _print(findings, len(declared(broker)))
    return _code(findings)


def _print(findings: Sequence[Finding], count: int) -> None:
    """Tell what was found; what is the same for several topics is told once."""
    alike: dict[tuple[bool, str, str, str, str], list[Finding]] = {}
    for one in findings:
        key = (one.breaks_a_promise, one.setting, one.have, one.want, one.why)
        alike.setdefault(key, []).append(one)
    for (breaks, setting, have, want, why), ones in alike.items():
        click.echo(f"{'WRONG' if breaks else 'note'}: {setting} is {have}, want {want}: {why}")
        places = ", ".join("the broker" if one.topic is None else one.topic for one in ones)
        click.echo(textwrap.fill(places, 96, initial_indent="    of ", subsequent_indent="       "))
        for mend in dict.fromkeys(one.mend for one in ones):
            click.echo(f"    mend: {mend}")
    wrong = len({one.topic for one in findings if one.breaks_a_promise})
    click.echo(f"{count - wrong} of {count} topics are as they must be")


def _code(findings: Sequence[Finding]) -> int:
    return 1 if any(one.breaks_a_promise for one in findings) else 0
