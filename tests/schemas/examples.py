"""One accepted document of every type, each with every field that its type has.

Tests change copies of them: `example` gives one, `changed` puts a value at a path of one, and
`written` is what a producer sends.
"""

import json
from copy import deepcopy
from typing import Any

Document = dict[str, Any]

MOMENT = "2026-04-22T12:34:56.789012Z"
STEP: Document = {
    "step_id": "s1",
    "tool": "fs_write",
    "effect": "fs_write:~/notes/*",
    "status": "ok",
    "error": None,
    "reversibility": "reversible",
    "args_fingerprint": "hmac:6f1a",
    "via": "human",
    "decision_id": "d1",
}
SUBJECT = ["", "fs_write", "fs_write:~/notes/*"]
ANNA: Document = {"kind": "human", "id": "anna"}

_DATA: dict[str, Document] = {
    "trace.closed": {
        "trace_id": "t1",
        "scope": "",
        "session": "morning",
        "agent": "archivist",
        "outcome": "completed",
        "cost_usd": 0.0125,
        "steps": [STEP],
        "step_count": 2,
        "violations": [{"law": 3, "step_id": "s1"}],
    },
    "signals.reported": {
        "trace_id": "t2",
        "subject": SUBJECT,
        "tool_success": 1,
        "cost_efficiency": 0.25,
        "constitution_clean": 1.0,
        "human_approval_delta": 0.5,
        "undo_flag": 0,
    },
    "step.recorded": {"trace_id": "t1", "scope": "", "step": STEP},
    "approval.decided": {
        "trace_id": "t1",
        "step_ids": ["s1"],
        "subjects": [SUBJECT],
        "decision": "granted",
        "decided_by": ANNA,
        "grants_visible": True,
    },
    "undo.executed": {"trace_id": "t1", "step_ids": ["s1"], "subjects": [SUBJECT], "by": ANNA},
    "trace.excluded": {"trace_id": "t1", "by": "oscar", "why": "a rehearsal"},
    "trace.included": {"trace_id": "t1", "by": "oscar", "why": "it was real"},
    "selfplay.completed": {
        "scope": "",
        "context": "budget questions",
        "winner": "alpha",
        "loser": "beta",
        "critic": "gamma",
        "verdict": "alpha names its sources",
        "critic_cost_usd": 0.002,
        "users_accepted_winner": True,
    },
    "neuron.synthesized": {
        "scope": "",
        "neuron": "budget_tracker",
        "reward": 0.72,
        "breakdown": {"det_pass_rate": 0.9, "notes": ["no red tests"]},
        "approved_by": "anna",
    },
    "subject.rolled_back": {
        "subject": SUBJECT,
        "to": "2026-04-01T00:00:00Z",
        "by": "oscar",
        "why": "a broken sensor",
    },
    "rollback.lifted": {
        "subject": ["", "runtime", "completed"],
        "rollback_id": "e-subject.rolled_back",
        "by": "oscar",
        "why": "the sensor was right",
    },
    "cost.median": {
        "scope": "",
        "effect": "fs_write:~/notes/*",
        "median_usd": 0.01,
        "samples": 20,
        "effective_at": "2026-04-23T00:00:00Z",
    },
    "threshold.set": {
        "effect": "fs_write:*",
        "risk_band": "reversible",
        "min_score": 0.65,
        "min_samples": 20,
        "min_grants": 0,
        "min_approval_rate": 0.9,
        "by": "oscar",
        "why": "the default",
        "cap_autonomy": "approve_required",
        "expected_version": 3,
    },
    "threshold.removed": {
        "effect": "fs_write:*",
        "risk_band": "reversible",
        "by": "oscar",
        "why": "too low",
        "expected_version": 4,
    },
    "effect.declared": {
        "effect": "fs_write:*",
        "reversibility": "reversible_with_cost",
        "by": "oscar",
        "why": "there are backups",
        "expected_version": 0,
    },
    "effect.removed": {
        "effect": "fs_write:*",
        "by": "oscar",
        "why": "no backups",
        "expected_version": 1,
    },
    "trust.revoked": {
        "scope": "*",
        "tool": "shell",
        "effect": "*",
        "by": "oscar",
        "why": "an incident",
    },
    "trust.reinstated": {
        "revocation_id": "e-trust.revoked",
        "by": "oscar",
        "why": "it is understood",
    },
    "policy.mode": {
        "mode": "enforce",
        "by": "oscar",
        "why": "a month",
        "spot_check_one_in": 20,
        "expected_version": 1,
    },
}

EXAMPLES: dict[str, Document] = {
    f"trustfold.{name}.v1": {
        "specversion": "1.0",
        "id": f"e-{name}",
        "source": "laptop",
        "type": f"trustfold.{name}.v1",
        "time": MOMENT,
        "subject": "anything",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "data": data,
    }
    for name, data in _DATA.items()
}

LEAVE_OUT = object()
"""As a value for `changed`: the field is not there at all."""

Path = tuple[str | int, ...]


def example(name: str) -> Document:
    """A copy of the example of a type, named without `trustfold.` and version."""
    return deepcopy(EXAMPLES[f"trustfold.{name}.v1"])


def changed(name: str, *path: str | int, to: object) -> Document:
    """A copy of an example with another value at a path, or without what stood there."""
    document = example(name)
    place: Any = document
    for part in path[:-1]:
        place = place[part]
    if to is LEAVE_OUT:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return document


def written(document: object) -> bytes:
    """Compact JSON in UTF-8."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def spelled(name: str, path: Path, text: str) -> bytes:
    """An example with a piece of JSON text, however it is spelled, in the place of a value."""
    return written(changed(name, *path, to="<here>")).replace(b'"<here>"', text.encode())
