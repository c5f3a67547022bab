"""Dead letters: what was refused or could not be used, with its reason and its original bytes."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Reason(StrEnum):
    """Why something is a dead letter. A closed enumeration; each says who can mend it.

    The first group is judged from the document alone, the second against what is already known.
    """

    TOO_LARGE = "too_large"
    """The document is over 1 MiB."""
    MALFORMED = "malformed"
    """Not one JSON document in UTF-8: bad syntax, duplicate keys, lone surrogates, NaN."""
    INVALID = "invalid"
    """JSON, but not an event: a field is missing, ill-typed or outside its limits."""
    UNKNOWN_TYPE = "unknown_type"
    """The `type` is none that this version knows."""
    NOT_PERMITTED = "not_permitted"
    """The publisher's role may not say this."""
    NOT_HUMAN = "not_human"
    """It claims to be a human's word, but its publisher is not in the role `human`."""
    SCOPE_MISMATCH = "scope_mismatch"
    """It speaks of a scope that its publisher may not speak of."""

    CONFLICT = "conflict"
    """The same (source, id) was accepted before with other content."""
    FUTURE = "future"
    """Its time is more than 5 minutes after it was recorded, or a rollback's `to` is after it."""
    TOO_OLD = "too_old"
    """Its time is older than the memory of traces."""
    SCOPE_CONFLICT = "scope_conflict"
    """Its trace belongs to another scope already."""
    ALREADY_CLOSED = "already_closed"
    """Its trace was closed by another event."""
    ALREADY_SEEDED = "already_seeded"
    """Its neuron has its initial evidence already."""
    ALREADY_SET = "already_set"
    """A median for this (scope, effect, effective_at) holds already."""
    STALE_VERSION = "stale_version"
    """It replaces a version of a threshold or declaration that is not the one in force."""
    STEP_CONFLICT = "step_conflict"
    """Its step id is known with other content."""
    UNLISTED_STEP = "unlisted_step"
    """The close of its trace does not list this step."""
    LATE_STEP = "late_step"
    """Its trace was folded before this step came."""
    UNKNOWN_STEP = "unknown_step"
    """It names a step that its trace does not have."""
    TOO_MANY_STEPS = "too_many_steps"
    """Its trace has 10,000 steps already."""
    TOO_MUCH_FEEDBACK = "too_much_feedback"
    """Its trace has 1,000 feedback events already."""
    UNKNOWN_ROLLBACK = "unknown_rollback"
    """It lifts a rollback that its subject does not have, or that was lifted before."""
    TRACE_NEVER_CLOSED = "trace_never_closed"
    """Feedback whose trace did not close before its memory ended."""


class DeadLetter(msgspec.Struct, frozen=True, gc=False):
    """One thing refused.

    `recorded` is the moment (microseconds since 1970) of the refusal, `origin` where the bytes
    came from (a file and line, or topic/partition/offset), `detail` what was got and wanted.
    """

    reason: Reason
    detail: str
    recorded: int
    origin: str
    body: bytes
