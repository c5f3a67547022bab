"""`trustfold sql`: an archive asked in SQL, one query or at a prompt."""

from __future__ import annotations

import csv
import datetime as dt
import importlib
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from trustfold_schemas.errors import CallerError
from trustfold_schemas.instants import format_instant
from trustfold_streams.cli.options import Settings, json_option, store_option
from trustfold_streams.cli.output import complain, console, plain, print_json, say, table

if TYPE_CHECKING:
    import duckdb

A = TypeVar("A")
R = TypeVar("R")

EXACT_MAX = 2**53
"""A greater integer is a decimal string in JSON: not every reader has more digits."""
SHOWN_ROWS_MAX = 1_000
PROMPT, GOING_ON = "sql> ", "  -> "
HELP = "end a query with `;`; `.views` lists the views, `.views NAME` its columns, `.quit` ends"


class QueryError(CallerError):
    """DuckDB refuses a query."""


@click.command(epilog="Example: trustfold --store archive:DIR sql 'FROM leaderboard LIMIT 10'")
@click.argument("query", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@store_option
@json_option
@click.pass_obj
def sql(settings: Settings, query: str | None, as_csv: bool, as_json: bool) -> int:
    """Ask an archive in SQL (DuckDB): one QUERY, or without it at a prompt.

    Its views are described in docs/sql.md; `.views` at the prompt lists them. Nothing is
    downloaded, and no zone or setting of the machine matters: times are UTC.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv and --json exclude each other")
    form = "csv" if as_csv else "json" if as_json else "table"
    with settings.open_archive() as store:
        connection = store.attach_views()
        if query is not None:
            _answer(connection, query, form)
        elif sys.stdin.isatty():
            say(f"{store.archive.folder}, settled {format_instant(store.archive.settled)}")
            say(HELP)
            _prompt(connection, form)
        else:
            for one in _queries(sys.stdin):
                _answer(connection, one, form)
    return 0


def _prompt(connection: duckdb.DuckDBPyConnection, form: str) -> None:
    importlib.import_module("readline")  # gives `input` its history

    while True:
        try:
            for one in _queries(_typed()):
                try:
                    _answer(connection, one, form)
                except CallerError as error:
                    complain(error)
            return
        except KeyboardInterrupt:
            say("")  # what was typed or asked is dropped, the prompt stays


def _typed() -> Iterator[str]:
    prompt = PROMPT
    while True:
        try:
            line = input(prompt)
        except EOFError:
            say("")
            return
        if line.strip() in (".quit", ".exit"):
            return
        done = line.rstrip().endswith(";") or line.startswith(".") or not line.strip()
        prompt = PROMPT if done else GOING_ON
        yield line + "\n"


def _queries(lines: Iterable[str]) -> Iterator[str]:
    """Queries out of lines: each ends with a line that ends with `;`, or with the last line."""
    held = ""
    for line in lines:
        if not held and line.startswith("."):
            yield line.strip()
            continue
        held += line
        if held.rstrip().endswith(";"):
            yield held.strip()
            held = ""
    if held.strip():
        yield held.strip()


def _answer(connection: duckdb.DuckDBPyConnection, typed: str, form: str) -> None:
    """Answer a query, or a command of the prompt. Raises QueryError, KeyboardInterrupt."""
    import duckdb

    try:
        if typed.startswith("."):
            _command(typed)
        else:
            _run(connection, typed, form)
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise QueryError(str(error)) from None


def _command(typed: str) -> None:
    from trustfold_projections.analysis.views.catalogue import catalogue

    name, _, wanted = typed.partition(" ")
    if name != ".views":
        raise QueryError(HELP)
    views = [view for view in catalogue() if wanted.strip() in ("", view.name)]
    if not views:
        raise QueryError(f"no view is named `{wanted.strip()}`; `.views` lists them")
    told = views[0].columns if wanted else [(view.call, view.about) for view in views]
    width = max(len(name) for name, _ in told)
    for name, about in told:
        say(f"{name:<{width}}  {about}")


def _run(connection: duckdb.DuckDBPyConnection, query: str, form: str) -> None:
    # Nothing at all, or a comment, is no query: then there is no answer either.
    executing = cast("Callable[[str], duckdb.DuckDBPyConnection | None]", connection.execute)
    asked = _interruptible(connection, executing, query)
    if asked is None:
        return
    names = [column[0] for column in asked.description]
    rows = _fetched(asked)
    if form == "json":
        if len(set(names)) < len(names):
            raise QueryError(f"two columns of {', '.join(names)} have one name: JSON needs two")
        for row in rows:
            print_json({n: _json(v) for n, v in zip(names, row, strict=True)})
    elif form == "csv":
        out = csv.writer(sys.stdout, lineterminator="\n")
        out.writerow(names)
        out.writerows([_text(value) for value in row] for row in rows)
    else:
        _print_table(names, rows)


def _fetched(asked: duckdb.DuckDBPyConnection) -> Iterator[Sequence[Any]]:
    while rows := _interruptible(asked, asked.fetchmany, 1_000):
        yield from rows


def _interruptible(connection: duckdb.DuckDBPyConnection, call: Callable[[A], R], argument: A) -> R:
    """Call DuckDB in a thread, so that this one hears Ctrl-C while that one computes."""

    def end(_number: int, _frame: FrameType | None) -> None:
        connection.interrupt()

    before = signal.signal(signal.SIGINT, end)
    try:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call, argument).result()
    finally:
        signal.signal(signal.SIGINT, before)


def _print_table(names: Sequence[str], rows: Iterator[Sequence[Any]]) -> None:
    numbers: list[str] = []
    shown: list[list[str]] = []
    more = 0
    for row in rows:
        if not shown:
            numbers = [
                name
                for name, value in zip(names, row, strict=True)
                if isinstance(value, int | float | Decimal) and not isinstance(value, bool)
            ]
        if len(shown) < SHOWN_ROWS_MAX:
            shown.append([_text(value) for value in row])
        else:
            more += 1
    made = table("", *names, numbers=tuple(numbers))
    for cells in shown:
        made.add_row(*(plain(cell) for cell in cells))
    out = console()
    out.print(made)
    if more:
        out.print(f"... and {more:,} more rows (--json and --csv print all)")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(value)
    made = _json(value)
    return made if isinstance(made, str) else str(made)


def _json(value: Any) -> Any:
    """A value of DuckDB's as JSON has it: times in RFC 3339, wide integers as strings."""
    if isinstance(value, bool) or value is None or isinstance(value, float | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT_MAX else str(value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, list | tuple):
        return [_json(one) for one in cast("Sequence[Any]", value)]
    if isinstance(value, dict):
        held = cast("Mapping[Any, Any]", value)
        return {str(name): _json(one) for name, one in held.items()}
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value)
