"""Correlation: from facts to ledger entries, one key at a time (SPEC 3). Pure.

`correlate` takes one fact into what is known of its key, changes that in place, and answers with
an `Outcome`: the entries it makes and what it turns away. Any order of arrival comes to the same
sums. Where to look: `intake` and `hearing` for what a fact changes, `contribution` for what a
trace says, `trace` for entries as differences, `lone_close` for the shortest case of that,
`singles` for all that is not keyed by trace.
"""

from trustfold_projections.laws.correlation.dispatch import (
    Key,
    KeyState,
    correlate,
    key_of,
    log_key_of,
    new_state,
)
from trustfold_projections.laws.correlation.knowledge import TraceState
from trustfold_projections.laws.correlation.lone_close import lone_close
from trustfold_projections.laws.correlation.outcome import Outcome, Refusal, Verdict
from trustfold_projections.laws.correlation.trace import correlate_trace

__all__ = [
    "Key",
    "KeyState",
    "Outcome",
    "Refusal",
    "TraceState",
    "Verdict",
    "correlate",
    "correlate_trace",
    "key_of",
    "log_key_of",
    "lone_close",
    "new_state",
]
