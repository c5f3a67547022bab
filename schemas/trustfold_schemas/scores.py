"""The state of a subject, its content digest, the record of the table, and what readers get.

A `State` is integers only; a `ScoreRecord` is a state as the materialized table keeps it, with a
digest and a checksum that refuse damage; a `TrustScore` is what it says at a stated moment.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from trustfold_schemas.amounts import PPM
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.ledger import FORMULA
from trustfold_schemas.subject import Subject


class Rollback(Struct, frozen=True, gc=False):
    """Entries with a moment of their chain in (`to`, `at`] do not count while it is in force."""

    rollback_id: str
    to: int
    at: int


class State(Struct, gc=False, kw_only=True):
    """What the fold of a subject's entries has come to.

    `num` (ppm x 2**30 and more) and `den` are the exact sums of SPEC 4. What stands beside the
    content (rollbacks in force, version = entries folded) follows the order of arrival.
    """

    subject: Subject
    num: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0, 0, 0])
    den: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0, 0, 0])
    n_samples: int = 0
    self_play_num: int = 0
    self_play_den: int = 0
    last_updated: int | None = None
    last_bad_at: int | None = None
    last_grant_at: int | None = None
    rollbacks: tuple[Rollback, ...] = ()
    version: int = 0


def content_json(state: State) -> bytes:
    """The compact JSON that is digested: every integer a decimal string, absent = null (SPEC 4)."""
    return msgspec.json.encode(
        (
            FORMULA,
            state.subject,
            [str(n) for n in state.num],
            [str(n) for n in state.den],
            str(state.n_samples),
            str(state.self_play_num),
            str(state.self_play_den),
            _text(state.last_updated),
            _text(state.last_bad_at),
            _text(state.last_grant_at),
        )
    )


def content_digest(state: State) -> str:
    """The SHA-256 of `content_json`, 64 hexadecimal digits."""
    return hashlib.sha256(content_json(state)).hexdigest()


def check_ranges(state: State) -> None:
    """Raise TrustCorruptionError unless 0 <= num <= den * 10**6 and n_samples >= 0."""
    sums = [*zip(state.num, state.den, strict=False), (state.self_play_num, state.self_play_den)]
    if (len(state.num), len(state.den)) != (5, 5) or any(
        not 0 <= num <= den * PPM for num, den in sums
    ):
        raise TrustCorruptionError(
            f"the sums of {state.subject} are outside 0 <= num <= den * 10**6: {sums}"
        )
    if state.n_samples < 0:
        raise TrustCorruptionError(f"{state.subject} has n_samples {state.n_samples}, below 0")


class ScoreRecord(Struct, frozen=True, gc=False):
    """One row of the materialized table as it is kept.

    `content` is the digested JSON, `beside` the JSON of rollbacks, version and the ledger
    position included; `checksum` is the SHA-256 of both, so that no byte changes unseen.
    """

    content: bytes
    beside: bytes
    digest: bytes
    checksum: bytes


class _Beside(Struct, array_like=True, gc=False):
    rollbacks: tuple[Rollback, ...]
    version: int
    position: int


_BESIDE = msgspec.json.Decoder(_Beside)
_CONTENT = msgspec.json.Decoder(
    tuple[str, Subject, list[str], list[str], str, str, str, str | None, str | None, str | None]
)


def record_of(state: State, position: int) -> ScoreRecord:
    """Seal a state for the table; refuses one outside its ranges (TrustCorruptionError)."""
    check_ranges(state)
    content = content_json(state)
    beside = msgspec.json.encode(_Beside(state.rollbacks, state.version, position))
    digest = hashlib.sha256(content).digest()
    return ScoreRecord(content, beside, digest, _checksum(content, beside))


def state_of(record: ScoreRecord) -> tuple[State, int]:
    """Open a record: the state and the ledger position included.

    Raises TrustCorruptionError where checksum, digest, form or ranges are wrong.
    """
    if hashlib.sha256(record.content).digest() != record.digest:
        raise TrustCorruptionError(f"the digest of {_hint(record)} does not match its content")
    if _checksum(record.content, record.beside) != record.checksum:
        raise TrustCorruptionError(f"the checksum of {_hint(record)} does not match")
    try:
        formula, subject, num, den, n_samples, sp_num, sp_den, updated, bad, grant = (
            _CONTENT.decode(record.content)
        )
        beside = _BESIDE.decode(record.beside)
        state = State(
            subject=subject,
            num=[int(n) for n in num],
            den=[int(n) for n in den],
            n_samples=int(n_samples),
            self_play_num=int(sp_num),
            self_play_den=int(sp_den),
            last_updated=_moment(updated),
            last_bad_at=_moment(bad),
            last_grant_at=_moment(grant),
            rollbacks=beside.rollbacks,
            version=beside.version,
        )
    except (msgspec.MsgspecError, ValueError) as error:
        raise TrustCorruptionError(f"{_hint(record)} cannot be read: {error}") from None
    if content_json(state) != record.content:
        raise TrustCorruptionError(f"{_hint(record)} is not written in its canonical form")
    if formula != FORMULA:
        raise TrustCorruptionError(f"{_hint(record)} is of the formula {formula}, not {FORMULA}")
    check_ranges(state)
    return state, beside.position


class Corrupt(Struct, frozen=True):
    """A score that may not be used, and why: readers answer "no trust"."""

    subject: Subject
    error: str


class TrustScore(Struct, frozen=True, kw_only=True):
    """What a subject's state says at a moment (SPEC 4); floats are made here and never summed.

    The five components, raw_score, freshness and score are in [0, 1]. `n_samples` counts traces,
    `effective_samples` and `effective_grants` the same halved per 30 days of age. Moments are
    aware datetimes in UTC, exact to the microsecond.
    """

    subject: Subject
    tool_success: float
    human_approval_rate: float
    cost_efficiency: float
    constitution_clean: float
    undo_rate: float
    raw_score: float
    freshness: float
    score: float
    n_samples: int
    effective_samples: float
    effective_grants: float
    last_updated: datetime | None
    last_bad_at: datetime | None
    last_grant_at: datetime | None

    @classmethod
    def empty(cls, subject: Subject) -> TrustScore:
        """The score of a subject without history: no trust, score 0."""
        return cls(
            subject=subject,
            tool_success=0.0,
            human_approval_rate=0.0,
            cost_efficiency=0.0,
            constitution_clean=0.0,
            undo_rate=0.0,
            raw_score=0.0,
            freshness=0.0,
            score=0.0,
            n_samples=0,
            effective_samples=0.0,
            effective_grants=0.0,
            last_updated=None,
            last_bad_at=None,
            last_grant_at=None,
        )


def _checksum(content: bytes, beside: bytes) -> bytes:
    return hashlib.sha256(b"%d:%b%b" % (len(content), content, beside)).digest()


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _moment(text: str | None) -> int | None:
    return None if text is None else int(text)


def _hint(record: ScoreRecord) -> str:
    """Name the subject of a damaged record as well as it can still be read."""
    parts: Any
    try:
        parts = msgspec.json.decode(record.content)
        return f"the score of {parts[1]}"
    except (msgspec.MsgspecError, IndexError, TypeError, KeyError):
        return "a score whose subject is unreadable"
