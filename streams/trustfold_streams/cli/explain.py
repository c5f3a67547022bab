"""`trustfold explain`: a score taken apart, so that a person can recompute it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from trustfold_projections.laws.explanation import Explanation, Movement
from trustfold_projections.laws.explanation import explain as take_apart
from trustfold_projections.laws.policy.hindsight import Differing
from trustfold_schemas.ledger import COMPONENTS
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.impact import differing_json, print_differing
from trustfold_streams.cli.options import (
    Moment,
    Settings,
    json_option,
    moment_text,
    shown,
    store_option,
    subject_arguments,
)
from trustfold_streams.cli.output import complain, console, plain, print_json, short_moment, table


@click.command(epilog="Example: trustfold explain fs_write 'fs_write:~/notes/*' --without jan-14-a")
@subject_arguments
@click.option("--at", type=Moment(), metavar="T", help="The moment of reading (default: now).")
@click.option(
    "--latest",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="So many of the latest entries.",
)
@click.option(
    "--without",
    metavar="EVENT_OR_TRACE",
    help="Also the score, and the decisions that would differ, had this event or this trace never "
    "been.",
)
@store_option
@json_option
@click.pass_obj
def explain(
    settings: Settings,
    subject: Subject,
    at: int | None,
    latest: int,
    without: str | None,
    as_json: bool,
) -> int:
    """Take one score apart: five values with weight and term, and what each entry moved.

    A total is the sum of amounts, a weight the sum of weights, each halved per 30 days of age at
    the moment of reading; value = total / weight, and the terms add up to raw_score. Exit 1 if
    nothing was ever recorded of the subject.
    """
    with settings.open("read") as store:
        now = store.clock.now() if at is None else at
        made = store.explain(subject, now, latest)
        other, decisions = None, list[Differing]()
        if made is not None and without is not None:
            other = take_apart(subject, store.entries_without(subject, without), now, 0)
            if not settings.on_archive:
                with settings.open_policy("read") as policies:
                    decisions = policies.differing(subject, without)
    if made is None:
        complain(f"nothing is known of {shown(subject)}")
        return 1
    if as_json:
        print_json(_json(made, now, without, other, decisions))
    else:
        _print(made, now)
        if other is not None:
            _print_without(made, other, str(without))
            print_differing(decisions)
    return 0


def _json(
    made: Explanation,
    now: int,
    without: str | None,
    other: Explanation | None,
    decisions: Sequence[Differing],
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "subject": made.score.subject,
        "at": moment_text(now),
        "terms": made.terms,
        "raw_score": made.score.raw_score,
        "freshness": made.score.freshness,
        "score": made.score.score,
        "n_samples": made.score.n_samples,
        "effective_samples": made.score.effective_samples,
        "effective_grants": made.score.effective_grants,
        "human_coverage": made.human_coverage,
        "last_updated": moment_text(made.state.last_updated),
        "last_bad_at": moment_text(made.state.last_bad_at),
        "last_grant_at": moment_text(made.state.last_grant_at),
        "rollbacks": [
            {
                "id": one.rollback_id,
                "to": moment_text(one.to),
                "at": moment_text(one.at),
            }
            for one in made.state.rollbacks
        ],
        "entries": made.entries,
        "latest": [_movement_json(movement) for movement in made.movements],
    }
    if other is not None:
        answer["without"] = {
            "name": without,
            "entries": other.entries,
            "terms": other.terms,
            "raw_score": other.score.raw_score,
            "score": other.score.score,
            "n_samples": other.score.n_samples,
            "last_bad_at": moment_text(other.state.last_bad_at),
            "last_grant_at": moment_text(other.state.last_grant_at),
            "decisions": differing_json(decisions),
        }
    return answer


def _movement_json(movement: Movement) -> dict[str, Any]:
    entry = movement.entry
    made = msgspec.to_builtins(entry)
    for name in ("occurred", "recorded", "bad_at", "grant_at", "to"):
        made[name] = moment_text(made[name])
    made["chain"] = [moment_text(moment) for moment in entry.chain]
    return {
        "entry_id": entry.entry_id,
        **made,
        "counts": movement.counts,
        "weight": movement.weight,
        "raw_score_before": movement.before,
        "raw_score_after": movement.after,
    }


def _print(made: Explanation, now: int) -> None:
    out = console()
    out.print(plain(shown(made.score.subject)), style="bold")
    numbers = ("total", "weight", "value", "share", "term")
    parts = table("", "component", *numbers, numbers=numbers)
    for term in made.terms:
        value = f"{term.value:.6f}"
        parts.add_row(
            term.component,
            f"{term.total:,.4f}",
            f"{term.weight:,.4f}",
            f"1 - {value}" if term.component == "undo_rate" else value,
            f"{term.share:.2f}",
            f"{term.term:.6f}",
        )
    score = made.score
    parts.add_row("raw_score", "", "", "", "", f"{score.raw_score:.6f}")
    parts.add_row("x freshness", "", "", "", "", f"{score.freshness:.6f}")
    parts.add_row(f"= score at {short_moment(now)}", "", "", "", "", f"{score.score:.6f}")
    out.print(parts)
    out.print(
        f"{score.n_samples:,} samples, {score.effective_samples:,.2f} effective; "
        f"{score.effective_grants:,.2f} effective grants; "
        f"humans decided {made.human_coverage:.1%} of the samples"
    )
    out.print(
        f"last updated {short_moment(made.state.last_updated)}, "
        f"last bad {short_moment(made.state.last_bad_at)}, "
        f"last grant {short_moment(made.state.last_grant_at)}"
    )
    for rollback in made.state.rollbacks:
        out.print(
            plain(
                f"rollback {rollback.rollback_id} in force: what was recorded after "
                f"{short_moment(rollback.to)} and up to {short_moment(rollback.at)} does not count"
            )
        )
    if made.movements:
        out.print(_movements(made))


def _movements(made: Explanation) -> Any:
    title = f"the latest {len(made.movements)} of {made.entries:,} entries"
    columns = ("recorded", "kind", "event", "weight", "amounts", "raw before", "after")
    listed = table(title, *columns, numbers=("weight", "raw before", "after"))
    for movement in made.movements:
        listed.add_row(
            short_moment(movement.entry.recorded),
            movement.entry.kind + ("" if movement.counts else " (rolled back)"),
            plain(movement.entry.event_id),
            f"{movement.weight:.4f}",
            plain(_amounts(movement)),
            f"{movement.before:.6f}",
            f"{movement.after:.6f}",
        )
    return listed


def _amounts(movement: Movement) -> str:
    """What an entry says, in shares of one: `tool_success 0.5/1` is an amount over a weight."""
    entry = movement.entry
    said = [
        f"{name} {amount / 1_000_000:g}/{weight}"
        for name, amount, weight in zip(COMPONENTS, entry.amounts, entry.weights, strict=True)
        if amount or weight
    ]
    if entry.self_play is not None:
        said.append(f"self-play {entry.self_play[0] / 1_000_000:g}/{entry.self_play[1]}")
    if entry.bad_at is not None:
        said.append(f"bad at {short_moment(entry.bad_at)}")
    if entry.grant_at is not None:
        said.append(f"grant at {short_moment(entry.grant_at)}")
    if entry.to is not None:
        said.append(f"back to {short_moment(entry.to)}")
    if entry.lifts is not None:
        said.append(f"lifts {entry.lifts}")
    return ", ".join(said) or "nothing"


def _print_without(made: Explanation, other: Explanation, name: str) -> None:
    out = console()
    out.print(plain(f"without {name}"))
    listed = table("", "", "as it is", "without", numbers=("as it is", "without"))
    for label, a, b in (
        ("raw_score", f"{made.score.raw_score:.6f}", f"{other.score.raw_score:.6f}"),
        ("score", f"{made.score.score:.6f}", f"{other.score.score:.6f}"),
        ("samples", f"{made.score.n_samples:,}", f"{other.score.n_samples:,}"),
        ("last bad", short_moment(made.state.last_bad_at), short_moment(other.state.last_bad_at)),
        (
            "last grant",
            short_moment(made.state.last_grant_at),
            short_moment(other.state.last_grant_at),
        ),
    ):
        listed.add_row(label, a, b)
    out.print(listed)
