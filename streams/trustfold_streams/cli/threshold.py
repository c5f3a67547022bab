"""`trustfold threshold`: what a subject must reach to act without asking."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import click
from msgspec.structs import replace
from rich.text import Text

from trustfold_projections.laws.policy import DEFAULTS
from trustfold_projections.laws.policy.globs import rank
from trustfold_projections.laws.policy.thresholds import shown as share_text
from trustfold_schemas import actions
from trustfold_schemas.amounts import ppm
from trustfold_schemas.decisions import BANDS, Threshold
from trustfold_schemas.events import Reversibility
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
from trustfold_streams.cli.verdicts import threshold_json, threshold_text


class Share(click.ParamType):
    """A number from 0 to 1, kept as parts per million."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read a share into parts per million."""
        try:
            return value if isinstance(value, int) else ppm(Decimal(value))
        except (InvalidOperation, ValueError):
            self.fail(f"Expected a number from 0 to 1, got {value!r}", param, ctx)


BAND = click.option(
    "--band", type=click.Choice(BANDS), required=True, help="The reversibility it holds for."
)
EXPECT = click.option(
    "--expect",
    type=click.IntRange(min=0),
    metavar="VERSION",
    help="Replace this version and no other (default: the one in force now).",
)
COUNT = click.IntRange(min=0, max=2**53)


@click.group()
def threshold() -> None:
    """What a subject must reach to act without asking: set, list, remove."""


@threshold.command("set")
@click.argument("effect", metavar="GLOB")
@BAND
@click.option("--min-score", type=Share(), metavar="S", help="The score, from 0 to 1.")
@click.option("--min-samples", type=COUNT, metavar="N", help="Effective samples.")
@click.option("--min-grants", type=COUNT, metavar="N", help="Effective grants by humans.")
@click.option(
    "--min-approval-rate", type=Share(), metavar="S", help="The share granted, where any was asked."
)
@click.option(
    "--cap/--no-cap",
    default=None,
    help="Whether effects that match are always asked, in every band.",
)
@EXPECT
@author_options
@store_option
@json_option
@click.pass_obj
def set_(
    settings: Settings,
    effect: str,
    band: Reversibility,
    min_score: int | None,
    min_samples: int | None,
    min_grants: int | None,
    min_approval_rate: int | None,
    cap: bool | None,
    expect: int | None,
    author: Author,
    as_json: bool,
) -> int:
    """Set the threshold of the effects that match GLOB, in one band.

    In GLOB only `*` is special. What is not given stays as it is, or as the band's default has it.
    """
    with settings.open_policy("create") as policies:
        policy = policies.in_force()
        known = policy.thresholds.get((effect, band))
        before = DEFAULTS[band] if known is None else known.threshold
        given = {
            "min_score": min_score,
            "min_samples": min_samples,
            "min_grants": min_grants,
            "min_approval_rate": min_approval_rate,
        }
        made = replace(
            before, effect=effect, **{name: n for name, n in given.items() if n is not None}
        )
        if cap is not None:
            made = replace(made, cap_autonomy="approve_required" if cap else None)
        version = policy.threshold_version(effect, band) if expect is None else expect
        policies.say(lambda one: actions.threshold_set(one, made, author.by, author.why, version))
        made = policies.in_force().thresholds[effect, band].threshold
    if as_json:
        print_json(threshold_json(made))
    else:
        say(f"set {threshold_text(made)}")
    return 0


@threshold.command("remove")
@click.argument("effect", metavar="GLOB")
@BAND
@EXPECT
@author_options
@store_option
@json_option
@click.pass_obj
def remove(
    settings: Settings,
    effect: str,
    band: Reversibility,
    expect: int | None,
    author: Author,
    as_json: bool,
) -> int:
    """Take a threshold away; the next wider one rules, or the band's default.

    Exit 1 if none is set for GLOB in this band.
    """
    with settings.open_policy("write") as policies:
        policy = policies.in_force()
        if (effect, band) not in policy.thresholds:
            complain(f"no threshold is set for {effect!r} in the band {band}")
            return 1
        version = policy.threshold_version(effect, band) if expect is None else expect
        policies.say(
            lambda one: actions.threshold_removed(one, effect, band, author.by, author.why, version)
        )
    if as_json:
        print_json({"removed": {"effect": effect, "risk_band": band}})
    else:
        say(f"removed the threshold of {effect} ({band})")
    return 0


@threshold.command("list")
@store_option
@json_option
@click.pass_obj
def list_(settings: Settings, as_json: bool) -> int:
    """List the thresholds in force, the one that rules first at the top, then the defaults."""
    with settings.open_policy("read") as policies:
        policy = policies.in_force()
    known = sorted(
        policy.thresholds.values(),
        key=lambda one: (rank(str(one.threshold.effect)), BANDS.index(one.threshold.risk_band)),
    )
    if as_json:
        for one in known:
            print_json(
                threshold_json(one.threshold)
                | {"by": one.said.by, "why": one.said.why}
                | {"recorded": moment_text(one.said.recorded)}
            )
        for default in DEFAULTS.values():
            print_json(threshold_json(default))
        return 0
    numbers = ("score", "samples", "grants", "rate", "version")
    columns = ("effect", "band", *numbers, "cap", "set", "by", "why")
    listed = table("", *columns, numbers=numbers)
    for one in known:
        said = (short_moment(one.said.recorded), plain(one.said.by), plain(one.said.why))
        listed.add_row(*_cells(one.threshold), *said)
    for default in DEFAULTS.values():
        listed.add_row(*_cells(default), "-", "-", "holds where nothing is set")
    console().print(listed)
    return 0


def _cells(made: Threshold) -> tuple[Text | str, ...]:
    return (
        plain(made.effect or "(default)"),
        made.risk_band,
        share_text(made.min_score),
        f"{made.min_samples:,}",
        f"{made.min_grants:,}",
        share_text(made.min_approval_rate),
        str(made.version),
        made.cap_autonomy or "-",
    )
