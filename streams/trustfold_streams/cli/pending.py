"""`trustfold pending`: traces that are not finished; `trustfold sweep`: finish the overdue ones."""

from __future__ import annotations

import click
import msgspec

from trustfold_schemas.instants import DAY, HOUR, MINUTE
from trustfold_streams.cli.options import (
    Settings,
    json_option,
    moment_text,
    store_option,
)
from trustfold_streams.cli.output import console, plain, print_json, say, table


@click.command()
@click.option("--check", is_flag=True, help="Exit 1 if anything is pending.")
@store_option
@json_option
@click.pass_obj
def pending(settings: Settings, check: bool, as_json: bool) -> int:
    """List the traces that are not finished, with their age and what they wait for.

    trace_never_closed marks feedback whose trace did not close within 7 days.
    """
    with settings.open("read") as store:
        waiting = store.pending()
    if as_json:
        for one in waiting:
            made = msgspec.to_builtins(one)
            for name in ("first_recorded", "last_recorded"):
                made[name] = moment_text(made[name])
            made["age_seconds"] = made.pop("age") / 1_000_000
            print_json(made)
    elif not waiting:
        say("nothing is pending")
    else:
        listed = table(
            f"{len(waiting):,} pending",
            "trace",
            "scope",
            "steps",
            "feedback",
            "age",
            "waits for",
            "",
            numbers=("steps", "feedback", "age"),
        )
        for one in waiting:
            listed.add_row(
                plain(one.trace_id),
                plain(one.scope or ""),
                f"{one.steps:,}",
                f"{one.feedback:,}",
                _age(one.age),
                one.waits_for,
                "" if one.reason is None else one.reason.value,
            )
        console().print(listed)
    return 1 if check and waiting else 0


@click.command()
@store_option
@json_option
@click.pass_obj
def sweep(settings: Settings, as_json: bool) -> int:
    """Close the traces that nobody finished within 24 hours, with outcome `abandoned`.

    Every ingest does this first; a store that nobody writes to can be swept by a timer. On a
    broker the workers do it.
    """
    if settings.on_kafka:
        raise click.UsageError(
            "this command works on a store in a file: on a broker the workers sweep"
        )
    with settings.open_file("write") as store:
        swept = store.sweep()
    if as_json:
        print_json({"abandoned": swept})
    else:
        say(f"{swept:,} traces closed as abandoned")
    return 0


def _age(microseconds: int) -> str:
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if microseconds >= unit:
            return f"{microseconds / unit:.1f} {name}"
    return f"{microseconds / 1_000_000:.0f} s"
