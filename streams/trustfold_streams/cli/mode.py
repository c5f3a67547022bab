"""`trustfold mode`: whether the policy promotes, or only says what it would."""

from __future__ import annotations

import click

from trustfold_schemas import actions
from trustfold_schemas.decisions import ModeName
from trustfold_streams.cli.options import (
    Author,
    Settings,
    json_option,
    moment_text,
    store_option,
    why_options,
)
from trustfold_streams.cli.output import print_json, say, short_moment
from trustfold_streams.cli.threshold import EXPECT
from trustfold_streams.policy_port import PolicyStore


@click.command()
@click.argument(
    "wanted", metavar="[shadow|enforce]", type=click.Choice(["shadow", "enforce"]), required=False
)
@click.option(
    "--spot-check-one-in",
    type=click.IntRange(min=0),
    metavar="N",
    help="Ask one promotion in N all the same; 0 asks none (default: as it is).",
)
@EXPECT
@why_options
@store_option
@json_option
@click.pass_obj
def mode(
    settings: Settings,
    wanted: ModeName | None,
    spot_check_one_in: int | None,
    expect: int | None,
    author: Author | None,
    as_json: bool,
) -> int:
    """Show the mode, or set it.

    `shadow` always asks, and says what the answer would be; `enforce` promotes.
    """
    if wanted is None and (spot_check_one_in is not None or author is not None):
        raise click.UsageError("say which mode: shadow or enforce")
    if wanted is None:
        with settings.open_policy("read") as policies:
            _show(policies, as_json)
        return 0
    if author is None:
        raise click.UsageError("--why must say why")
    with settings.open_policy("create") as policies:
        version = policies.in_force().mode.version if expect is None else expect
        policies.say(
            lambda one: actions.policy_mode(
                one, wanted, author.by, author.why, spot_check_one_in, version
            )
        )
        _show(policies, as_json)
    return 0


def _show(policy: PolicyStore, as_json: bool) -> None:
    in_force = policy.in_force()
    made = in_force.mode
    if as_json:
        print_json(
            {
                "mode": made.mode,
                "spot_check_one_in": made.spot_check_one_in,
                "version": made.version,
                "by": made.said and made.said.by,
                "why": made.said and made.said.why,
                "recorded": moment_text(made.said.recorded if made.said else None),
                "policy_version": in_force.version,
                "thresholds": len(in_force.thresholds),
                "declarations": len(in_force.declarations),
                "revocations": len(in_force.revocations),
            }
        )
        return
    one_in = made.spot_check_one_in
    checks = f"one promotion in {one_in} is asked all the same" if one_in else "no spot checks"
    say(f"{made.mode}; {checks}")
    if made.said is not None:
        said = made.said
        say(f"set {short_moment(said.recorded)} by {said.by}, version {made.version}: {said.why}")
    say(
        f"policy version {in_force.version}: {len(in_force.thresholds)} thresholds, "
        f"{len(in_force.declarations)} declarations, {len(in_force.revocations)} revocations"
    )
