"""`trustfold reward`: the reward of drafts, in numbers, in prose, and as the birth of a neuron."""

from __future__ import annotations

import uuid

import click
from msgspec import to_builtins

from trustfold_projections.laws.synthesis import reward_of
from trustfold_projections.laws.synthesis_words import dossier, prose
from trustfold_schemas.actions import Author
from trustfold_streams.cli.documents import publish, read_lines
from trustfold_streams.cli.options import Settings, json_option, store_option
from trustfold_streams.cli.output import print_json, say
from trustfold_streams.synthesis import birth_document, read_measured
from trustfold_streams.synthesis.loop import SOURCE


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--prose", "as_prose", is_flag=True, help="Print what to tell the next draft.")
@click.option("--check", is_flag=True, help="Exit 1 if a draft is below the gate.")
@click.option(
    "--approved-by",
    metavar="WHO",
    help="Let the neurons be born: WHO has seen the dossiers and approves. Refused below the gate.",
)
@store_option
@json_option
@click.pass_obj
def reward(
    settings: Settings,
    files: tuple[str, ...],
    as_prose: bool,
    check: bool,
    approved_by: str | None,
    as_json: bool,
) -> int:
    """Print the reward of drafts and what it is made of: the dossier for the person at the gate.

    FILE has one measurement a line (`-` is standard input):

    \b
    {"neuron": "budget", "tests": [{"name": "sums", "passed": true}],
     "judge": {"score": 0.6, "words": "fine"},
     "cost": {"actual_usd": 0.02, "estimated_usd": 0.02},
     "similarity": {"penalty": 0.1, "nearest": "finance"},
     "coverage": {"bonus": 0.2, "effects": ["net:bank"]}}

    The gate is at 0.65. R approves nothing: that takes --approved-by, and then R is the neuron's
    first evidence.
    """  # noqa: D301 - click's own mark for lines that stay as they are
    drafts = list(read_lines(files, read_measured))
    born: list[str] = []
    if approved_by is not None:
        bodies: list[bytes] = []
        with settings.open("create") as store:
            for measured in drafts:  # all of them pass, or none is published
                author = Author(SOURCE, str(uuid.uuid4()), store.clock.now())
                bodies.append(birth_document(author, measured, approved_by))
                born.append(author.event_id)
            for body in bodies:
                publish(store, body, settings.stamp)
    for number, measured in enumerate(drafts):
        if as_json:
            made = to_builtins(dossier(measured))
            event = {"event_id": born[number]} if born else {}
            print_json({**made, "prose": prose(measured), **event})
            continue
        for line in (prose(measured) if as_prose else dossier(measured).text).split("\n"):
            say(line)
        if born:
            say(f"{measured.neuron} is born, approved by {approved_by}: event {born[number]}")
        say("")
    return int(check and not all(reward_of(measured).passes for measured in drafts))
