"""States as a few bytes each, for readers that hold a whole table in memory.

The digest, the version, the moments, and the sums without the zero bits that all of them end in.
What is packed was checked before; rollbacks stay in the record, no reader of these needs them.
"""

from __future__ import annotations

import struct

from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject

_HEAD = struct.Struct("<32sQQqqqHB")
"""Digest, version, n_samples, last_updated, last_bad_at, last_grant_at, zero bits, 64-bit words."""

_ONE_WORD = struct.Struct("<12Q")
"""What fits sums of a young subject: those of one era, up to some thousand traces."""

_NEVER = -1
_SUMS = 12


def pack_state(state: State, digest: bytes) -> bytes:
    """A sound state and its content digest of 32 bytes."""
    sums = (*state.num, *state.den, state.self_play_num, state.self_play_den)
    together = 0
    for number in sums:
        together |= number
    # Every weight of an era is a multiple of 2**era, so the low bits of young subjects are zero.
    zeros = (together & -together).bit_length() - 1 if together else 0
    words = max(1, -(-((together >> zeros).bit_length()) // 64))
    head = _HEAD.pack(
        digest,
        state.version,
        state.n_samples,
        _NEVER if state.last_updated is None else state.last_updated,
        _NEVER if state.last_bad_at is None else state.last_bad_at,
        _NEVER if state.last_grant_at is None else state.last_grant_at,
        zeros,
        words,
    )
    return head + b"".join((number >> zeros).to_bytes(8 * words, "little") for number in sums)


def unpack_state(packed: bytes, subject: Subject) -> tuple[State, str]:
    """The state of a subject, without its rollbacks, and its content digest in hexadecimal."""
    digest, version, n_samples, updated, bad, grant, zeros, words = _HEAD.unpack_from(packed)
    short: tuple[int, ...]
    if words == 1:
        short = _ONE_WORD.unpack_from(packed, _HEAD.size)
    else:
        size, at = 8 * words, _HEAD.size
        short = tuple(
            int.from_bytes(packed[at + i * size : at + (i + 1) * size], "little")
            for i in range(_SUMS)
        )
    sums = [number << zeros for number in short]
    state = State(
        subject=subject,
        num=sums[:5],
        den=sums[5:10],
        n_samples=n_samples,
        self_play_num=sums[10],
        self_play_den=sums[11],
        last_updated=None if updated == _NEVER else updated,
        last_bad_at=None if bad == _NEVER else bad,
        last_grant_at=None if grant == _NEVER else grant,
        version=version,
    )
    return state, digest.hex()
