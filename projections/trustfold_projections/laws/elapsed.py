"""The formula `elapsed/1`: the seed's snippet, guarded, over one subject's ledger (SPEC 4).

Computed on demand for audits, comparisons and backtests; the table's law is `ewm/1`, in `fold`.
Only IEEE + - *, integer division and exact powers of two, so that every machine gives the same
bits (`reference/elapsed.md`): no `pow`, no sum reordered, no fused multiply-add.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct

from trustfold_projections.laws.fold import counts, later, rollbacks_in_force
from trustfold_projections.laws.scoring import WITHOUT_EVIDENCE, freshness_of, raw_score_of
from trustfold_projections.laws.time_weights import HALF_LIFE
from trustfold_schemas.amounts import PPM
from trustfold_schemas.ledger import (
    CONSTITUTION_CLEAN,
    COST_EFFICIENCY,
    HUMAN_APPROVAL_RATE,
    TOOL_SUCCESS,
    UNDO_RATE,
    Entry,
)
from trustfold_schemas.subject import Subject

FORMULA: Final = "elapsed/1"

NOT_ASKED: Final = 0.5
"""What a sample without a human decision says of human_approval_rate, as in the seed."""

_INVERSE: Final = 1.0 / HALF_LIFE
_ERAS_MAX: Final = 62
"""After so many half-lives nothing is left of a value: half an ulp of 1 is 2**-53."""

_COEFFICIENTS: Final = tuple(
    float.fromhex(text)
    for text in (
        "-0x1.64a26339cfc41p-32",
        "0x1.d243a2cb23d63p-28",
        "-0x1.b3a1f3293f864p-24",
        "0x1.62ac4a0bf8885p-20",
        "-0x1.ffcaabf740716p-17",
        "0x1.43090bcb5dcabp-13",
        "-0x1.5d87fe47aea63p-10",
        "0x1.3b2ab6fae1ae4p-7",
        "-0x1.c6b08d7046eccp-5",
        "0x1.ebfbdff82c53fp-3",
        "-0x1.62e42fefa39efp-1",
    )
)
"""C11 down to C1 of the polynomial for 2**-u on [0, 1); C0 is 1."""

EVIDENCE: Final = frozenset({"evidence", "correction", "initial"})
"""The kinds of entries that samples are made of."""
_FRESHENING: Final = frozenset({"evidence", "initial"})

Five = tuple[float, float, float, float, float]


class ElapsedState(Struct, frozen=True, gc=False, kw_only=True):
    """What the seed's snippet says of a subject after its last sample.

    The five components and raw_score are in [0, 1]; `n_samples` counts traces, `last_updated`
    (microseconds since 1970) is the fold's: the last clean trace, not the last sample.
    """

    subject: Subject
    tool_success: float
    human_approval_rate: float
    cost_efficiency: float
    constitution_clean: float
    undo_rate: float
    raw_score: float
    n_samples: int
    last_updated: int | None
    formula: Literal["elapsed/1"] = FORMULA


def elapsed_state(subject: Subject, entries: Iterable[Entry]) -> ElapsedState:
    """The state of a subject under `elapsed/1`, from all of its entries, in log order.

    As of a moment: give it the entries recorded at or before that moment. Only the order of
    rollbacks and their liftings matters; samples are put in order here.
    """
    ledger = list(entries)
    counting = _counting(ledger)
    values: Five = WITHOUT_EVIDENCE
    n_samples, last = 0, None
    for sample in _samples(counting):
        alpha = 0.0 if last is None else alpha_of(sample.occurred - last)
        values = moved(values, sample, alpha)
        n_samples += sample.n_samples
        last = sample.occurred
    last_updated: int | None = None
    for entry in counting:
        if entry.clean and entry.kind in _FRESHENING:
            last_updated = later(last_updated, entry.occurred)
    return ElapsedState(
        subject=subject,
        tool_success=values[TOOL_SUCCESS],
        human_approval_rate=values[HUMAN_APPROVAL_RATE],
        cost_efficiency=values[COST_EFFICIENCY],
        constitution_clean=values[CONSTITUTION_CLEAN],
        undo_rate=values[UNDO_RATE],
        raw_score=raw_score_of(values),
        n_samples=n_samples,
        last_updated=last_updated,
    )


def elapsed_score(state: ElapsedState, now: int) -> float:
    """The score at `now` (microseconds since 1970): raw_score times the freshness of SPEC 4."""
    return state.raw_score * freshness_of(state.last_updated, now)


def elapsed_digest(state: ElapsedState) -> str:
    """The SHA-256 of a state's compact JSON, 64 hexadecimal digits: the pin of golden vectors.

    `[formula,[scope,tool,effect],[five values],raw_score,n_samples,last_updated]`, floats as C
    writes them with %a, integers as decimal strings, absent = null.
    """
    values = (
        state.tool_success,
        state.human_approval_rate,
        state.cost_efficiency,
        state.constitution_clean,
        state.undo_rate,
    )
    content = (
        state.formula,
        state.subject,
        [value.hex() for value in values],
        state.raw_score.hex(),
        str(state.n_samples),
        None if state.last_updated is None else str(state.last_updated),
    )
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def alpha_of(elapsed: int) -> float:
    """What is left of a value after so many microseconds: 2**-(elapsed/H), in canonical bits.

    1 at and before 0, never above it, within 2 ulp of the exact number, 0 after 62 half-lives.
    """
    if elapsed <= 0:
        return 1.0
    eras, rem = divmod(elapsed, HALF_LIFE)
    if eras >= _ERAS_MAX:
        return 0.0
    u = float(rem) * _INVERSE
    p = 0.0
    for coefficient in _COEFFICIENTS:
        p = (p + coefficient) * u
    # A power of two scales exactly, unlike `pow` of a fraction.
    return (p + 1.0) * 2.0**-eras


class Sample(Struct, gc=False):
    """What the counting evidence and corrections of one trace come to."""

    occurred: int
    trace_id: str
    amounts: list[int]
    weights: list[int]
    n_samples: int

    def add(self, entry: Entry) -> None:
        """Merge one more of the trace's entries."""
        for c, (amount, weight) in enumerate(zip(entry.amounts, entry.weights, strict=True)):
            self.amounts[c] += amount
            self.weights[c] += weight
        self.n_samples += entry.n_samples


def _counting(ledger: Sequence[Entry]) -> list[Entry]:
    """The evidence, corrections and initial evidence that no rollback in force takes out."""
    rollbacks = rollbacks_in_force(ledger)
    return [entry for entry in ledger if entry.kind in EVIDENCE and counts(entry.chain, rollbacks)]


def _samples(counting: Iterable[Entry]) -> list[Sample]:
    """One sample a trace that still counts as one, by (occurred, trace_id)."""
    merged: dict[str, Sample] = {}
    for entry in counting:
        trace_id = entry.trace_id or ""  # initial evidence has none
        sample = merged.get(trace_id)
        if sample is None:
            sample = Sample(entry.occurred, trace_id, [0] * 5, [0] * 5, 0)
            merged[trace_id] = sample
        sample.add(entry)
    made = (sample for sample in merged.values() if sample.n_samples)
    return sorted(made, key=lambda sample: (sample.occurred, sample.trace_id))


def moved(values: Five, sample: Sample, alpha: float) -> Five:
    """The snippet's update: what is left of the old value, and the sample for the rest."""
    fresh = 1.0 - alpha
    moved: list[float] = []
    for c, value in enumerate(values):
        if sample.weights[c]:
            said = sample.amounts[c] / PPM
        elif c == HUMAN_APPROVAL_RATE:
            said = NOT_ASKED
        else:
            moved.append(value)
            continue
        # With alpha 0, that of the first sample, this is `said` to the bit.
        moved.append(value * alpha + said * fresh)
    tool, approval, cost, clean, undo = moved
    return tool, approval, cost, clean, undo
