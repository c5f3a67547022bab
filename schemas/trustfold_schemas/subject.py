"""Subjects: whom the ledger keeps a score for, `(scope, tool, effect)`, and their canonical key."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec

from trustfold_schemas.errors import SubjectError

NAME_MAX = 256
"""Characters of an id, a tool or a scope."""
EFFECT_MAX = 512
"""Characters of an effect class."""

RUNTIME: Final = "runtime"
"""The tool of the global subjects, one per outcome; no step may carry it."""
NEURON_PREFIX: Final = "neuron:"
INVOKE: Final = "invoke"

Scope = Annotated[str, msgspec.Meta(max_length=NAME_MAX)]
Tool = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX)]
Effect = Annotated[str, msgspec.Meta(min_length=1, max_length=EFFECT_MAX)]


class Subject(NamedTuple):
    """One `(scope, tool, effect)`; in JSON the array of the three."""

    scope: Scope
    tool: Tool
    effect: Effect

    @property
    def key(self) -> bytes:
        """The canonical key: the compact JSON array, UTF-8, non-ASCII unescaped."""
        return msgspec.json.encode(self)

    @property
    def is_global(self) -> bool:
        """Whether this counts whole traces by outcome rather than one tool's steps."""
        return self.tool == RUNTIME


_KEY = msgspec.json.Decoder(Subject)


def subject_from_key(key: bytes | str) -> Subject:
    """Read a canonical key back. Raises SubjectError for anything else."""
    try:
        subject = _KEY.decode(key)
        canonical = subject.key
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise SubjectError(f"Expected the key of a subject, got {key!r}: {error}") from None
    if canonical != (key.encode() if isinstance(key, str) else key):
        raise SubjectError(f"Expected the canonical key {canonical!r}, got {key!r}")
    return subject


def subject_of(*parts: str) -> Subject:
    """Build a subject from (scope, tool, effect) or, with scope "", from (tool, effect)."""
    if len(parts) == 2:
        parts = ("", *parts)
    if len(parts) != 3:
        raise SubjectError(f"Expected (scope, tool, effect) or (tool, effect), got {parts!r}")
    try:
        subject = msgspec.convert(parts, Subject)
        msgspec.json.encode(subject)  # what has no key, a lone surrogate, is no subject
        return subject
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise SubjectError(f"Expected a subject, got {parts!r}: {error}") from None


def neuron_subject(scope: str, name: str) -> Subject:
    """The subject of a neuron."""
    return Subject(scope, NEURON_PREFIX + name, INVOKE)


def global_subject(scope: str, outcome: str) -> Subject:
    """The subject that counts whole traces of one outcome."""
    return Subject(scope, RUNTIME, outcome)
