"""`trustfold why`: a decision followed back to the facts, years later."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from trustfold_schemas.events import (
    ApprovalDecidedEvent,
    Event,
    TraceExcludedEvent,
    TraceIncludedEvent,
    UndoExecutedEvent,
    type_of,
)
from trustfold_schemas.facts import Fact
from trustfold_streams.cli.options import Settings, json_option, moment_text, store_option
from trustfold_streams.cli.output import console, plain, print_json, say, short_moment, table
from trustfold_streams.cli.verdicts import decision_json, print_verdict
from trustfold_streams.policy_port import Why


@click.command()
@click.argument("decision_id", metavar="DECISION")
@store_option
@json_option
@click.pass_obj
def why(settings: Settings, decision_id: str, as_json: bool) -> int:
    """Print a decision's chain: verdict, step, feedback; and prove the state it rested on.

    The state is derived again from the ledger and from the facts. Exit 1 if anything differs from
    what was decided on; what differs is named.
    """
    with settings.open_policy("read") as policies:
        made = policies.why(decision_id)
    if as_json:
        print_json(_json(made))
    else:
        _print(made)
    return 0 if made.ok else 1


def _json(made: Why) -> dict[str, Any]:
    return {
        **decision_json(made.decision),
        "step": msgspec.to_builtins(made.step),
        "step_recorded": moment_text(made.step_recorded),
        "feedback": [_feedback_json(fact) for fact in made.feedback],
        "digest_matches": made.digest_matches,
        "digest_of_ledger": made.digest_of_ledger,
        "digest_of_facts": made.digest_of_facts,
        "verdict_matches": made.verdict_matches,
        "differences": made.differences,
    }


def _feedback_json(fact: Fact) -> dict[str, Any]:
    event = fact.event
    return {
        "type": type_of(event),
        "id": event.id,
        "time": moment_text(int(event.time)),
        "recorded": moment_text(fact.recorded),
        "by": _by(fact),
        "said": _said(event),
    }


def _by(fact: Fact) -> str:
    event = fact.event
    if isinstance(event, ApprovalDecidedEvent):
        by = event.data.decided_by
    elif isinstance(event, UndoExecutedEvent):
        by = event.data.by
    else:
        assert isinstance(event, TraceExcludedEvent | TraceIncludedEvent)
        return f"operator {fact.stamp.identity or event.data.by}"
    return f"{by.kind} {fact.stamp.identity or by.id}"


def _said(event: Event) -> str:
    if isinstance(event, ApprovalDecidedEvent):
        return event.data.decision
    if isinstance(event, UndoExecutedEvent):
        return "undone"
    return "excluded" if isinstance(event, TraceExcludedEvent) else "included"


def _print(made: Why) -> None:
    decision, step = made.decision, made.step
    print_verdict(decision.verdict)
    say(
        f"decision {decision.decision_id}, recorded {short_moment(decision.recorded)}, "
        f"of step {decision.action.step_id} of trace {decision.action.trace_id}"
    )
    if step is None:
        say("step: none is known by this name, nor one that carries the decision")
    else:
        carries = step.decision_id == decision.decision_id
        carried = "carries the decision" if carries else "does not carry the decision"
        via = f", via {step.via}" if step.via else ""
        say(f"step: {step.tool} {step.effect}, {step.status}{via}, {carried}")
    if made.feedback:
        listed = table("feedback", "recorded", "event", "said", "by")
        for fact in made.feedback:
            row = (plain(fact.event.id), _said(fact.event), plain(_by(fact)))
            listed.add_row(short_moment(fact.recorded), *row)
        console().print(listed)
    else:
        say("feedback: none")
    if made.digest_matches:
        say("digest matches: ledger and facts give the state that was decided on")
    else:
        say(f"digest DIFFERS: decided on {decision.verdict.digest}")
        say(f"  the ledger gives {made.digest_of_ledger}")
        say(f"  the facts give   {made.digest_of_facts}")
    for one in made.differences:
        say(f"  {one.where}: {one.difference}")
    if made.verdict_matches:
        say("verdict matches: the same past gives the same answer")
    elif made.verdict_again is not None:
        say(f"verdict DIFFERS: {made.verdict_again.verdict} ({made.verdict_again.reason})")
