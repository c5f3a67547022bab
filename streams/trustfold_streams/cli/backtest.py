"""`trustfold backtest`: what a policy would have let pass of what happened, and at what price."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from trustfold_projections.laws.policy import policy_of
from trustfold_streams.archiver.extra import require_extra
from trustfold_streams.cli.fact_sources import open_facts
from trustfold_streams.cli.options import Settings, json_option, store_option
from trustfold_streams.cli.output import console, plain, print_json, say, table
from trustfold_streams.cli.threshold import Share

if TYPE_CHECKING:
    from trustfold_projections.analysis.backtest.rules import Policy
    from trustfold_projections.analysis.backtest.tally import Tally

IMPORTED = (
    "most of this log was recorded more than a day after it happened, as an import is: "
    "--as-happened judges it as if it had been recorded at the time"
)

SEQUENTIAL = (
    "so large an archive is judged as columns, without `elapsed/1`, which is computed one event "
    "after the other"
)

MEMORY = "1GB"
"""What DuckDB may hold; beyond, it sorts on the disk."""

F = TypeVar("F", bound=Callable[..., Any])


def _output_file(option: str, what: str) -> Callable[[F], F]:
    return click.option(
        option,
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help=what,
    )


@click.command(epilog="Example: trustfold backtest --min-score 0.7 --min-score 0.8 --by-scope")
@click.option(
    "--min-score",
    "min_scores",
    type=Share(),
    multiple=True,
    metavar="X",
    help="Instead of the default score in every band; several are compared.",
)
@click.option("--min-samples", type=click.IntRange(min=0), metavar="N", help="Effective samples.")
@click.option("--min-grants", type=click.IntRange(min=0), metavar="N", help="Effective grants.")
@click.option("--min-approval-rate", type=Share(), metavar="X", help="Share of grants, if any.")
@click.option(
    "--in-a-row",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Compare with: allow after N clean traces in a row.",
)
@click.option(
    "--as-set",
    is_flag=True,
    help="Compare with the policy that is set in the log, as it stands at its end: its thresholds "
    "by glob, declarations, caps and revocations.",
)
@click.option(
    "--as-happened",
    is_flag=True,
    help="For a log that was imported later: judge as if each fact had been recorded at its own "
    "time.",
)
@click.option("--by-scope", is_flag=True, help="Also a table for each scope.")
@_output_file("--csv", "Also write the counts as CSV.")
@_output_file("--parquet", "Also write the counts as Parquet.")
@_output_file("--plot", "Also draw them: .png, .svg or .pdf (needs the extra `plots`).")
@store_option
@json_option
@click.pass_obj
def backtest(
    settings: Settings,
    min_scores: tuple[int, ...],
    min_samples: int | None,
    min_grants: int | None,
    min_approval_rate: int | None,
    in_a_row: int,
    as_set: bool,
    as_happened: bool,
    by_scope: bool,
    csv: Path | None,
    parquet: Path | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Judge every past action by what was known before it, under several policies.

    An action is a step that was executed or that a human was asked about. Of those that a policy
    would have allowed without asking, some were denied by a human, failed, were undone, or were
    of a trace that broke a law; `per 1000` counts what a question could have prevented, so no
    failures: a step that fails fails after a yes, too. A question is saved where a human decided
    and the policy would not have asked. Thresholds are the defaults unless options say otherwise;
    but for --as-set, declarations and revocations are left out, and a step's own word on its
    reversibility is taken.
    """
    require_extra()
    from trustfold_projections.analysis.backtest import rules

    if plot is not None:
        from trustfold_projections.analysis.plots import require_plots

        require_plots()
    trusts = [
        rules.Trust(
            "trustfold" if score is None else f"trustfold {score / 1_000_000:g}",
            rules.thresholds_with(score, min_samples, min_grants, min_approval_rate),
        )
        for score in dict.fromkeys(min_scores or (None,))
    ]
    policy = None
    if as_set:
        with open_facts(settings) as facts:
            policy = policy_of(facts.policy())
    compared = rules.policies(trusts, in_a_row, policy)
    tallies = _judged(settings, compared, as_happened=as_happened)
    _write(tallies, csv, parquet, plot)
    if as_json:
        for tally in tallies:
            print_json(tally)
        return 0
    _print(tallies, by_scope=by_scope)
    return 0


def _judged(
    settings: Settings, compared: Sequence[Policy], *, as_happened: bool
) -> Sequence[Tally]:
    if settings.on_archive and not as_happened:
        made = _judged_as_columns(settings, compared)
        if made is not None:
            return made
    from trustfold_projections.analysis.backtest.history import imported, read_history
    from trustfold_projections.analysis.backtest.run import backtest as run

    with open_facts(settings) as facts:
        history = read_history(facts, as_happened=as_happened)
    if not as_happened and imported(history):
        say(IMPORTED, err=True)
    return run(history, compared)


def _judged_as_columns(settings: Settings, compared: Sequence[Policy]) -> Sequence[Tally] | None:
    """The counts of an archive that is large enough, else None."""
    from trustfold_projections.analysis.backtest.archived import backtest_archive, is_large
    from trustfold_projections.analysis.backtest.rules import Elapsed
    from trustfold_projections.archive.duck import in_memory

    with (
        settings.open_archive() as store,
        tempfile.TemporaryDirectory() as spilled,
        contextlib.closing(in_memory()) as connection,
    ):
        if not is_large(store.archive):
            return None
        say(SEQUENTIAL, err=True)
        connection.execute("SET temp_directory = ?", [spilled])
        connection.execute("SET memory_limit = ?", [MEMORY])
        quick = [policy for policy in compared if not isinstance(policy, Elapsed)]
        tallies, imported = backtest_archive(connection, store.archive, quick)
    if imported:
        say(IMPORTED, err=True)
    return tallies


def _write(
    tallies: Sequence[Tally], csv: Path | None, parquet: Path | None, plot: Path | None
) -> None:
    from trustfold_projections.analysis.backtest.tally import SCHEMA
    from trustfold_projections.analysis.export_files import write_rows

    rows = [msgspec.structs.asdict(tally) for tally in tallies]
    if csv is not None:
        write_rows(csv, "csv", SCHEMA, rows)
    if parquet is not None:
        write_rows(parquet, "parquet", SCHEMA, rows)
    if plot is not None:
        from trustfold_projections.analysis.plots import plot_backtest

        plot_backtest(tallies, plot)


def _print(tallies: Sequence[Tally], *, by_scope: bool) -> None:
    out = console()
    scopes: dict[str | None, list[Tally]] = {}
    for tally in tallies:
        scopes.setdefault(tally.scope, []).append(tally)
    if not scopes[None][0].actions:
        say("no action yet: no step was executed, and nobody was asked")
        return
    for scope, some in scopes.items():
        if scope is None or by_scope:
            first = some[0]
            where = "all scopes" if scope is None else f"scope {scope!r}"
            title = f"{where}: {first.actions:,} actions, {first.questions:,} questions to humans"
            out.print(_table(title, some))
            out.print()


def _table(title: str, tallies: Sequence[Tally]) -> Any:
    numbers = ("allowed", "%", "denied", "undone", "violating", "per 1000", "failed", "saved")
    made = table("", "policy", *numbers, numbers=numbers)
    made.title = plain(title)
    for tally in tallies:
        rate = f"{1000 * tally.preventable / tally.allowed:.1f}" if tally.allowed else "-"
        made.add_row(
            plain(tally.policy),
            f"{tally.allowed:,}",
            f"{100 * tally.allowed / tally.actions:.1f}",
            f"{tally.denied:,}",
            f"{tally.undone:,}",
            f"{tally.violated:,}",
            rate,
            f"{tally.failed:,}",
            f"{tally.saved:,}",
        )
    return made
