"""`trustfold effect`: the registry of how far effects can be taken back."""

from __future__ import annotations

import getpass

import click

from trustfold_projections.laws.policy.globs import rank
from trustfold_schemas import actions
from trustfold_schemas.decisions import BANDS
from trustfold_schemas.events import Reversibility
from trustfold_schemas.policy_events import EffectDeclared
from trustfold_streams.cli.options import (
    Author,
    Settings,
    author_options,
    json_option,
    moment_text,
    store_option,
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
from trustfold_streams.cli.threshold import EXPECT
from trustfold_streams.importers.declarations import shipped_declarations
from trustfold_streams.policy_port import Write


@click.group()
def effect() -> None:
    """How far effects can be taken back: declare, list, remove.

    An effect that no declaration matches is always asked.
    """


@effect.command()
@click.argument("glob", metavar="GLOB")
@click.option("--reversibility", type=click.Choice(BANDS), required=True)
@EXPECT
@author_options
@store_option
@json_option
@click.pass_obj
def declare(
    settings: Settings,
    glob: str,
    reversibility: Reversibility,
    expect: int | None,
    author: Author,
    as_json: bool,
) -> int:
    """Declare how far the effects that match GLOB can be taken back.

    In GLOB only `*` is special. Of several that match, the one with the longest text before its
    first star rules, then the longest one.
    """
    with settings.open_policy("create") as policies:
        version = policies.in_force().effect_version(glob) if expect is None else expect
        policies.say(
            lambda one: actions.effect_declared(
                one, glob, reversibility, author.by, author.why, version
            )
        )
        made = policies.in_force().declarations[glob]
    if as_json:
        print_json({"effect": glob, "reversibility": reversibility, "version": made.version})
    else:
        say(f"declared {glob} {reversibility}, version {made.version}")
    return 0


@effect.command("remove")
@click.argument("glob", metavar="GLOB")
@EXPECT
@author_options
@store_option
@json_option
@click.pass_obj
def remove(settings: Settings, glob: str, expect: int | None, author: Author, as_json: bool) -> int:
    """Take a declaration away; the next wider one rules. Exit 1 if GLOB is not declared."""
    with settings.open_policy("write") as policies:
        policy = policies.in_force()
        if glob not in policy.declarations:
            complain(f"no declaration is of the glob {glob!r}")
            return 1
        version = policy.effect_version(glob) if expect is None else expect
        policies.say(lambda one: actions.effect_removed(one, glob, author.by, author.why, version))
    if as_json:
        print_json({"removed": {"effect": glob}})
    else:
        say(f"removed the declaration of {glob}")
    return 0


@effect.command("list")
@store_option
@json_option
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> int:
    """List the declarations in force, the one that rules first at the top."""
    with settings.open_policy("read") as policies:
        policy = policies.in_force()
    known = sorted(policy.declarations.values(), key=lambda one: rank(one.effect))
    if as_json:
        for one in known:
            print_json(
                {
                    "effect": one.effect,
                    "reversibility": one.reversibility,
                    "version": one.version,
                    "by": one.said.by,
                    "why": one.said.why,
                    "recorded": moment_text(one.said.recorded),
                }
            )
        return 0
    if not known:
        say("nothing is declared, so nothing is promoted")
        return 0
    listed = table(
        "", "effect", "reversibility", "version", "set", "by", "why", numbers=("version",)
    )
    for one in known:
        listed.add_row(
            plain(one.effect),
            one.reversibility,
            str(one.version),
            short_moment(one.said.recorded),
            plain(one.said.by),
            plain(one.said.why),
        )
    console().print(listed)
    return 0


@effect.command("load-defaults")
@click.option("--by", default=getpass.getuser, metavar="WHO", help="Who decided it.")
@store_option
@json_option
@click.pass_obj
def load_defaults(settings: Settings, by: str, as_json: bool) -> int:
    """Declare the effects of the common agents' tools, as they ship with the product.

    A glob that was ever declared or removed here stays as it is.
    """
    with settings.open_policy("create") as policies:
        policy = policies.in_force()
        shipped = list(shipped_declarations(by))
        new = [one for one in shipped if not policy.effect_version(one.effect)]
        for one in new:
            policies.say(_declared(one))
    if as_json:
        print_json({"declared": len(new), "left_as_they_are": len(shipped) - len(new)})
    else:
        say(f"declared {len(new):,} effects; {len(shipped) - len(new):,} left as they are")
    return 0


def _declared(one: EffectDeclared) -> Write:
    """A shipped declaration, where none ever was."""
    return lambda author: actions.effect_declared(
        author, one.effect, one.reversibility, one.by, one.why, 0
    )
