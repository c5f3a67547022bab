"""Taking back: `rollback` and `lift` of a subject, `exclude` and `include` of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import click

from trustfold_projections.laws.policy.hindsight import Impact
from trustfold_projections.laws.scoring import score_of
from trustfold_schemas.scores import State, content_digest
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.impact import impacts_json, print_impacts
from trustfold_streams.cli.options import (
    Author,
    Moment,
    Settings,
    author_options,
    json_option,
    moment_text,
    shown,
    store_option,
    subject_arguments,
)
from trustfold_streams.cli.output import (
    complain,
    console,
    plain,
    print_json,
    say,
    short_moment,
    table,
)

DRY_RUN = click.option(
    "--dry-run",
    is_flag=True,
    help="Only show the score before and after, and the promotions that rested on what goes.",
)


@click.command(
    epilog="Example: trustfold rollback mail.send mail:send --to 2026-01-20 --why leaked --dry-run"
)
@subject_arguments
@click.option(
    "--to",
    type=Moment(),
    required=True,
    metavar="T",
    help="What was recorded of the subject after this moment does not count.",
)
@author_options
@DRY_RUN
@store_option
@json_option
@click.pass_obj
def rollback(
    settings: Settings, subject: Subject, to: int, author: Author, dry_run: bool, as_json: bool
) -> int:
    """Take a subject back to what it was at a moment.

    Nothing is deleted: the rollback is a fact of its own, and `lift` takes it away again. A brake
    is never lifted by it. Exit 1 if nothing was ever recorded of the subject.
    """
    with settings.open("write") as store:
        now = store.clock.now()
        if to > now:
            raise click.UsageError(f"--to {short_moment(to)} has not come yet")
        before = store.state(subject)
        if before is None:
            complain(f"nothing is known of {shown(subject)}")
            return 1
        after: State | None
        rested: list[Impact] = []
        if dry_run:
            after, name = store.state_if(subject, to=to), None
            with settings.open_policy("read") as policies:
                rested = policies.impact_of_rollback(subject, to)
        else:
            name = store.rollback(subject, to, author.by, author.why)
            after = store.state(subject)
    assert after is not None
    _print(name, before, after, now, as_json, dry_run=dry_run, rested=rested)
    return 0


@click.command()
@click.argument("rollback_id", metavar="ID")
@author_options
@DRY_RUN
@store_option
@json_option
@click.pass_obj
def lift(settings: Settings, rollback_id: str, author: Author, dry_run: bool, as_json: bool) -> int:
    """Take a rollback away; ID is the one that `rollback` printed."""
    with settings.open("write") as store:
        now = store.clock.now()
        subject = store.rollback_subject(rollback_id)
        before = store.state(subject)
        if dry_run:
            after: State | None = store.state_if(subject, lift=rollback_id)
        else:
            store.lift(rollback_id, author.by, author.why)
            after = store.state(subject)
    assert before is not None
    assert after is not None
    _print(rollback_id, before, after, now, as_json, dry_run=dry_run)
    return 0


@click.command()
@click.argument("trace_id", metavar="TRACE")
@author_options
@store_option
@json_option
@click.pass_obj
def exclude(settings: Settings, trace_id: str, author: Author, as_json: bool) -> int:
    """Take the evidence of a trace out of every score; its subjects are braked."""
    return _tell(settings, trace_id, author, "exclude", as_json)


@click.command()
@click.argument("trace_id", metavar="TRACE")
@author_options
@store_option
@json_option
@click.pass_obj
def include(settings: Settings, trace_id: str, author: Author, as_json: bool) -> int:
    """Put the evidence of an excluded trace back; the brake stays."""
    return _tell(settings, trace_id, author, "include", as_json)


def _tell(
    settings: Settings,
    trace_id: str,
    author: Author,
    what: Literal["exclude", "include"],
    as_json: bool,
) -> int:
    with settings.open("write") as store:
        store.exclude(trace_id, author.by, author.why, what)
    if as_json:
        print_json({f"{what}d": trace_id})
    else:
        say(f"{what}d trace {trace_id}")
    return 0


def _print(
    name: str | None,
    before: State,
    after: State,
    now: int,
    as_json: bool,
    *,
    dry_run: bool,
    rested: Sequence[Impact] = (),
) -> None:
    if as_json:
        print_json(
            {
                "id": name,
                "subject": before.subject,
                "dry_run": dry_run,
                "before": _state_json(before, now),
                "after": _state_json(after, now),
                "rested": impacts_json(rested),
            }
        )
        return
    out = console()
    title = "would change" if dry_run else f"rollback {name}"
    out.print(plain(f"{title}: {shown(before.subject)}"))
    listed = table("", "", "before", "after", numbers=("before", "after"))
    for label, was, would_be in zip(
        LABELS, _state_cells(before, now), _state_cells(after, now), strict=True
    ):
        listed.add_row(label, was, would_be)
    out.print(listed)
    if rested:
        print_impacts(rested)


LABELS = (
    "score",
    "raw_score",
    "samples",
    "last updated",
    "last grant",
    "last bad",
    "rollbacks in force",
)


def _state_cells(state: State, now: int) -> tuple[str, ...]:
    made = score_of(state, now)
    return (
        f"{made.score:.6f}",
        f"{made.raw_score:.6f}",
        f"{state.n_samples:,}",
        short_moment(state.last_updated),
        short_moment(state.last_grant_at),
        short_moment(state.last_bad_at),
        str(len(state.rollbacks)),
    )


def _state_json(state: State, now: int) -> dict[str, object]:
    made = score_of(state, now)
    return {
        "score": made.score,
        "raw_score": made.raw_score,
        "n_samples": state.n_samples,
        "last_updated": moment_text(state.last_updated),
        "last_grant_at": moment_text(state.last_grant_at),
        "last_bad_at": moment_text(state.last_bad_at),
        "rollbacks": [rollback.rollback_id for rollback in state.rollbacks],
        "digest": content_digest(state),
    }
