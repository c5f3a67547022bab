"""Printing: JSON for programs, tables and numbers for people."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from trustfold_schemas.instants import format_instant

PIPED_WIDTH = 140
"""Columns where nobody's terminal says how many there are."""


def print_json(value: Any) -> None:
    """One JSON value on a line of standard output."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


def console() -> Console:
    """Standard output for people."""
    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=PIPED_WIDTH)


def table(title: str, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns in `numbers` stand to the right."""
    made = Table(
        title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    for name in columns:
        right = name in numbers
        made.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    return made


def plain(text: str) -> Text:
    """Somebody's text as it is: no markup, and control characters made visible."""
    return Text(text.encode("unicode_escape").decode() if not text.isprintable() else text)


def short_moment(moment: int | None) -> str:
    """An instant for people: to the second, or a dash."""
    return "-" if moment is None else format_instant(moment)[:19] + "Z"


def progress(description: str, unit: str) -> Progress:
    """A progress bar on standard error; silent where nobody watches."""
    return Progress(
        TextColumn(description),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn(f"{{task.fields[done]}} {unit}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
        transient=True,
    )
