"""Printing: JSON for programs, tables and numbers for people."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from trustfold_schemas.instants import format_instant

PIPED_WIDTH = 140
"""Columns where nobody's terminal says how many there are."""

NARROWEST = 80
"""In a narrower terminal lines break at its edge; a table folded into it would be letters."""


def print_json(value: Any) -> None:
    """One JSON value on a line of standard output."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the front, which knows that a reader who has gone is no failure."""
        raise BrokenPipeError


_ROOMY = 120
"""Columns from which on instants stay whole: two of them leave enough for names."""
_INSTANTS = frozenset({"at", "last", "last bad", "last updated", "recorded", "set"})
"""The columns of tables that hold what `short_moment` makes."""


def console() -> Console:
    """Standard output for people."""
    if sys.stdout.isatty():
        made = _Console(highlight=False)
        made.width = max(made.width, NARROWEST)
        return made
    return _Console(highlight=False, width=PIPED_WIDTH)


def say(line: str, *, err: bool = False) -> None:
    """One line for people; whatever of it came from strangers cannot move their terminal."""
    click.echo(escaped(line), err=err)


def complain(error: object) -> None:
    """An error of ours on standard error, line by line."""
    for line in f"trustfold: {error}".split("\n"):
        say(line, err=True)


def escaped(text: str) -> str:
    """A text with its control characters made visible."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(title: str, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """An empty table; the columns in `numbers` stand to the right, and are never broken."""
    made = Table(
        title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    whole = _INSTANTS if console().width >= _ROOMY else frozenset[str]()
    for name in columns:
        right = name in numbers
        made.add_column(
            name,
            justify="right" if right else "left",
            no_wrap=right or name in whole,
            overflow="fold",
        )
    return made


def plain(text: str) -> Text:
    """Somebody's text as it is: no markup, and control characters made visible."""
    return Text(escaped(text))


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
