"""`trustfold decide`: ask whether an action may go without asking; the answer is recorded."""

from __future__ import annotations

import click

from trustfold_schemas.decisions import action_of
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.options import Settings, json_option, store_option, subject_arguments
from trustfold_streams.cli.output import print_json, say
from trustfold_streams.cli.verdicts import (
    decision_json,
    print_verdict,
    reversibility_option,
    word_of,
)

CHECK = click.option("--check", is_flag=True, help="Exit 1 unless the answer is `allow`.")


@click.command()
@subject_arguments
@click.option("--trace", "trace_id", required=True, metavar="TRACE", help="The running trace.")
@click.option("--step", "step_id", required=True, metavar="STEP", help="The step about to run.")
@click.option("--fingerprint", metavar="F", help="The keyed fingerprint of its arguments.")
@reversibility_option(required=True)
@CHECK
@store_option
@json_option
@click.pass_obj
def decide(
    settings: Settings,
    subject: Subject,
    trace_id: str,
    step_id: str,
    fingerprint: str | None,
    reversibility: str,
    check: bool,
    as_json: bool,
) -> int:
    """Ask whether a step may run without a person's approval; record the answer, then give it.

    The step then carries the decision's id. The same question within 24 hours gets the same
    answer, for as long as it would be an `allow` still.
    """
    action = action_of(
        {
            "subject": subject,
            "reversibility": word_of(reversibility),
            "trace_id": trace_id,
            "step_id": step_id,
            "args_fingerprint": fingerprint,
        }
    )
    with settings.open_policy("create") as policies:
        made = policies.decide(action)
    if as_json:
        print_json(decision_json(made))
    else:
        print_verdict(made.verdict)
        say(f"decision {made.decision_id}")
    return int(check and made.verdict.verdict != "allow")
