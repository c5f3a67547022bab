"""What a policy would have done to a log, in counts, by scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
from msgspec import Struct

from trustfold_projections.analysis.backtest.actions import PastAction


class Tally(Struct, gc=False):
    """One policy in one scope, or in all of them together where `scope` is None.

    Of `actions` past actions it would have `allowed` some without a question; of these so many
    were denied by a human, failing (status error), undone, or violating, `bad` any of it, and
    `preventable` any of it but a failure, which a question does not prevent.
    Of `questions` that humans answered it would have `saved` some.
    """

    policy: str
    scope: str | None
    actions: int = 0
    allowed: int = 0
    denied: int = 0
    failed: int = 0
    undone: int = 0
    violated: int = 0
    preventable: int = 0
    bad: int = 0
    questions: int = 0
    saved: int = 0

    def add(self, other: Tally) -> None:
        """Add the counts of another tally of the same policy."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def count(self, action: PastAction, *, allowed: bool) -> None:
        """Count one action."""
        self.actions += 1
        self.questions += action.asked
        if allowed:
            self.allowed += 1
            self.saved += action.asked
            self.denied += action.denied
            self.failed += action.failed
            self.undone += action.undone
            self.violated += action.violated
            self.preventable += action.preventable
            self.bad += action.bad


COUNTS: Final = (
    "actions",
    "allowed",
    "denied",
    "failed",
    "undone",
    "violated",
    "preventable",
    "bad",
    "questions",
    "saved",
)


SCHEMA: Final = pa.schema(
    [
        pa.field("policy", pa.string(), nullable=False),
        pa.field("scope", pa.string()),
        *(pa.field(name, pa.int64(), nullable=False) for name in COUNTS),
    ]
)
"""Tallies as columns; scope is NULL where a row counts all scopes together."""


def with_totals(tallies: Iterable[Tally], names: Sequence[str]) -> list[Tally]:
    """By policy in the order of `names`: all scopes together, then scope by scope."""
    totals = {name: Tally(name, None) for name in names}
    scopes: dict[str, dict[str, Tally]] = {name: {} for name in names}
    for tally in tallies:
        if tally.scope is not None:
            totals[tally.policy].add(tally)
            of_policy = scopes[tally.policy]
            of_policy.setdefault(tally.scope, Tally(tally.policy, tally.scope)).add(tally)
    made: list[Tally] = []
    for name in names:
        made += [totals[name], *(scopes[name][scope] for scope in sorted(scopes[name]))]
    return made
