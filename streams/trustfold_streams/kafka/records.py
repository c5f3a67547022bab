"""What stands in the topics: facts with their stamp, dead letters, progress, and partitions.

Values are documents that a program in any language reads; stamps and reasons travel as headers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec
from msgspec import Struct

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.facts import Role, Stamp
from trustfold_streams.kafka.lenient import is_utf8, name_bytes

Headers = Sequence[tuple[str, bytes]]
CONTENT_TYPE: Final = ("content-type", b"application/cloudevents+json")
ATTRIBUTES: Final = ("specversion", "id", "source", "type", "time", "subject", "traceparent")


class Output(NamedTuple):
    """A record to be written: to a topic (full name) and partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def partition_of(key: str | bytes, partitions: int) -> int:
    """Our own hash of a key to a partition: no client's default, which all differ."""
    return zlib.crc32(key.encode() if isinstance(key, str) else key) % partitions


# ---- facts -----------------------------------------------------------------------------------


def stamp_headers(stamp: Stamp) -> Headers:
    """A stamp as headers; absent identity and scopes leave theirs out."""
    made = [("tf-role", stamp.role.encode())]
    if stamp.identity is not None:
        made.append(("tf-identity", stamp.identity.encode()))
    if stamp.scopes is not None:
        made.append(("tf-scopes", msgspec.json.encode(stamp.scopes)))
    return made


def stamp_from(headers: Headers) -> Stamp:
    """The stamp of a fact or a dead letter."""
    known = dict(headers)
    scopes = known.get("tf-scopes")
    identity = known.get("tf-identity")
    return Stamp(
        cast("Role", known["tf-role"].decode()),
        None if identity is None else identity.decode(),
        None if scopes is None else msgspec.json.decode(scopes, type=tuple[str, ...]),
    )


def refuse_names(headers: Iterable[tuple[str, bytes | None]]) -> None:
    """Raise EventRefused where a header has a name that is no UTF-8, as the protocol asks."""
    for name, _ in headers:
        if not is_utf8(name):
            raise EventRefused(
                Reason.MALFORMED, f"Expected names of headers in UTF-8, got {name_bytes(name)!r}"
            )


def document_from(value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The event's document of an input record, from CloudEvents structured or binary mode.

    A binary one is put together as it would have been written structured; whether it is an
    event is judged afterwards. A header may come without a value: then it is not there.
    """
    known = {name: said for name, said in headers if said is not None}
    if "ce_specversion" not in known:
        return value or b""
    parts = [
        b'"%b":%b'
        % (name.encode(), msgspec.json.encode(known[f"ce_{name}"].decode("utf-8", "replace")))
        for name in ATTRIBUTES
        if f"ce_{name}" in known
    ]
    return b"{%b}" % b",".join([*parts, b'"data":%b' % (value or b"null")])


# ---- dead letters ----------------------------------------------------------------------------


class Letter(Struct, frozen=True, kw_only=True):
    """A dead letter as it stands in its topic; `origin` is topic/partition/offset."""

    reason: Reason
    detail: str
    origin: str
    stamp: Stamp
    body: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


def letter_output(topic: str, partition: int, letter: Letter) -> Output:
    """A dead letter as a record: the original bytes and headers, and ours beside them."""
    ours = [
        ("tf-reason", letter.reason.value.encode()),
        ("tf-detail", letter.detail.encode()),
        ("tf-origin", letter.origin.encode()),
        *stamp_headers(letter.stamp),
    ]
    # A client cannot write names that are no UTF-8: their bytes are told as \\xNN.
    theirs = [
        (name_bytes(name).decode("utf-8", "backslashreplace"), value)
        for name, value in letter.headers
        if not name.startswith("tf-")
    ]
    return Output(topic, partition, letter.origin.encode(), letter.body, [*ours, *theirs])


def letter_from(value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> Letter:
    """A dead letter from its record."""
    every = tuple(headers)
    known = dict(every)
    return Letter(
        reason=Reason(known["tf-reason"].decode()),
        detail=known["tf-detail"].decode(),
        origin=known["tf-origin"].decode(),
        stamp=stamp_from(every),
        body=value or b"",
        headers=tuple(one for one in every if not one[0].startswith("tf-")),
    )


class Replayed(Struct, frozen=True, kw_only=True):
    """That a dead letter was taken in after all: a record beside it, in the same topic.

    `letter` is its number, `event_id` the id under which it went in, `origin` the
    topic/partition/offset that it got. A refusal of that origin makes the mark void.
    """

    letter: int
    event_id: str
    origin: str


REPLAYED: Final = "tf-replayed"
"""The header that tells such a record from a dead letter."""

_REPLAYED = msgspec.json.Decoder(Replayed)


def replayed_output(topic: str, partition: int, replayed: Replayed) -> Output:
    """The mark as a record; it carries the letter's number as a header, too."""
    number = str(replayed.letter).encode()
    body = msgspec.json.encode(replayed)
    return Output(topic, partition, b"replayed/%b" % number, body, [(REPLAYED, number)])


def replayed_from(value: bytes | None, headers: Headers) -> Replayed | None:
    """The mark, if a record of the dead letters is one."""
    return _REPLAYED.decode(value or b"") if REPLAYED in dict(headers) else None


# ---- progress --------------------------------------------------------------------------------


class Progress(Struct, frozen=True, kw_only=True):
    """How far a stage is in one partition. Instants are microseconds since 1970.

    `caught_up` is the last moment at which everything that the inputs held then was processed:
    it stands still while a backlog is worked off. `recorded` is the greatest moment read.
    """

    stage: str
    partition: int
    positions: dict[str, int]
    caught_up: int
    recorded: int
    written: int
    state: Literal["running", "refolding"] = "running"

    @property
    def key(self) -> bytes:
        """The key in the compacted topic."""
        return f"{self.stage}/{self.partition}".encode()


_PROGRESS = msgspec.json.Decoder(Progress)


def progress_from(value: bytes) -> Progress:
    """A progress record."""
    return _PROGRESS.decode(value)


# ---- positions -------------------------------------------------------------------------------

POSITION: Final = b"\0pos"
"""The row of a state partition that says what of the inputs is in the states."""


def pack_positions(positions: Mapping[str, int]) -> bytes:
    """Positions by `topic/partition`, as JSON."""
    return msgspec.json.encode(dict(positions))


def unpack_positions(value: bytes) -> dict[str, int]:
    """Positions from their row."""
    made: dict[str, Any] = msgspec.json.decode(value, type=dict[str, int])
    return made
