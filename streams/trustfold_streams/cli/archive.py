"""`trustfold archive`: the log as immutable Parquet segments, once or for as long as it goes on."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click
import msgspec
from rich.progress import Progress, TaskID

from trustfold_schemas.instants import format_instant
from trustfold_streams.archiver.extra import require_extra
from trustfold_streams.cli.medians import NightlyMedians
from trustfold_streams.cli.options import Settings, json_option, store_option
from trustfold_streams.cli.output import complain, console, print_json, progress, say
from trustfold_streams.clock import SystemClock
from trustfold_streams.embedded.errors import StoreBusyError
from trustfold_streams.kafka.extra import require_extra as require_streams

if TYPE_CHECKING:
    from trustfold_projections.archive.writer import Pass
    from trustfold_streams.archiver.run import Visit


@click.command(epilog="Example: trustfold archive DIR --follow --medians")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--follow", is_flag=True, help="Go on archiving until it is told to end.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="How long to wait between two passes of --follow.",
)
@click.option(
    "--medians",
    is_flag=True,
    help="Publish the nightly medians of cost into the log after a pass, once a day from 03:00 "
    "UTC on.",
)
@store_option
@json_option
@click.pass_obj
def archive(
    settings: Settings, folder: Path, follow: bool, every: float, medians: bool, as_json: bool
) -> int:
    """Archive the log into a folder, from where the archive ends to where the log does.

    Prints the head of the chain: kept elsewhere, it is what `verify --anchor` checks against.
    """
    require_extra()
    from trustfold_streams.archiver.run import open_archiver

    visit = _visit(settings)
    nightly = NightlyMedians.of_archiver(settings, folder) if medians else None
    clock = SystemClock()
    told_to_end = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        told_to_end.set()

    if follow:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, end)
    with open_archiver(folder) as archiver:
        while True:
            with progress("archive", "rows") as bar:
                task = bar.add_task("archive", total=None, done=0)
                done = archiver.run(visit, functools.partial(_advance, bar, task))
            if not follow or done.rows:
                _print(done, as_json)
            code = 0
            if nightly is not None and not told_to_end.is_set():
                code = _tick(nightly, clock.now(), done, follow=follow, as_json=as_json)
            if not follow:
                return code
            if told_to_end.wait(every):
                return 0


def _tick(nightly: NightlyMedians, now: int, done: Pass, *, follow: bool, as_json: bool) -> int:
    """Publish the medians that are due, and say so; the exit code of a single pass."""
    try:
        summary = nightly.tick(now, done.settled)
    except StoreBusyError as error:
        if not follow:
            raise
        complain(f"the nightly medians wait for the next pass: {error}")
        return 0
    if summary is None:
        if not follow:
            say(
                "no medians are due: they are from 03:00 UTC on, once the log has settled past "
                "the midnight before",
                err=as_json,
            )
        return 0
    say(f"{summary.accepted:,} medians published, {summary.duplicates:,} were already", err=as_json)
    refused = summary.dead_letters + summary.conflicts
    if refused:
        complain(f"{refused:,} medians were refused; `trustfold dead-letters` says why")
    return 1 if refused else 0


def _advance(bar: Progress, task: TaskID, rows: int) -> None:
    completed = bar.tasks[0].completed + rows
    bar.update(task, completed=completed, done=f"{completed:,.0f}")


def _visit(settings: Settings) -> Visit:
    if settings.on_archive:
        raise click.UsageError("what is archived is a log: --store FILE or kafka://HOST:PORT")
    if settings.on_kafka:
        broker = settings.kafka_settings
        require_streams()
        from trustfold_streams.archiver.from_kafka import kafka_log

        return functools.partial(kafka_log, broker)
    from trustfold_streams.archiver.from_embedded import embedded_log

    path = settings.path
    return lambda _: embedded_log(path)


def _print(done: Pass, as_json: bool) -> None:
    if as_json:
        print_json(
            {**msgspec.structs.asdict(done), "settled": format_instant(done.settled)},
        )
        sys.stdout.flush()  # --follow goes on, and its reader wants to know now
        return
    out = console()
    out.print(f"{done.rows:,} rows in {done.segments:,} segments, {done.merged:,} merged")
    out.print(f"settled {format_instant(done.settled)}")
    out.print(f"head {done.head}")
