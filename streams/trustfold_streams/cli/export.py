"""`trustfold export`: steps with their reward signals, for training back ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trustfold_streams.cli.fact_sources import open_facts
from trustfold_streams.cli.options import Moment, Settings, json_option, store_option
from trustfold_streams.cli.output import print_json, say

if TYPE_CHECKING:
    from trustfold_projections.analysis.export_files import FileKind

KINDS: dict[str, FileKind] = {".jsonl": "jsonl", ".parquet": "parquet"}


@click.command(epilog="Example: trustfold export steps.parquet --scope team --since 2026-01-01")
@click.argument("target", metavar="FILE")
@click.option("--scope", "scopes", multiple=True, metavar="S", help="Only this scope; repeatable.")
@click.option("--since", type=Moment(), metavar="T", help="Only traces that closed at T or later.")
@click.option("--until", type=Moment(), metavar="T", help="Only traces that closed before T.")
@click.option("--with-excluded", is_flag=True, help="Keep excluded traces, marked as such.")
@store_option
@json_option
@click.pass_obj
def export(
    settings: Settings,
    target: str,
    scopes: tuple[str, ...],
    since: int | None,
    until: int | None,
    with_excluded: bool,
    as_json: bool,
) -> int:
    """Write the steps of closed traces with what came of them: FILE.jsonl or FILE.parquet.

    `-` is JSON Lines on standard output. One row a step: its subject, status, the human's answer,
    undos, broken laws, cost, and references to the trace, session, decision and feedback. Excluded
    traces are left out. docs/export.md names every column. --json prints the counts.
    """
    kind = "jsonl" if target == "-" else KINDS.get(Path(target).suffix)
    if kind is None:
        raise click.UsageError(f"{target}: Expected a name that ends in .jsonl or .parquet, or -")
    with open_facts(settings) as facts:
        from trustfold_projections.analysis.export import SCHEMA, Left, Wanted, exported
        from trustfold_projections.analysis.export_files import json_line, write_rows

        left = Left()
        rows = exported(facts, Wanted(scopes, since, until, with_excluded), left)
        if target == "-":
            for row in rows:
                sys.stdout.buffer.write(json_line(SCHEMA, row))
        else:
            write_rows(Path(target), kind, SCHEMA, rows)
    if as_json and target != "-":
        print_json(left)
        return 0
    say(
        f"{left.steps:,} steps of {left.traces:,} traces; left out: {left.excluded:,} excluded "
        f"traces, {left.open:,} not closed; {left.unmatched:,} answers and undos speak of no step",
        err=True,
    )
    return 0
