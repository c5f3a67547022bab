"""Dead letters as a store keeps and lists them, and what goes in when one is replayed."""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.facts import Stamp


class StoredDeadLetter(Struct, frozen=True, kw_only=True):
    """One dead letter as it is kept. Instants are microseconds since 1970.

    `origin` is where its bytes last came from, `times` how often, `stamp` who sent them first.
    """

    dead_letter_id: int
    reason: Reason
    detail: str
    origin: str
    first_recorded: int
    last_recorded: int
    times: int
    stamp: Stamp
    body: bytes
    replayed: int | None
    replayed_as: str | None


def replay_body(letter: StoredDeadLetter, repaired: bytes | None) -> bytes:
    """What to ingest for a dead letter: its own bytes, or repaired ones under an id that names it.

    Raises ValueError if the repaired document is no JSON object with an id.
    """
    if repaired is None or repaired == letter.body:
        return letter.body
    try:
        document = msgspec.json.decode(repaired, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise ValueError(f"the repaired document is no JSON object: {error}") from None
    name = hashlib.sha256(letter.body).hexdigest()[:32]
    document["id"] = msgspec.Raw(msgspec.json.encode(f"dead-letter/{letter.dead_letter_id}/{name}"))
    return msgspec.json.encode(document)
