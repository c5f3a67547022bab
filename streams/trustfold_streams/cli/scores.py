"""`trustfold scores` and `trustfold score`: the leaderboard, and one subject."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from trustfold_projections.laws.leaderboard import Leaderboard
from trustfold_projections.laws.scoring import RAW_SCORE_WEIGHTS, score_of
from trustfold_schemas.instants import instant_of
from trustfold_schemas.ledger import COMPONENTS, FORMULA
from trustfold_schemas.scores import Corrupt, State, TrustScore, content_digest
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.options import (
    Settings,
    json_option,
    moment_options,
    moment_text,
    shown,
    store_option,
    subject_arguments,
    top_option,
)
from trustfold_streams.cli.output import complain, console, plain, print_json, short_moment, table
from trustfold_streams.store_port import Store


@click.command()
@top_option
@moment_options
@store_option
@json_option
@click.pass_obj
def scores(settings: Settings, top: int, as_of: int | None, at: int | None, as_json: bool) -> int:
    """Print the leaderboard: every subject by its score, whole traces by outcome apart.

    raw is the score before freshness; n counts traces, effective the same with each halved per
    30 days of age.
    """
    with settings.open_as_of(as_of) as store:
        now = _reading_moment(store, as_of, at)
        read: list[State | Corrupt] | Leaderboard
        if not as_json:
            read = store.leaderboard(top, now, as_of)
        else:
            read = store.states() if as_of is None else [*store.states_as_of(as_of)]
    if isinstance(read, Leaderboard):
        _print_board(read, now, as_of)
        return 3 if read.corrupt else 0
    corrupt = [one for one in read if isinstance(one, Corrupt)]
    for state in read:
        if isinstance(state, State):
            print_json(_score_json(state, now, as_of))
    for one in corrupt:
        print_json({"subject": one.subject, "corrupt": one.error})
    return 3 if corrupt else 0


@click.command(epilog="Example: trustfold score fs_write 'fs_write:~/notes/*' --at 2026-02-01")
@subject_arguments
@moment_options
@store_option
@json_option
@click.pass_obj
def score(
    settings: Settings, subject: Subject, as_of: int | None, at: int | None, as_json: bool
) -> int:
    """Print one subject's score and the five values that it is made of.

    Exit 1 if nothing was ever recorded of the subject.
    """
    with settings.open_as_of(as_of) as store:
        state = store.state(subject) if as_of is None else store.state_as_of(subject, as_of)
        now = _reading_moment(store, as_of, at)
    if state is None:
        complain(f"nothing is known of {shown(subject)}")
        return 1
    if as_json:
        print_json(_score_json(state, now, as_of))
    else:
        _print_score(state, now, as_of)
    return 0


def _reading_moment(store: Store, as_of: int | None, at: int | None) -> int:
    if at is not None:
        return at
    return store.clock.now() if as_of is None else as_of


def _score_json(state: State, now: int, as_of: int | None) -> dict[str, Any]:
    made = score_of(state, now)
    return {
        "subject": made.subject,
        **{name: getattr(made, name) for name in COMPONENTS},
        "raw_score": made.raw_score,
        "freshness": made.freshness,
        "score": made.score,
        "n_samples": made.n_samples,
        "effective_samples": made.effective_samples,
        "effective_grants": made.effective_grants,
        "last_updated": moment_text(state.last_updated),
        "last_bad_at": moment_text(state.last_bad_at),
        "last_grant_at": moment_text(state.last_grant_at),
        "at": moment_text(now),
        "as_of": moment_text(as_of),
        "rollbacks": len(state.rollbacks),
        "version": state.version,
        "formula": FORMULA,
        "digest": content_digest(state),
    }


def _print_board(board: Leaderboard, now: int, as_of: int | None) -> None:
    out = console()
    when = f"at {short_moment(now)}" + (f", as of {short_moment(as_of)}" if as_of else "")
    if not (board.steps_in_all or board.traces_in_all or board.corrupt):
        out.print(f"no subject yet, {when}")
        if as_of is not None:
            out.print("(what was imported was recorded when it was imported)")
    for title, some, in_all in (
        ("subjects", board.steps, board.steps_in_all),
        ("whole traces, by outcome", board.traces, board.traces_in_all),
    ):
        if some:
            out.print(_board(f"{title}, {when}", some))
            if in_all > len(some):
                out.print(f"... and {in_all - len(some):,} more (--top N)")
            out.print()
    for one in board.corrupt:
        out.print(f"no trust: {one.error}", markup=False)


def _board(title: str, some: Sequence[TrustScore]) -> Any:
    scoped = any(one.subject.scope for one in some)
    numbers = ("score", "raw", "n", "effective")
    columns = ["tool", "effect", *numbers, "last updated", "last bad"]
    made = table(title, *(["scope"] if scoped else []), *columns, numbers=numbers)
    for one in some:
        names = [plain(one.subject.tool), plain(one.subject.effect)]
        made.add_row(
            *([plain(one.subject.scope)] if scoped else []),
            *names,
            f"{one.score:.4f}",
            f"{one.raw_score:.4f}",
            f"{one.n_samples:,}",
            f"{one.effective_samples:,.1f}",
            _short(one.last_updated),
            _short(one.last_bad_at),
        )
    return made


def _short(moment: datetime | None) -> str:
    return short_moment(None if moment is None else instant_of(moment))


def _print_score(state: State, now: int, as_of: int | None) -> None:
    made = score_of(state, now)
    out = console()
    out.print(plain(shown(made.subject)), style="bold")
    if as_of is not None:
        out.print(f"as of {short_moment(as_of)}: what was recorded later does not count")
    parts = table("", "component", "value", "weight", "term", numbers=("value", "weight", "term"))
    for name, weight in zip(COMPONENTS, RAW_SCORE_WEIGHTS, strict=True):
        value = getattr(made, name)
        term = weight * (1 - value if name == "undo_rate" else value)
        label = f"1 - {name}" if name == "undo_rate" else name
        shown_value = 1 - value if name == "undo_rate" else value
        parts.add_row(label, f"{shown_value:.6f}", f"{weight:.2f}", f"{term:.6f}")
    parts.add_row("raw_score", "", "", f"{made.raw_score:.6f}")
    parts.add_row("x freshness", "", "", f"{made.freshness:.6f}")
    parts.add_row(f"= score at {short_moment(now)}", "", "", f"{made.score:.6f}")
    out.print(parts)
    out.print(
        f"{made.n_samples:,} samples, {made.effective_samples:,.2f} effective; "
        f"{made.effective_grants:,.2f} effective grants"
    )
    out.print(
        f"last updated {short_moment(state.last_updated)}, "
        f"last bad {short_moment(state.last_bad_at)}, "
        f"last grant {short_moment(state.last_grant_at)}"
    )
    if state.rollbacks:
        out.print(f"{len(state.rollbacks)} rollbacks in force")
    out.print(f"digest {content_digest(state)}")
