"""`trustfold peek`: what the policy would answer; nothing is recorded."""

from __future__ import annotations

import click

from trustfold_schemas.subject import Subject
from trustfold_streams.cli.decide import CHECK
from trustfold_streams.cli.options import Settings, json_option, store_option, subject_arguments
from trustfold_streams.cli.output import print_json
from trustfold_streams.cli.verdicts import (
    print_verdict,
    reversibility_option,
    verdict_json,
    word_of,
)


@click.command()
@subject_arguments
@reversibility_option(required=False)
@CHECK
@store_option
@json_option
@click.pass_obj
def peek(
    settings: Settings, subject: Subject, reversibility: str, check: bool, as_json: bool
) -> int:
    """Say what `decide` would answer, spot checks apart, and what is missing to be promoted."""
    with settings.open_policy("read") as policies:
        made = policies.peek(subject, word_of(reversibility))
    if as_json:
        print_json(verdict_json(made))
    else:
        print_verdict(made)
    return int(check and made.verdict != "allow")
