"""`trustfold synapse`: how far each context trusts each neuron."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import click

from trustfold_projections.laws.self_play import (
    INITIAL,
    Synapse,
    neighbors,
    weights_of_neuron,
)
from trustfold_streams.cli.options import Settings, json_option, store_option
from trustfold_streams.cli.output import complain, console, plain, print_json, table
from trustfold_streams.embedded.synapse import EmbeddedSynapse
from trustfold_streams.kafka.extra import require_extra


@click.command()
@click.argument("contexts", nargs=-1, metavar="[CONTEXT...]")
@click.option("--scope", default="", metavar="S", help="Whose weights (default: no scope).")
@click.option("--neuron", metavar="NAME", help="The weights of one neuron, in every context.")
@store_option
@json_option
@click.pass_obj
def synapse(
    settings: Settings, contexts: tuple[str, ...], scope: str, neuron: str | None, as_json: bool
) -> int:
    """Print the synapse weights of contexts (default: of all), the heaviest neuron first.

    A self-play adds 0.05 to its winner and takes 0.025 from its loser; the first weight is 0.5.
    Exit 1 if nobody ever played there.
    """
    states = read_states(settings)
    if neuron is not None:
        found = weights_of_neuron(states, neuron, scope)
        rows = [(context, neuron, weight) for context, weight in found.items()]
    else:
        rows = [
            (context, one.neuron, one.weight)
            for context in (contexts or sorted(states))
            for one in neighbors(states.get(context, Synapse()), scope)
        ]
    rows = [row for row in rows if not contexts or row[0] in contexts]
    if as_json:
        for context, name, weight in rows:
            print_json({"context": context, "scope": scope, "neuron": name, "weight": weight})
    elif rows:
        shown = table("", "context", "neuron", "weight", numbers=("weight",))
        for context, name, weight in rows:
            shown.add_row(plain(context), plain(name), f"{weight / (2 * INITIAL):.3f}")
        console().print(shown)
    if not rows:
        complain("nobody played there" if contexts or neuron else "no self-play took place yet")
    return int(not rows)


def read_states(settings: Settings) -> Mapping[str, Synapse]:
    """Every context of the store, in a file or on a broker."""
    if settings.on_archive:
        raise click.UsageError("this command reads a store in a file, or a broker")
    if not settings.on_kafka:
        with EmbeddedSynapse(settings.path) as reader:
            return reader.read()
    there = settings.kafka_settings
    require_extra()
    from trustfold_streams.kafka.reaching import quiet_client
    from trustfold_streams.kafka.synapse import KafkaSynapse

    with quiet_client():
        return asyncio.run(KafkaSynapse(there).read())
