"""States as a few bytes each, for readers that hold a whole table in memory.

The digest, the version, the moments, and the sums without the zero bits that all of them end in.
What is packed was checked before; rollbacks stay in the record, no reader of these needs them.
"""

from __future__ import annotations

import struct

from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject

_HEAD = struct.Struct("<32sQQqqqB")
"""Digest, version, n_samples, last_updated, last_bad_at, last_grant_at, bytes of zeros cut off."""

_NEVER = -1


def pack_state(state: State, digest: bytes) -> bytes:
    """A sound state and its content digest of 32 bytes."""
    sums = (*state.num, *state.den, state.self_play_num, state.self_play_den)
    together = 0
    for number in sums:
        together |= number
    # Every weight of an era is a multiple of 2**era, so the low bits of young subjects are zero.
    zeros = ((together & -together).bit_length() - 1) // 8 if together else 0
    head = _HEAD.pack(
        digest,
        state.version,
        state.n_samples,
        _NEVER if state.last_updated is None else state.last_updated,
        _NEVER if state.last_bad_at is None else state.last_bad_at,
        _NEVER if state.last_grant_at is None else state.last_grant_at,
        zeros,
    )
    packed = [head]
    for number in sums:
        short = number >> (8 * zeros)
        size = (short.bit_length() + 7) // 8
        packed += (bytes((size,)), short.to_bytes(size, "little"))
    return b"".join(packed)


def unpack_state(packed: bytes, subject: Subject) -> tuple[State, str]:
    """The state of a subject, without its rollbacks, and its content digest in hexadecimal."""
    digest, version, n_samples, updated, bad, grant, zeros = _HEAD.unpack_from(packed)
    at, shift, sums = _HEAD.size, 8 * zeros, list[int]()
    for _ in range(12):
        size = packed[at]
        at += 1
        sums.append(int.from_bytes(packed[at : at + size], "little") << shift if size else 0)
        at += size
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
