"""`trustfold whatif --formula elapsed/1`: the seed's formula beside the table's, per subject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trustfold_projections.laws.elapsed import FORMULA, elapsed_digest
from trustfold_schemas.ledger import COMPONENTS
from trustfold_schemas.ledger import FORMULA as TABLES
from trustfold_schemas.subject import Subject
from trustfold_streams.archiver.extra import require_extra
from trustfold_streams.cli.days import ends_of_days
from trustfold_streams.cli.entry_sources import open_entries
from trustfold_streams.cli.options import Settings, moment_text, shown
from trustfold_streams.cli.output import complain, console, plain, print_json, short_moment, table
from trustfold_streams.clock import Clock

if TYPE_CHECKING:
    from trustfold_projections.analysis.whatif_elapsed import Beside

NUMBERS = (FORMULA, "table", "difference", "n")


def scores_beside(
    settings: Settings,
    subject: Subject | None,
    as_of: int | None,
    at: int | None,
    top: int,
    as_json: bool,
    clock: Clock,
) -> int:
    """Print every subject, or one, under both formulas; the exit code."""
    require_extra()
    from trustfold_projections.analysis.whatif_elapsed import beside

    with open_entries(settings) as source:
        now = at if at is not None else clock.now() if as_of is None else as_of
        moment = source.settled if as_of is None else as_of
        found = [beside(one, entries, now) for one, entries in source.by_subject(moment, subject)]
    if subject is not None and not found:
        complain(f"nothing is known of {shown(subject)}")
        return 1
    found.sort(key=lambda one: one.elapsed.subject)
    if as_json:
        for one in found:
            print_json(_json(one, now, as_of))
        return 0
    _print(found, top, now)
    return 0


def beside_day_by_day(
    settings: Settings,
    subject: Subject,
    as_of: int | None,
    every: int,
    as_json: bool,
    clock: Clock,
) -> int:
    """Print one subject under both formulas as it was known day by day; the exit code."""
    require_extra()
    from trustfold_projections.analysis.whatif_elapsed import beside_over_time

    with open_entries(settings) as source:
        moment = source.settled if as_of is None else as_of
        found = list(source.by_subject(moment, subject))
    if not found:
        complain(f"nothing is known of {shown(subject)}")
        return 1
    entries = found[0][1]
    until = clock.now() if as_of is None else as_of
    days = ends_of_days(min(one.recorded for one in entries), until, every)
    lines = beside_over_time(subject, entries, days)
    if as_json:
        for day, one in lines:
            print_json(_json(one, day, day))
        return 0
    made = table(f"{shown(subject)}: score by formula", "as of", *NUMBERS, numbers=NUMBERS)
    for day, one in lines:
        made.add_row(short_moment(day), *_numbers(one))
    console().print(made)
    return 0


def _json(one: Beside, now: int, as_of: int | None) -> dict[str, Any]:
    elapsed = one.elapsed
    return {
        "subject": elapsed.subject,
        "formula": elapsed.formula,
        **{name: getattr(elapsed, name) for name in COMPONENTS},
        "raw_score": elapsed.raw_score,
        "freshness": one.table.freshness,
        "score": one.score,
        "n_samples": elapsed.n_samples,
        "last_updated": moment_text(elapsed.last_updated),
        "at": moment_text(now),
        "as_of": moment_text(as_of),
        "digest": elapsed_digest(elapsed),
        "table": {
            "formula": TABLES,
            "raw_score": one.table.raw_score,
            "score": one.table.score,
            "n_samples": one.table.n_samples,
        },
    }


def _numbers(one: Beside) -> tuple[str, ...]:
    return (
        f"{one.score:.4f}",
        f"{one.table.score:.4f}",
        f"{one.score - one.table.score:+.4f}",
        f"{one.elapsed.n_samples:,}",
    )


def _print(found: Sequence[Beside], top: int, now: int) -> None:
    out = console()
    if not found:
        out.print(f"no subject yet, at {short_moment(now)}")
        return
    scoped = any(one.elapsed.subject.scope for one in found)
    made = table(
        f"score by formula, at {short_moment(now)}",
        *(["scope"] if scoped else []),
        "tool",
        "effect",
        *NUMBERS,
        numbers=NUMBERS,
    )
    for one in sorted(found, key=lambda one: (-one.score, one.elapsed.subject))[:top]:
        scope, tool, effect = one.elapsed.subject
        made.add_row(
            *([plain(scope)] if scoped else []), plain(tool), plain(effect), *_numbers(one)
        )
    out.print(made)
    if len(found) > top:
        out.print(f"... and {len(found) - top:,} more (--top N)")
