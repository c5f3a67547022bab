"""How facts and ledger entries stand in their tables, and back."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from trustfold_projections.laws.correlation import Key, key_of
from trustfold_schemas.amounts import PPM
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.events import Event, type_of
from trustfold_schemas.facts import Fact, Role, Stamp
from trustfold_schemas.instants import EARLIEST
from trustfold_schemas.ledger import Entry, Kind
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded.errors import StoreDamagedError

TYPE_PREFIX: Final = "trustfold."

KINDS: Final[dict[Kind, int]] = {
    "evidence": 1,
    "correction": 2,
    "brake": 3,
    "self_play": 4,
    "initial": 5,
    "rollback": 6,
    "rollback_lifted": 7,
}
KIND_NAMES: Final[dict[int, Kind]] = {number: kind for kind, number in KINDS.items()}

Row = tuple[Any, ...]

FACT_COLUMNS: Final = "recorded, role, identity, scopes, body"
INSERT_FACT: Final = "INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?)"

ENTRY_COLUMNS: Final = (
    "recorded, kind, revision, occurred, chain, a0, a1, a2, a3, a4, w0, w1, w2, w3, w4, n, "
    "sp_a, sp_w, bad_at, grant_at, clean, median_usd, to_moment, rollback_id"
)
INSERT_ENTRY: Final = (
    f"INSERT INTO ledger (position, subject_id, prev, {ENTRY_COLUMNS}) "
    f"VALUES ({', '.join('?' * 27)})"
)
INSERT_PLAIN: Final = (
    f"INSERT INTO ledger (position, subject_id, prev, {ENTRY_COLUMNS}) VALUES (?, ?, ?, "
    f"?, 1, 1, ?, NULL, ?, 0, ?, {PPM}, 0, ?, 0, ?, 1, 1, 1, "
    "NULL, NULL, NULL, NULL, ?, ?, NULL, NULL)"
)
"""For `plain_values`: a value that stands in the statement costs a quarter of a bound one."""

CALENDAR_END: Final = 253_402_300_800_000_000
"""The year 10000 in microseconds since 1970."""

GENESIS: Final = bytes(32)
"""The chain before the first fact."""


def key_hash(key: Key) -> int:
    """A signed 64-bit hash of a correlation key; equal hashes are told apart by the keys."""
    digest = hashlib.blake2b(f"{key.kind}\0{key.name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def chained(before: bytes, row: Row) -> bytes:
    """The chain after a fact: SHA-256 over the chain before and the fact's columns."""
    recorded, _, kind, role, identity, scopes, body = row[:7]
    head = msgspec.json.encode((recorded, kind, role, identity, scopes))
    return hashlib.sha256(b"%b%b\n%b" % (before, head, body.encode())).digest()


def fact_row(fact: Fact, hashed: int, before: bytes) -> Row:
    """A fact as a row of `facts`, chained to the one before."""
    stamp = fact.stamp
    row = (
        fact.recorded,
        hashed,
        type_of(fact.event).removeprefix(TYPE_PREFIX),
        stamp.role,
        stamp.identity,
        scopes_text(stamp),
        fact.document.decode(),
    )
    return (*row, chained(before, row))


_SCOPES = msgspec.json.Decoder(tuple[str, ...])


def scopes_text(stamp: Stamp) -> str | None:
    """A publisher's scopes as a column: a JSON array, or NULL for all."""
    return None if stamp.scopes is None else msgspec.json.encode(stamp.scopes).decode()


def check_moment(moment: int | None) -> None:
    """Raise StoreDamagedError for a moment that no calendar has: no clock ever gave it."""
    if moment is not None and not 0 <= moment < CALENDAR_END:
        raise StoreDamagedError(
            f"the store is damaged: {moment} is no moment; `trustfold verify` names every such row"
        )


def stamp_of(role: Role, identity: str | None, scopes: str | None) -> Stamp:
    """A stamp from its three columns."""
    return Stamp(role, identity, None if scopes is None else _SCOPES.decode(scopes))


def fact_of(row: Row) -> Fact:
    """A fact from its FACT_COLUMNS. Raises StoreDamagedError where it is none any more."""
    recorded, role, identity, scopes, body = row
    try:
        document = body.encode()
        event: Event = decode_event(document)
        stamp = stamp_of(role, identity, scopes)
    except (AttributeError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise StoreDamagedError(
            f"the fact recorded at {recorded} is damaged, it is no event any more: {error}; "
            "`trustfold verify` names every such row"
        ) from error
    return Fact(recorded, recorded, stamp, event, document)


def key_of_fact(fact: Fact) -> Key:
    """The key that a fact is correlated by."""
    return key_of(fact.event)


def entry_values(entry: Entry) -> Row:
    """An entry as ENTRY_COLUMNS."""
    chain = entry.chain
    self_play = entry.self_play
    return (
        entry.recorded,
        KINDS[entry.kind],
        entry.revision,
        entry.occurred,
        msgspec.json.encode(chain[:-1]).decode() if len(chain) > 1 else None,
        *entry.amounts,
        *entry.weights,
        entry.n_samples,
        None if self_play is None else self_play[0],
        None if self_play is None else self_play[1],
        entry.bad_at,
        entry.grant_at,
        int(entry.clean),
        entry.median_usd,
        entry.to,
        entry.event_id if entry.kind == "rollback" else entry.lifts,
    )


PLAIN_LENGTH: Final = INSERT_PLAIN.count("?")
_PLAIN = (0, PPM, 0, 0, 1, 1)


def plain_values(entry: Entry) -> Row | None:
    """What distinguishes the evidence of a close that nobody spoke of, for INSERT_PLAIN.

    None for an entry that says more.
    """
    a0, a1, a2, a3, a4 = entry.amounts
    w0, w1, w2, w3, w4 = entry.weights
    if (
        (a1, a3, a4, w1, w3, w4) != _PLAIN
        or entry.kind != "evidence"
        or entry.revision != 1
        or entry.n_samples != 1
        or len(entry.chain) != 1
        or entry.bad_at is not None
        or entry.grant_at is not None
        or entry.self_play is not None
    ):
        return None
    return (
        entry.recorded,
        entry.occurred,
        a0,
        a2,
        w0,
        w2,
        int(entry.clean),
        entry.median_usd,
    )


_MOMENTS = msgspec.json.Decoder(tuple[int, ...])


def entry_of(
    row: Row, subject: Subject, event_id: str = "", source: str = "", trace_id: str | None = None
) -> Entry:
    """An entry from its ENTRY_COLUMNS.

    The names of its fact are left empty where the caller needs only what the fold reads. Raises
    StoreDamagedError where it is no entry any more.
    """
    (recorded, kind, revision, occurred, chain) = row[:5]
    (n, sp_a, sp_w, bad_at, grant_at, clean, median_usd, to, rollback_id) = row[15:]
    try:
        name = KIND_NAMES[kind]
        earlier = () if chain is None else _MOMENTS.decode(chain)
        weighs = occurred >= EARLIEST
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise _no_entry(subject, recorded, repr(error)) from error
    if not weighs:
        raise _no_entry(subject, recorded, f"it occurred before 2020, at {occurred}")
    return Entry(
        kind=name,
        subject=subject,
        trace_id=trace_id,
        event_id=rollback_id if name == "rollback" else event_id,
        source=source,
        occurred=occurred,
        recorded=recorded,
        chain=(*earlier, recorded),
        revision=revision,
        amounts=row[5:10],
        weights=row[10:15],
        n_samples=n,
        self_play=None if sp_a is None else (sp_a, sp_w),
        bad_at=bad_at,
        grant_at=grant_at,
        clean=bool(clean),
        median_usd=median_usd,
        to=to,
        lifts=rollback_id if name == "rollback_lifted" else None,
    )


def _no_entry(subject: Subject, recorded: object, why: str) -> StoreDamagedError:
    return StoreDamagedError(
        f"a ledger entry of {subject} recorded at {recorded} is damaged: {why}; "
        "`trustfold verify` names every such row"
    )
