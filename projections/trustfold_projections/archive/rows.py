"""Facts, entries, decisions and dead letters as the columns of a segment, and back.

A source hands over rows of one place in the order of their offsets; what a table of them says of
era and mantissa is computed here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import msgspec
import pyarrow as pa
from msgspec import Struct

from trustfold_projections.archive.schema import KIND_NAMES, KINDS, SCHEMAS, Place, Topic
from trustfold_projections.laws.time_weights import era_and_m
from trustfold_schemas.decisions import Decision
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.events import TraceEvent, type_of
from trustfold_schemas.facts import Fact, Role, Stamp
from trustfold_schemas.ledger import Entry, Five
from trustfold_schemas.subject import Subject, subject_from_key

TYPE_PREFIX = "trustfold."


class EntryRow(Struct, frozen=True, gc=False):
    """An entry of the ledger, where it stands, and which fact made it.

    `idx` is its number within its record, `fact_number` its number among that fact's entries.
    """

    offset: int
    entry: Entry
    fact_partition: int
    fact_offset: int
    fact_number: int
    idx: int = 0


class DecisionRow(Struct, frozen=True, gc=False):
    """A recorded verdict; `grounds` is the JSON of all it rested on."""

    offset: int
    recorded: int
    decision_id: str
    subject: Subject
    trace_id: str
    step_id: str
    args_fingerprint: str | None
    said: str | None
    verdict: str
    would_be: str
    reason: str
    stale: str | None
    owed_to: str | None
    grounds: str


DECISION_NAMES = (
    "trace_id",
    "step_id",
    "args_fingerprint",
    "said",
    "verdict",
    "would_be",
    "reason",
    "stale",
    "owed_to",
    "grounds",
)
"""The fields of a decision that are columns of the same name, in the order of both."""


def decision_row(decision: Decision) -> DecisionRow:
    """A decision as it is archived; its position is its offset."""
    action, verdict = decision.action, decision.verdict
    return DecisionRow(
        offset=decision.position,
        recorded=decision.recorded,
        decision_id=decision.decision_id,
        subject=action.subject,
        trace_id=action.trace_id,
        step_id=action.step_id,
        args_fingerprint=action.args_fingerprint,
        said=action.reversibility,
        verdict=verdict.verdict,
        would_be=verdict.would_be,
        reason=verdict.reason.value,
        stale=decision.stale,
        owed_to=decision.owed_to,
        grounds=msgspec.json.encode(verdict).decode(),
    )


class LetterRow(Struct, frozen=True, gc=False):
    """A dead letter as it was first refused."""

    offset: int
    recorded: int
    reason: str
    detail: str
    origin: str
    stamp: Stamp
    body: bytes


Row = Fact | EntryRow | DecisionRow | LetterRow
"""A fact's offset is its `position`."""


def offset_of(row: Row) -> int:
    """Where a row stands in its partition."""
    return row.position if isinstance(row, Fact) else row.offset


def size_of(row: Row) -> int:
    """About how many bytes a row holds, to bound a segment in memory."""
    if isinstance(row, Fact):
        return 200 + len(row.document)
    if isinstance(row, LetterRow):
        return 200 + len(row.body) + len(row.detail)
    if isinstance(row, DecisionRow):
        return 200 + len(row.grounds)
    return 300 + 8 * len(row.entry.chain)


def table_of(place: Place, rows: Sequence[Row]) -> pa.Table:
    """Rows of one place as a table of its topic's schema, in their order; at least one row."""
    columns: dict[str, Sequence[Any]] = _COLUMNS[place.topic](rows)
    recorded: Sequence[int] = columns["recorded_us"]
    count = len(rows)
    columns["partition"] = [place.partition] * count
    columns["seg_max"] = [max(recorded)] * count
    return pa.Table.from_pydict(columns, schema=SCHEMAS[place.topic])


def _fact_columns(rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    facts = cast("Sequence[Fact]", rows)
    return {
        "offset": [fact.position for fact in facts],
        "recorded_us": [fact.recorded for fact in facts],
        "occurred_us": [int(fact.event.time) for fact in facts],
        "type": [type_of(fact.event).removeprefix(TYPE_PREFIX) for fact in facts],
        "source": [fact.event.source for fact in facts],
        "event_id": [fact.event.id for fact in facts],
        "trace_id": [
            fact.event.data.trace_id if isinstance(fact.event, TraceEvent) else None
            for fact in facts
        ],
        **_stamp_columns(fact.stamp for fact in facts),
        "body": [fact.document.decode() for fact in facts],
    }


def _stamp_columns(stamps: Iterable[Stamp]) -> dict[str, Sequence[Any]]:
    held = list(stamps)
    return {
        "role": [stamp.role for stamp in held],
        "identity": [stamp.identity for stamp in held],
        "scopes": [
            None if stamp.scopes is None else msgspec.json.encode(stamp.scopes).decode()
            for stamp in held
        ],
    }


def _entry_columns(rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    located = cast("Sequence[EntryRow]", rows)
    entries = [row.entry for row in located]
    weights = [era_and_m(entry.occurred) for entry in entries]
    keys: dict[Subject, str] = {}
    for entry in entries:
        if entry.subject not in keys:
            keys[entry.subject] = entry.subject.key.decode()
    columns: dict[str, Sequence[Any]] = {
        "offset": [row.offset for row in located],
        "idx": [row.idx for row in located],
        "recorded_us": [entry.recorded for entry in entries],
        "occurred_us": [entry.occurred for entry in entries],
        "era": [era for era, _ in weights],
        "m": [m for _, m in weights],
        "subject": [keys[entry.subject] for entry in entries],
        "kind": [KINDS[entry.kind] for entry in entries],
        "rev": [entry.revision for entry in entries],
        "n": [entry.n_samples for entry in entries],
        "clean": [entry.clean for entry in entries],
        "sp_a": [None if entry.self_play is None else entry.self_play[0] for entry in entries],
        "sp_w": [None if entry.self_play is None else entry.self_play[1] for entry in entries],
        "bad_at": [entry.bad_at for entry in entries],
        "grant_at": [entry.grant_at for entry in entries],
        "median_usd": [entry.median_usd for entry in entries],
        "to_us": [entry.to for entry in entries],
        "rollback_id": [
            entry.event_id if entry.kind == "rollback" else entry.lifts for entry in entries
        ],
        "trace_id": [entry.trace_id for entry in entries],
        "event_id": [entry.event_id for entry in entries],
        "source": [entry.source for entry in entries],
        "formula": [entry.formula for entry in entries],
        "fact_partition": [row.fact_partition for row in located],
        "fact_offset": [row.fact_offset for row in located],
        "fact_number": [row.fact_number for row in located],
        "chain": [entry.chain[:-1] for entry in entries],
    }
    for i in range(5):
        columns[f"a{i}"] = [entry.amounts[i] for entry in entries]
        columns[f"w{i}"] = [entry.weights[i] for entry in entries]
    return columns


def _decision_columns(rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    decisions = cast("Sequence[DecisionRow]", rows)
    return {
        "offset": [row.offset for row in decisions],
        "recorded_us": [row.recorded for row in decisions],
        "decision_id": [row.decision_id for row in decisions],
        "subject": [row.subject.key.decode() for row in decisions],
        **{name: [getattr(row, name) for row in decisions] for name in DECISION_NAMES},
    }


def _letter_columns(rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    letters = cast("Sequence[LetterRow]", rows)
    return {
        "offset": [row.offset for row in letters],
        "recorded_us": [row.recorded for row in letters],
        "reason": [row.reason for row in letters],
        "detail": [row.detail for row in letters],
        "origin": [row.origin for row in letters],
        **_stamp_columns(row.stamp for row in letters),
        "body": [row.body for row in letters],
    }


_COLUMNS: dict[Topic, Callable[[Sequence[Row]], dict[str, Sequence[Any]]]] = {
    "facts": _fact_columns,
    "policy": _fact_columns,
    "cost-median": _fact_columns,
    "decisions": _decision_columns,
    "dead-letters": _letter_columns,
    "ledger": _entry_columns,
}


# ---- back ------------------------------------------------------------------------------------

_SCOPES = msgspec.json.Decoder(tuple[str, ...])


def fact_of(row: dict[str, Any]) -> Fact:
    """A fact from a row of its segment. Raises EventRefused where it is no event."""
    document = cast("str", row["body"]).encode()
    event = decode_event(document)
    return Fact(row["offset"], row["recorded_us"], _stamp_of(row), event, document)


def decision_of(row: dict[str, Any]) -> DecisionRow:
    """A decision from a row of its segment. Raises SubjectError where it is none."""
    return DecisionRow(
        row["offset"],
        row["recorded_us"],
        row["decision_id"],
        subject_from_key(row["subject"]),
        *(row[name] for name in DECISION_NAMES),
    )


def letter_of(row: dict[str, Any]) -> LetterRow:
    """A dead letter from a row of its segment."""
    return LetterRow(
        row["offset"],
        row["recorded_us"],
        row["reason"],
        row["detail"],
        row["origin"],
        _stamp_of(row),
        row["body"],
    )


def _stamp_of(row: dict[str, Any]) -> Stamp:
    scopes = row["scopes"]
    return Stamp(
        cast("Role", row["role"]),
        row["identity"],
        None if scopes is None else _SCOPES.decode(scopes),
    )


def entry_of(row: dict[str, Any]) -> EntryRow:
    """An entry from a row of its segment. Raises KeyError or SubjectError where it is none."""
    kind = KIND_NAMES[row["kind"]]
    sp_a, recorded = row["sp_a"], row["recorded_us"]
    entry = Entry(
        kind=kind,
        subject=subject_from_key(row["subject"]),
        trace_id=row["trace_id"],
        event_id=row["event_id"],
        source=row["source"],
        occurred=row["occurred_us"],
        recorded=recorded,
        chain=(*row["chain"], recorded),
        revision=row["rev"],
        amounts=cast("Five", tuple(row[f"a{i}"] for i in range(5))),
        weights=cast("Five", tuple(row[f"w{i}"] for i in range(5))),
        n_samples=row["n"],
        self_play=None if sp_a is None else (sp_a, row["sp_w"]),
        bad_at=row["bad_at"],
        grant_at=row["grant_at"],
        clean=row["clean"],
        median_usd=row["median_usd"],
        to=row["to_us"],
        lifts=row["rollback_id"] if kind == "rollback_lifted" else None,
        formula=row["formula"],
    )
    return EntryRow(
        row["offset"],
        entry,
        row["fact_partition"],
        row["fact_offset"],
        row["fact_number"],
        row["idx"],
    )
