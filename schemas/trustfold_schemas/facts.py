"""Facts: accepted events in the log of facts, with their moment and their publisher's stamp."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from trustfold_schemas.decoding import content_of
from trustfold_schemas.events import Event

Role = Literal["runtime", "human", "operator", "reader", "owner"]
"""Who may say what (SPEC 2). `owner` is all roles at once: the embedded store's own user."""


class Stamp(Struct, frozen=True, gc=False):
    """What a fact's publisher was when it spoke; outside the content, never from the data.

    `identity` overrides who the data says decided; None where the store knows none.
    `scopes` are the scopes it may speak of; None is all of them.
    """

    role: Role
    identity: str | None = None
    scopes: tuple[str, ...] | None = None

    def may_speak_of(self, scope: str) -> bool:
        """Whether a scope lies within the publisher's."""
        return self.scopes is None or scope in self.scopes


OWNER = Stamp("owner")


class Content:
    """What an event says, compared by bytes first and by digest only where those differ.

    One that was kept as a digest alone (`from_digest`) has no document to compare.
    """

    __slots__ = ("_digest", "_event", "document")

    def __init__(self, event: Event | None, document: bytes, digest: bytes | None = None) -> None:
        self.document = document
        self._event = event
        self._digest = digest

    @classmethod
    def from_digest(cls, digest: bytes) -> Content:
        """A content of which only the digest was kept."""
        return cls(None, b"", digest)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical content, 32 bytes."""
        if self._digest is None:
            assert self._event is not None
            self._digest = content_of(self._event, self.document)
        return self._digest

    def same_as(self, other: Content) -> bool:
        """Whether both say the same."""
        if self.document and self.document == other.document:
            return True
        return self.digest == other.digest


class Fact(Struct, frozen=True, gc=False):
    """One accepted event.

    `position` orders the log (a row number, or an offset), `recorded` is the log's own moment in
    microseconds since 1970, `document` the event's original bytes.
    """

    position: int
    recorded: int
    stamp: Stamp
    event: Event
    document: bytes

    @property
    def content(self) -> Content:
        """What the event says, for comparison."""
        return Content(self.event, self.document)
