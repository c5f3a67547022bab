"""Verdicts and decisions as they are printed: JSON for programs, a short page for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from trustfold_projections.laws.policy.thresholds import shown as share_text
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decisions import BANDS, Decision, Threshold, Verdict
from trustfold_schemas.events import Reversibility
from trustfold_streams.cli.options import F, moment_text, shown
from trustfold_streams.cli.output import console, plain, short_moment, table

UNKNOWN = "unknown"


def reversibility_option(*, required: bool) -> Callable[[F], F]:
    """`--reversibility`: the caller's own word, which can only make a verdict stricter."""
    words = (
        "The caller's own word how far it can be taken back; it can only make the answer "
        "stricter than the registry's. `reversible` leaves it to the registry, `unknown` is "
        "never promoted."
    )
    return click.option(
        "--reversibility",
        type=click.Choice([*BANDS, UNKNOWN]),
        required=required,
        default=None if required else "reversible",
        show_default=not required,
        help=words,
    )


def word_of(reversibility: str) -> Reversibility | None:
    """What `--reversibility` says; None where the caller does not know."""
    return next((band for band in BANDS if band == reversibility), None)


def threshold_json(threshold: Threshold) -> dict[str, Any]:
    """A threshold with its shares as numbers from 0 to 1."""
    made: dict[str, Any] = msgspec.to_builtins(threshold)
    for name in ("min_score", "min_approval_rate"):
        made[name] = made[name] / PPM
    return made


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict with RFC 3339 instants and shares from 0 to 1."""
    made: dict[str, Any] = msgspec.to_builtins(verdict)
    for name in ("at", "last_updated", "last_bad_at", "last_grant_at"):
        made[name] = moment_text(made[name])
    if verdict.threshold is not None:
        made["threshold"] = threshold_json(verdict.threshold)
    return made


def decision_json(decision: Decision) -> dict[str, Any]:
    """A decision: its id, the action it answers, and the verdict's grounds beside them."""
    action = decision.action
    return {
        "decision_id": decision.decision_id,
        "recorded": moment_text(decision.recorded),
        "trace_id": action.trace_id,
        "step_id": action.step_id,
        "args_fingerprint": action.args_fingerprint,
        "said": action.reversibility,
        "stale": decision.stale,
        "owed_to": decision.owed_to,
        **verdict_json(decision.verdict),
    }


def print_verdict(verdict: Verdict) -> None:
    """A verdict for people: the answer, what is missing, and how its score comes about."""
    out = console()
    out.print(plain(shown(verdict.subject)), style="bold")
    out.print(plain(answer(verdict)))
    if verdict.missing:
        out.print(plain(f"missing: {verdict.missing}"))
    declared = verdict.declared_by or "nothing"
    out.print(
        plain(f"reversibility: {verdict.reversibility or 'unknown'} (declared by {declared})")
    )
    if verdict.threshold is not None:
        out.print(plain(f"threshold: {threshold_text(verdict.threshold)}"))
    parts = table("", "component", "value", "share", "term", numbers=("value", "share", "term"))
    for part in verdict.parts:
        value = f"{part.value:.6f}"
        shown_value = f"1 - {value}" if part.component == "undo_rate" else value
        parts.add_row(part.component, shown_value, f"{part.share:.2f}", f"{part.term:.6f}")
    parts.add_row("raw_score", "", "", f"{verdict.raw_score:.6f}")
    parts.add_row("x freshness", "", "", f"{verdict.freshness:.6f}")
    parts.add_row(f"= score at {short_moment(verdict.at)}", "", "", f"{verdict.score:.6f}")
    out.print(parts)
    out.print(
        f"{verdict.n_samples:,} samples, {verdict.effective_samples:,.2f} effective; "
        f"{verdict.effective_grants:,.2f} effective grants; "
        f"humans decided {verdict.human_coverage:.1%}; last bad "
        f"{short_moment(verdict.last_bad_at)}, last grant {short_moment(verdict.last_grant_at)}"
    )
    out.print(
        f"policy version {verdict.policy_version}, mode {verdict.mode}; "
        f"{verdict.version:,} entries by {verdict.formula}, digest {verdict.digest or 'none'}"
    )


def answer(verdict: Verdict) -> str:
    """The verdict and why, on one line."""
    would_be = "" if verdict.would_be == verdict.verdict else f", would be {verdict.would_be}"
    return f"{verdict.verdict} ({', '.join(verdict.reasons)}{would_be})"


def threshold_text(threshold: Threshold) -> str:
    """A threshold on one line."""
    where = threshold.effect or "default"
    cap = f", {threshold.cap_autonomy} always" if threshold.cap_autonomy else ""
    return (
        f"{where} ({threshold.risk_band}), version {threshold.version}: "
        f"score {share_text(threshold.min_score)}, {threshold.min_samples:,} samples, "
        f"{threshold.min_grants:,} grants, approval rate "
        f"{share_text(threshold.min_approval_rate)}{cap}"
    )


def print_decisions(title: str, decisions: Sequence[tuple[Decision, str]]) -> None:
    """Decisions for people, one a line, each with what there is to say of it."""
    listed = table(title, "decision", "at", "trace", "step", "verdict", "")
    for decision, remark in decisions:
        listed.add_row(
            decision.decision_id,
            short_moment(decision.recorded),
            plain(decision.action.trace_id),
            plain(decision.action.step_id),
            decision.verdict.verdict,
            plain(remark),
        )
    console().print(listed)
