"""`trustfold whatif`: scores under other half-lives and weights, of all subjects or over time.

Another formula is in `whatif_elapsed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource
from rich.table import Table

from trustfold_projections.analysis.whatif_law import (
    DAYS_MAX,
    DAYS_MIN,
    HalfLife,
    WhatIf,
    checked_weights,
    over_time,
    whatif_of,
)
from trustfold_projections.laws.elapsed import FORMULA as ELAPSED
from trustfold_projections.laws.scoring import RAW_SCORE_WEIGHTS
from trustfold_schemas.errors import SubjectError
from trustfold_schemas.ledger import COMPONENTS, FORMULA
from trustfold_schemas.subject import Subject, subject_of
from trustfold_streams.cli.days import ends_of_days
from trustfold_streams.cli.fact_sources import LedgerToRead, open_ledger
from trustfold_streams.cli.options import (
    Moment,
    Settings,
    json_option,
    moment_text,
    shown,
    store_option,
    top_option,
)
from trustfold_streams.cli.output import complain, console, plain, print_json, short_moment, table
from trustfold_streams.cli.whatif_elapsed import beside_day_by_day, scores_beside
from trustfold_streams.clock import SystemClock

if TYPE_CHECKING:
    from trustfold_projections.analysis.whatif_law import Weights


class WeightsOfFive(click.ParamType):
    """Five weights of raw_score, joined by commas."""

    name = "weights"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Weights:
        """Read and check five weights."""
        try:
            return checked_weights([float(part) for part in str(value).split(",")])
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command(
    epilog="Example: trustfold whatif fs_write 'fs_write:~/notes/*' --half-life 14 --over-time"
)
@click.argument("tool", required=False)
@click.argument("effect", required=False)
@click.option("--scope", default="", metavar="S", help="The subject's scope (default: none).")
@click.option(
    "--formula",
    type=click.Choice([FORMULA, ELAPSED]),
    default=FORMULA,
    show_default=True,
    help=f"The table's formula, or {ELAPSED}: the seed's, shown beside the table's.",
)
@click.option(
    "--half-life",
    "days",
    type=click.IntRange(DAYS_MIN, DAYS_MAX),
    multiple=True,
    default=(7, 30, 90),
    show_default=True,
    metavar="DAYS",
    help="A half-life in days; several are compared. The law's is 30.",
)
@click.option(
    "--weights",
    type=WeightsOfFive(),
    metavar="A,B,C,D,E",
    help=f"Weights of raw_score for {', '.join(COMPONENTS)} (its complement); they add up to 1.",
)
@click.option("--as-of", type=Moment(), metavar="T", help="Count only what was recorded by then.")
@click.option("--at", type=Moment(), metavar="T", help="Read the scores at this moment.")
@click.option("--over-time", is_flag=True, help="One subject's score, as it was known day by day.")
@click.option(
    "--every",
    type=click.IntRange(1, 3660),
    default=1,
    show_default=True,
    metavar="DAYS",
    help="Days between two moments of --over-time.",
)
@top_option
@store_option
@json_option
@click.pass_obj
def whatif(
    settings: Settings,
    tool: str | None,
    effect: str | None,
    scope: str,
    formula: str,
    days: tuple[int, ...],
    weights: Weights | None,
    as_of: int | None,
    at: int | None,
    over_time: bool,
    every: int,
    top: int,
    as_json: bool,
) -> int:
    """Show what scores would be with another half-life, other weights or another formula.

    Sums are exact integers as those of the table; nothing is changed, and no promotion rests on
    it. With TOOL EFFECT one subject, else all. Exit 1 if nothing was ever recorded of the subject.
    """
    subject = _subject(tool, effect, scope, needed=over_time)
    _refuse_senseless(formula, over_time=over_time)
    if formula == ELAPSED:
        clock = SystemClock()
        if over_time and subject is not None:
            return beside_day_by_day(settings, subject, as_of, every, as_json, clock)
        return scores_beside(settings, subject, as_of, at, top, as_json, clock)
    half_lives = [HalfLife(one) for one in dict.fromkeys(days)]
    weighed = RAW_SCORE_WEIGHTS if weights is None else weights
    with open_ledger(settings) as ledger:
        now = SystemClock().now() if as_of is None else as_of
        # What was archived beyond the moment that has settled is not the whole of any moment.
        known = ledger.settled if as_of is None else as_of
        ledger.require(known)
        if over_time and subject is not None:
            return _over_time(ledger, subject, half_lives, weighed, known, now, every, as_json)
        rows = _rows(ledger, subject, half_lives, weighed, known, now if at is None else at)
    if subject is not None and not rows:
        complain(f"nothing is known of {shown(subject)}")
        return 1
    if as_json:
        for row in rows:
            for one in row:
                print_json(_json(one))
        return 0
    _print(rows, half_lives, top, now if at is None else at)
    return 0


def _refuse_senseless(formula: str, *, over_time: bool) -> None:
    """Refuse options that were given and that the formula or the kind of answer has no use for."""
    context = click.get_current_context()

    def given(name: str) -> bool:
        return context.get_parameter_source(name) is not ParameterSource.DEFAULT

    if formula == ELAPSED and (given("days") or given("weights")):
        raise click.UsageError(
            f"--formula {ELAPSED} is the seed's formula, whose half-life of 30 days and weights "
            "are fixed: leave out --half-life and --weights, or --formula"
        )
    if over_time and given("at"):
        raise click.UsageError("--over-time reads the score at each of its moments: leave out --at")
    if given("every") and not over_time:
        raise click.UsageError("--every DAYS goes with --over-time, which is not given")


def _subject(tool: str | None, effect: str | None, scope: str, *, needed: bool) -> Subject | None:
    if tool is None:
        if needed:
            raise click.UsageError("--over-time is of one subject: TOOL EFFECT [--scope S]")
        return None
    if effect is None:
        raise click.UsageError("a subject is TOOL EFFECT [--scope S]")
    try:
        return subject_of(scope, tool, effect)
    except SubjectError as error:
        raise click.UsageError(str(error)) from None


def _rows(
    ledger: LedgerToRead,
    subject: Subject | None,
    half_lives: Sequence[HalfLife],
    weights: Weights,
    moment: int,
    now: int,
) -> list[list[WhatIf]]:
    """For each subject its scores, one a half-life."""
    from trustfold_projections.analysis.whatif import states_under

    by_half_life = [
        [
            whatif_of(state, one, now, weights)
            for state in states_under(ledger.connection, one, moment, subject)
        ]
        for one in half_lives
    ]
    return [list(row) for row in zip(*by_half_life, strict=True)]


def _over_time(
    ledger: LedgerToRead,
    subject: Subject,
    half_lives: Sequence[HalfLife],
    weights: Weights,
    known: int,
    until: int,
    every: int,
    as_json: bool,
) -> int:
    from trustfold_projections.analysis.whatif import entries_of_subject

    entries = entries_of_subject(ledger.connection, subject, known)
    if not entries:
        complain(f"nothing is known of {shown(subject)}")
        return 1
    moments = list(ends_of_days(entries[0].recorded, until, every))
    lines = [
        [made for _, made in over_time(subject, entries, one, moments, weights)]
        for one in half_lives
    ]
    if as_json:
        for moment, *row in zip(moments, *lines, strict=True):
            for one in row:
                print_json({"as_of": moment_text(moment), **_json(one)})
        return 0
    names = [f"{one.days} days" for one in half_lives]
    made = table(
        f"{shown(subject)}: score by half-life", "as of", *names, "n", numbers=(*names, "n")
    )
    for moment, *row in zip(moments, *lines, strict=True):
        made.add_row(
            short_moment(moment), *(f"{one.score:.4f}" for one in row), f"{row[0].n_samples:,}"
        )
    console().print(made)
    return 0


def _json(one: WhatIf) -> dict[str, Any]:
    return msgspec.structs.asdict(one)


def _print(
    rows: Sequence[Sequence[WhatIf]], half_lives: Sequence[HalfLife], top: int, now: int
) -> None:
    out = console()
    if not rows:
        out.print(f"no subject yet, at {short_moment(now)}")
        return
    ordered = sorted(rows, key=lambda row: (-row[0].score, row[0].subject))
    steps = [row for row in ordered if not row[0].subject.is_global]
    whole = [row for row in ordered if row[0].subject.is_global]
    when = f"score by half-life, at {short_moment(now)}"
    for title, some in ((when, steps), ("whole traces, by outcome", whole)):
        if some:
            out.print(_board(title, some[:top], half_lives))
        if len(some) > top:
            out.print(f"... and {len(some) - top:,} more (--top N)")


def _board(title: str, rows: Sequence[Sequence[WhatIf]], half_lives: Sequence[HalfLife]) -> Table:
    scoped = any(row[0].subject.scope for row in rows)
    names = [f"{one.days} days" for one in half_lives]
    made = table(
        title,
        *(["scope"] if scoped else []),
        "tool",
        "effect",
        *names,
        "n",
        numbers=(*names, "n"),
    )
    for row in rows:
        subject = row[0].subject
        made.add_row(
            *([plain(subject.scope)] if scoped else []),
            plain(subject.tool),
            plain(subject.effect),
            *(f"{one.score:.4f}" for one in row),
            f"{row[0].n_samples:,}",
        )
    return made
