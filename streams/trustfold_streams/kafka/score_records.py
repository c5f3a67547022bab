"""The records of the compacted topic `scores`: JSON for any language, sealed by a checksum."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec
from msgspec import Struct

from trustfold_projections.laws.scoring import raw_score_of, values_of
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.instants import format_instant, parse_instant
from trustfold_schemas.ledger import FORMULA
from trustfold_schemas.scores import Rollback, State, check_ranges, content_digest
from trustfold_schemas.subject import Subject

_SEAL = b',"checksum":"'


class Position(NamedTuple):
    """Where in a partition of the ledger the last entry included stands: offset and number."""

    offset: int
    number: int


class _RollbackJson(Struct, frozen=True):
    id: str
    to: str
    at: str


class ScoreJson(Struct, frozen=True, kw_only=True):
    """A record of `scores`, but for its last field, `checksum`: the SHA-256 of what stands before.

    Integers that may pass 2**53 are decimal strings; `position` is the place in the ledger of the
    last entry in it. A key that begins with a NUL byte is a worker's own and holds something else.
    """

    subject: Subject
    tool_success: float
    human_approval_rate: float
    cost_efficiency: float
    constitution_clean: float
    undo_rate: float
    raw_score: float
    n_samples: str
    last_updated: str | None
    last_bad_at: str | None
    last_grant_at: str | None
    rollbacks: tuple[_RollbackJson, ...]
    version: int
    position: Position
    formula: str
    num: list[str]
    den: list[str]
    self_play_num: str
    self_play_den: str
    digest: str


_IN = msgspec.json.Decoder(ScoreJson)


def pack_score(state: State, position: Position) -> bytes:
    """Seal a state as a record of `scores`; refuses one outside its ranges."""
    check_ranges(state)
    values = values_of(state)
    tool, approval, cost, clean, undo = values
    body = msgspec.json.encode(
        ScoreJson(
            subject=state.subject,
            tool_success=tool,
            human_approval_rate=approval,
            cost_efficiency=cost,
            constitution_clean=clean,
            undo_rate=undo,
            raw_score=raw_score_of(values),
            n_samples=str(state.n_samples),
            last_updated=_text(state.last_updated),
            last_bad_at=_text(state.last_bad_at),
            last_grant_at=_text(state.last_grant_at),
            rollbacks=tuple(
                _RollbackJson(one.rollback_id, format_instant(one.to), format_instant(one.at))
                for one in state.rollbacks
            ),
            version=state.version,
            position=position,
            formula=FORMULA,
            num=[str(n) for n in state.num],
            den=[str(n) for n in state.den],
            self_play_num=str(state.self_play_num),
            self_play_den=str(state.self_play_den),
            digest=content_digest(state),
        )
    )
    seal = hashlib.sha256(body).hexdigest().encode()
    return body[:-1] + _SEAL + seal + b'"}'


def unpack_score(record: bytes) -> tuple[State, Position]:
    """Open a record of `scores`. Raises TrustCorruptionError for whatever is wrong with it."""
    at = record.rfind(_SEAL)
    body = record[:at] + b"}"
    seal = record[at + len(_SEAL) : -2]
    if at < 0 or hashlib.sha256(body).hexdigest().encode() != seal:
        raise TrustCorruptionError(f"the checksum of {_hint(record)} does not match")
    try:
        made = _IN.decode(body)
        state = State(
            subject=made.subject,
            num=[int(n) for n in made.num],
            den=[int(n) for n in made.den],
            n_samples=int(made.n_samples),
            self_play_num=int(made.self_play_num),
            self_play_den=int(made.self_play_den),
            last_updated=_moment(made.last_updated),
            last_bad_at=_moment(made.last_bad_at),
            last_grant_at=_moment(made.last_grant_at),
            rollbacks=tuple(
                Rollback(one.id, parse_instant(one.to), parse_instant(one.at))
                for one in made.rollbacks
            ),
            version=made.version,
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise TrustCorruptionError(f"{_hint(record)} cannot be read: {error}") from None
    if made.formula != FORMULA:
        raise TrustCorruptionError(f"{_hint(record)} is of the formula {made.formula}")
    check_ranges(state)
    if content_digest(state) != made.digest:
        raise TrustCorruptionError(f"the digest of {_hint(record)} does not match its sums")
    return state, made.position


def _text(moment: int | None) -> str | None:
    return None if moment is None else format_instant(moment)


def _moment(text: str | None) -> int | None:
    return None if text is None else int(parse_instant(text))


def _hint(record: bytes) -> str:
    return f"the score {record[:120].decode(errors='replace')}..."
