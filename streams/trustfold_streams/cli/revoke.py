"""`trustfold revoke` and `reinstate`: no promotion any more, and the way back."""

from __future__ import annotations

import click

from trustfold_projections.laws.policy import Revocation
from trustfold_schemas import actions
from trustfold_streams.cli.options import (
    Author,
    Settings,
    author_options,
    json_option,
    moment_text,
    store_option,
    why_options,
)
from trustfold_streams.cli.output import console, plain, print_json, say, short_moment, table


@click.command()
@click.option("--tool", metavar="GLOB", help="Of these tools only.")
@click.option("--effect", metavar="GLOB", help="Of these effects only.")
@click.option("--scope", metavar="GLOB", help="Of these scopes only; '' is the one without a name.")
@click.option("--all", "everything", is_flag=True, help="Of everything there is and will be.")
@author_options
@store_option
@json_option
@click.pass_obj
def revoke(
    settings: Settings,
    tool: str | None,
    effect: str | None,
    scope: str | None,
    everything: bool,
    author: Author,
    as_json: bool,
) -> int:
    """Promote no subject any more that all the globs match, known or not yet.

    It lasts until an operator reinstates it. In a glob only `*` is special.
    """
    named = (tool, effect, scope) != (None, None, None)
    if everything == named:
        raise click.UsageError("name --tool, --effect or --scope, or else --all")
    globs = {
        "scope": "*" if scope is None else scope,
        "tool": "*" if tool is None else tool,
        "effect": "*" if effect is None else effect,
    }
    with settings.open_policy("create") as policies:
        name = policies.say(lambda one: actions.trust_revoked(one, author.by, author.why, **globs))
    if as_json:
        print_json({"id": name, **globs})
    else:
        say(f"revoked {_globs(**globs)}")
        say(f"`trustfold reinstate {name} --why W` takes it away")
    return 0


@click.command()
@click.argument("revocation_id", metavar="[ID]", required=False)
@why_options
@store_option
@json_option
@click.pass_obj
def reinstate(
    settings: Settings, revocation_id: str | None, author: Author | None, as_json: bool
) -> int:
    """Take a revocation away; without ID, list those in force."""
    if revocation_id is None:
        with settings.open_policy("read") as policies:
            _list(policies.in_force().revocations, as_json)
        return 0
    if author is None:
        raise click.UsageError("--why must say why")
    with settings.open_policy("write") as policies:
        policies.reinstate(revocation_id, author.by, author.why)
    if as_json:
        print_json({"reinstated": revocation_id})
    else:
        say(f"reinstated {revocation_id}")
    return 0


def _list(revocations: tuple[Revocation, ...], as_json: bool) -> None:
    if as_json:
        for one in revocations:
            print_json(
                {
                    "id": one.revocation_id,
                    "scope": one.scope,
                    "tool": one.tool,
                    "effect": one.effect,
                    "by": one.said.by,
                    "why": one.said.why,
                    "recorded": moment_text(one.said.recorded),
                }
            )
        return
    if not revocations:
        say("nothing is revoked")
        return
    listed = table("revocations in force", "id", "subjects", "set", "by", "why")
    for one in revocations:
        listed.add_row(
            plain(one.revocation_id),
            plain(_globs(one.scope, one.tool, one.effect)),
            short_moment(one.said.recorded),
            plain(one.said.by),
            plain(one.said.why),
        )
    console().print(listed)


def _globs(scope: str, tool: str, effect: str) -> str:
    return f"tool {tool!r}, effect {effect!r}, scope {scope!r}"
