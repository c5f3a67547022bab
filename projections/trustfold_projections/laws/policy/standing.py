"""Standings: what a state says of its subject whatever the moment; all that a decision asks of it.

Made once for each state, so that a table in memory answers without dividing sums again. In its few
bytes the sums are there too, without the zero bits that all of them end in: a score too near to a
threshold for floats is compared by them. What is packed was checked before.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from msgspec import Struct

from trustfold_projections.laws.scoring import raw_score_of, values_of
from trustfold_projections.laws.time_weights import era_and_m
from trustfold_schemas.ledger import HUMAN_APPROVAL_RATE, UNDO_RATE
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject

Sums = tuple[Sequence[int], Sequence[int]]
"""The amounts and the weights of the five components."""

_HEAD = struct.Struct("<32sQQqqqHIHB6d")
"""Digest, version, n_samples, last_updated, last_bad_at, last_grant_at, era and m of the first of
these, zero bits, 64-bit words of a sum, five values, raw_score."""
_YOUNG = struct.Struct(_HEAD.format + "3Q")
"""The same and the first three of ten sums, where each fits a word: those of a few eras."""

_NEVER = -1


class Standing(Struct, frozen=True, gc=False):
    """What a verdict rests on of a state, self-play left out.

    `weight` is the weight of last_updated, 0 without. `samples`, `granted` and `decided` are the
    sums of effective samples, effective grants and human coverage. `digest` is the state's where
    it was asked for. `sums` are all sums, or the bytes that hold them.
    """

    digest: str | None
    version: int
    n_samples: int
    last_updated: int | None
    last_bad_at: int | None
    last_grant_at: int | None
    weight: int
    values: tuple[float, float, float, float, float]
    raw_score: float
    samples: int
    granted: int
    decided: int
    sums: Sums | bytes

    def freshness(self, weight: int) -> float:
        """How fresh it is at the moment of a weight: halved per 30 days, at most 1."""
        return 1.0 if self.weight >= weight else self.weight / weight

    @property
    def all_sums(self) -> Sums:
        """The amounts and the weights of the five components."""
        if not isinstance(self.sums, bytes):
            return self.sums
        *_, zeros, words, _, _, _, _, _, _ = _HEAD.unpack_from(self.sums)
        d4, n1, d1, n0, n2, n3, n4, d0, d2, d3 = _sums(self.sums, zeros, words, 10)
        return (n0, n1, n2, n3, n4), (d0, d1, d2, d3, d4)


def standing_of(state: State, digest: str | None = None) -> Standing:
    """What a state says of its subject; its content digest only where it is given."""
    values = values_of(state, self_play=False)
    era, m = (0, 0) if state.last_updated is None else era_and_m(state.last_updated)
    return Standing(
        digest,
        state.version,
        state.n_samples,
        state.last_updated,
        state.last_bad_at,
        state.last_grant_at,
        m << era,
        values,
        raw_score_of(values),
        state.den[UNDO_RATE],
        state.num[HUMAN_APPROVAL_RATE],
        state.den[HUMAN_APPROVAL_RATE],
        (state.num, state.den),
    )


NOBODY = standing_of(State(subject=Subject("", "", "")))
"""The standing of a subject that nothing ever touched."""


def pack_standing(state: State, digest: bytes) -> bytes:
    """The standing of a sound state; with its content digest, 32 bytes."""
    made = standing_of(state)
    (n0, n1, n2, n3, n4), (d0, d1, d2, d3, d4) = state.num, state.den
    # First those that every question asks for.
    sums = (d4, n1, d1, n0, n2, n3, n4, d0, d2, d3)
    together = 0
    for number in sums:
        together |= number
    # Every weight of an era is a multiple of 2**era, so the low bits of young subjects are zero.
    zeros = (together & -together).bit_length() - 1 if together else 0
    words = max(1, -(-((together >> zeros).bit_length()) // 64))
    era, m = (0, 0) if state.last_updated is None else era_and_m(state.last_updated)
    head = _HEAD.pack(
        digest,
        state.version,
        state.n_samples,
        _NEVER if state.last_updated is None else state.last_updated,
        _NEVER if state.last_bad_at is None else state.last_bad_at,
        _NEVER if state.last_grant_at is None else state.last_grant_at,
        era,
        m,
        zeros,
        words,
        *made.values,
        made.raw_score,
    )
    return head + b"".join((number >> zeros).to_bytes(8 * words, "little") for number in sums)


def unpack_standing(packed: bytes) -> Standing:
    """The standing that was packed."""
    # One call, and every value its name: a table in memory does this at every question.
    (
        digest,
        version,
        n_samples,
        updated,
        bad,
        grant,
        era,
        m,
        zeros,
        words,
        v0,
        v1,
        v2,
        v3,
        v4,
        raw_score,
        samples,
        granted,
        decided,
    ) = _YOUNG.unpack_from(packed)
    if words > 1:
        samples, granted, decided = _sums(packed, 0, words, 3)
    return Standing(
        digest.hex(),
        version,
        n_samples,
        None if updated == _NEVER else updated,
        None if bad == _NEVER else bad,
        None if grant == _NEVER else grant,
        m << era,
        (v0, v1, v2, v3, v4),
        raw_score,
        samples << zeros,
        granted << zeros,
        decided << zeros,
        packed,
    )


def _sums(packed: bytes, zeros: int, words: int, number: int) -> list[int]:
    """The first sums of a standing."""
    size = 8 * words
    places = range(_HEAD.size, _HEAD.size + number * size, size)
    return [int.from_bytes(packed[at : at + size], "little") << zeros for at in places]
