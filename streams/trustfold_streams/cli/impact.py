"""`trustfold impact`: which promotions rested on what was, or would be, taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from trustfold_projections.laws.policy.hindsight import Differing, Impact
from trustfold_streams.cli.options import Settings, json_option, store_option
from trustfold_streams.cli.output import print_json, say
from trustfold_streams.cli.verdicts import answer, decision_json, print_decisions, verdict_json


@click.command()
@click.argument("name", metavar="TRACE_OR_EVENT")
@store_option
@json_option
@click.pass_obj
def impact(settings: Settings, name: str, as_json: bool) -> int:
    """List the promotions that a trace acted by, and those that rested on its evidence.

    TRACE_OR_EVENT is a trace, an undo, an exclusion, a rollback or any other event of the log. Of
    a revocation: the promotions acted by before it, of those whom it names.
    """
    with settings.open_policy("read") as policies:
        made = policies.impact(name)
    if as_json:
        print_json(
            {
                "name": made.name,
                "what": made.what,
                "acted": [decision_json(decision) for decision in made.acted],
                "rested": impacts_json(made.rested),
            }
        )
        return 0
    say(made.what)
    if made.acted:
        print_decisions("promotions acted by", [(decision, "") for decision in made.acted])
    print_impacts(made.rested)
    return 0


def impacts_json(rested: Sequence[Impact]) -> list[dict[str, Any]]:
    """Promotions with what they rested on and what they would have been without."""
    return [
        {
            **decision_json(one.decision),
            "rested_on": one.rested_on,
            "differs": one.differs,
            "without": verdict_json(one.without),
        }
        for one in rested
    ]


def print_impacts(rested: Sequence[Impact]) -> None:
    """Promotions that rested on something, for people."""
    if not rested:
        say("no promotion rested on it")
        return
    differ = sum(one.differs for one in rested)
    title = f"{len(rested):,} promotions rested on it, {differ:,} would have been asked without"
    print_decisions(title, [(one.decision, _without(one)) for one in rested])


def _without(one: Impact | Differing) -> str:
    without = answer(one.without)
    missing = f": {one.without.missing}" if one.without.missing else ""
    return f"without: {without}{missing}"


def differing_json(decisions: Sequence[Differing]) -> list[dict[str, Any]]:
    """Decisions with what they would have been."""
    return [
        {**decision_json(one.decision), "without": verdict_json(one.without)} for one in decisions
    ]


def print_differing(decisions: Sequence[Differing]) -> None:
    """Decisions that would have been others, for people."""
    if not decisions:
        say("every recorded decision would have been the same")
        return
    title = f"{len(decisions):,} recorded decisions would differ"
    print_decisions(title, [(one.decision, _without(one)) for one in decisions])
