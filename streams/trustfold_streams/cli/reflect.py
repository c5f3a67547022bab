"""`trustfold reflect`: which memories to propose, who moved and by what, and who only pleases."""

from __future__ import annotations

from typing import Any, Literal

import click
from msgspec import Struct, to_builtins

from trustfold_projections.laws.dashboard import FAILING, FEW, PLEASING, By, flatterers
from trustfold_projections.laws.reflection import Proposal
from trustfold_projections.laws.reflection import reflect as filtered
from trustfold_projections.laws.scoring import score_of
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.scores import State, TrustScore
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.documents import decoder, read_lines
from trustfold_streams.cli.options import (
    Moment,
    Settings,
    json_option,
    moment_text,
    shown,
    store_option,
)
from trustfold_streams.cli.output import console, plain, print_json, say, short_moment, table
from trustfold_streams.clock import SystemClock
from trustfold_streams.drift import Moved, read_drift
from trustfold_streams.store_port import Store


@click.group()
def reflect() -> None:
    """What the scores say of memories, of a week, and of who only pleases."""


@reflect.command("proposals")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@store_option
@json_option
@click.pass_obj
def proposals(settings: Settings, files: tuple[str, ...], as_json: bool) -> int:
    """Rank proposals of memory by the trust in where they come from; drop those below 0.5.

    FILE has one a line: {"id": "p1", "subjects": [["", "shell", "shell:read"]]}. Several subjects
    count as the lowest of them, by raw score. Prints the kept ones first, the best at the top.
    """
    told = list(read_lines(files, decoder(Proposal)))
    with settings.open("read") as store:
        now = store.clock.now()
        made = filtered(told, lambda subject: _score(store, subject, now))
    if as_json:
        for rank, kept in enumerate(made.kept, start=1):
            raw = {"raw_score": kept.raw_score, "subject": kept.subject}
            print_json({"id": kept.proposal.id, "kept": True, "rank": rank, **raw})
        for one in made.dropped:
            raw = {"raw_score": one.raw_score, "subject": one.subject}
            print_json({"id": one.proposal.id, "kept": False, "reason": one.reason, **raw})
        return 0
    for kept in made.kept:
        say(f"{kept.raw_score:.4f}  {kept.proposal.id}  (least: {shown(kept.subject)})")
    for one in made.dropped:
        say(f"dropped {one.proposal.id}: {one.reason}, {shown(one.subject)}")
    return 0


@reflect.command("movers")
@click.option("--from", "start", type=Moment(), required=True, metavar="T", help="From when on.")
@click.option("--to", "end", type=Moment(), metavar="T", help="Until when (default: now).")
@click.option(
    "--top",
    type=click.IntRange(1, 1_000),
    metavar="N",
    default=10,
    show_default=True,
    help="So many subjects, those that moved most.",
)
@click.option(
    "--evidence",
    type=click.IntRange(0, 100),
    metavar="N",
    default=3,
    show_default=True,
    help="So many entries of each, those that moved it most.",
)
@click.option(
    "--occurred",
    is_flag=True,
    help="Go by when things happened, not by when they were recorded: for imported history.",
)
@store_option
@json_option
@click.pass_obj
def movers(
    settings: Settings,
    start: int,
    end: int | None,
    top: int,
    evidence: int,
    occurred: bool,
    as_json: bool,
) -> int:
    """Print whose raw score changed most over a window, and the entries that changed it.

    Of what was recorded after --from, up to --to. Subjects without samples before come last.
    History that was imported was recorded at once: --occurred goes by when it happened.
    """
    until = SystemClock().now() if end is None else end
    if start > until:
        raise click.UsageError("--from is after --to")
    by: By = "occurred" if occurred else "recorded"
    with settings.open_as_of(None if occurred else until) as store:
        found = read_drift(store, start, until, top, evidence, by)
    if as_json:
        for one in found:
            print_json(_mover_json(one))
    elif not found:
        say(f"nobody moved from {short_moment(start)} to {short_moment(until)}")
    else:
        _print_movers(found)
    return 0


@reflect.command("flatterers")
@click.option(
    "--approved",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    default=PLEASING,
    show_default=True,
    help="A human_approval_rate of at least this, from 0 to 1.",
)
@click.option(
    "--succeeds",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    default=FAILING,
    show_default=True,
    help="And a tool_success of at most this, from 0 to 1.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    metavar="N",
    default=FEW,
    show_default=True,
    help="Of subjects with at least so many traces.",
)
@click.option("--check", is_flag=True, help="Exit 1 if there is one.")
@store_option
@json_option
@click.pass_obj
def flattery(
    settings: Settings, approved: float, succeeds: float, samples: int, check: bool, as_json: bool
) -> int:
    """Print whom people approve although it fails: approved so often, succeeding so seldom."""
    with settings.open("read") as store:
        states = [state for state in store.states() if isinstance(state, State)]
    found = flatterers(states, approved, succeeds, samples)
    if as_json:
        for one in found:
            print_json(to_builtins(one))
    elif not found:
        say("nobody is approved although it fails")
    else:
        numbers = ("approved", "succeeds", "n")
        listed = table("", "subject", *numbers, numbers=numbers)
        for one in found:
            rate, success = f"{one.human_approval_rate:.3f}", f"{one.tool_success:.3f}"
            listed.add_row(plain(shown(one.subject)), rate, success, f"{one.n_samples:,}")
        console().print(listed)
    return int(check and bool(found))


def _score(store: Store, subject: Subject, now: int) -> TrustScore | Literal["corrupt"] | None:
    try:
        state = store.state(subject)
    except TrustCorruptionError:
        return "corrupt"
    return None if state is None or state.n_samples == 0 else score_of(state, now)


class _Evidence(Struct, frozen=True):
    """One entry among the evidence, as JSON."""

    entry_id: str
    kind: str
    trace_id: str | None
    event_id: str
    occurred: str | None
    recorded: str | None
    raw_score_before: float
    raw_score_after: float


def _mover_json(one: Moved) -> dict[str, Any]:
    mover = one.mover
    return {
        "subject": mover.subject,
        "raw_score_before": mover.before,
        "raw_score_after": mover.after,
        "change": mover.change,
        "samples": mover.samples,
        "is_new": mover.is_new,
        "evidence": [
            _Evidence(
                moved.entry.entry_id,
                moved.entry.kind,
                moved.entry.trace_id,
                moved.entry.event_id,
                moment_text(moved.entry.occurred),
                moment_text(moved.entry.recorded),
                moved.before,
                moved.after,
            )
            for moved in one.evidence
        ],
    }


def _print_movers(found: list[Moved]) -> None:
    numbers = ("change", "before", "after", "samples")
    listed = table("", "subject", *numbers, "moved most by", numbers=numbers)
    for one in found:
        mover = one.mover
        by = ", ".join(
            f"{moved.entry.kind} {moved.entry.trace_id or moved.entry.event_id} "
            f"({moved.after - moved.before:+.4f})"
            for moved in one.evidence
        )
        listed.add_row(
            plain(shown(mover.subject)),
            f"{mover.change:+.4f}",
            "new" if mover.is_new else f"{mover.before:.4f}",
            f"{mover.after:.4f}",
            f"{mover.samples:+,}",
            plain(by),
        )
    console().print(listed)
