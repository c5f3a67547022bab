"""`trustfold status`: what the store holds."""

from __future__ import annotations

import click
import msgspec

from trustfold_streams.cli.options import Settings, json_option, moment_text, store_option
from trustfold_streams.cli.output import console, plain, print_json, short_moment, table


@click.command()
@store_option
@json_option
@click.pass_obj
def status(settings: Settings, as_json: bool) -> int:
    """Print what the store holds, its last fact, and the head of its chain.

    Keep the head elsewhere: `trustfold verify --anchor HEAD` then finds a log that was cut.
    """
    with settings.open("read") as store:
        known = store.status()
    if as_json:
        made = msgspec.to_builtins(known)
        made["first_recorded"] = moment_text(known.first_recorded)
        made["last_recorded"] = moment_text(known.last_recorded)
        print_json(made)
        return 0
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
    return 0
