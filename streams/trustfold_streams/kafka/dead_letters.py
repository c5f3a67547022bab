"""The topic of dead letters as a list: each with its number, once, and whether it was replayed.

A letter's number is offset * partitions + partition of its first record. Ingest may repeat itself,
so the same document for the same reason is one letter, as in every store. That one was replayed is
a record of its own beside it, which is void if that was refused, too: nothing in a log is changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.facts import Stamp
from trustfold_schemas.stored_dead_letters import StoredDeadLetter
from trustfold_streams.kafka.records import (
    Letter,
    Replayed,
    document_from,
    letter_from,
    replayed_from,
)
from trustfold_streams.kafka.scanning import scan
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record


class KeptLetter(Struct):
    """One dead letter, gathered from all records that tell of it; instants in us since 1970.

    `body` is its document: of an event in binary mode it is put together as if structured.
    """

    number: int
    reason: Reason
    detail: str
    stamp: Stamp
    body: bytes
    first_recorded: int
    last_recorded: int
    origins: dict[str, None]
    replayed: int | None = None
    replayed_as: str | None = None

    @property
    def origin(self) -> str:
        """Where its bytes last came from: topic/partition/offset."""
        return next(reversed(self.origins))

    def stored(self) -> StoredDeadLetter:
        """As every store lists it."""
        return StoredDeadLetter(
            dead_letter_id=self.number,
            reason=self.reason,
            detail=self.detail,
            origin=self.origin,
            first_recorded=self.first_recorded,
            last_recorded=self.last_recorded,
            times=len(self.origins),
            stamp=self.stamp,
            body=self.body,
            replayed=self.replayed,
            replayed_as=self.replayed_as,
        )


def gathered(records: Iterable[Record], partitions: int) -> list[KeptLetter]:
    """The letters among records of the topic, by number; a partition's records are in order."""
    kept: dict[tuple[Reason, bytes], KeptLetter] = {}
    marks: dict[int, tuple[Replayed, int]] = {}
    numbers: dict[int, KeptLetter] = {}
    for record in records:
        moment = record.timestamp * 1_000
        mark = replayed_from(record.value, record.headers)
        if mark is not None:
            marks[mark.letter] = (mark, moment)
            continue
        letter = letter_from(record.value, record.headers)
        number = record.offset * partitions + record.partition
        numbers[number] = _keep(kept, number, letter, moment)
    refused = {origin for one in kept.values() for origin in one.origins}
    for number, (mark, moment) in marks.items():
        # The letter itself may be gone: the topic is kept for a time, not for ever.
        one = numbers.get(number)
        if one is not None and mark.origin not in refused:
            one.replayed, one.replayed_as = moment, mark.event_id
    return sorted(kept.values(), key=lambda one: (one.first_recorded, one.number))


def _keep(
    kept: dict[tuple[Reason, bytes], KeptLetter], number: int, letter: Letter, moment: int
) -> KeptLetter:
    body = document_from(letter.body, letter.headers)
    name = (letter.reason, hashlib.sha256(body).digest())
    one = kept.get(name)
    if one is None:
        one = kept[name] = KeptLetter(
            number=number,
            reason=letter.reason,
            detail=letter.detail,
            stamp=letter.stamp,
            body=body,
            first_recorded=moment,
            last_recorded=moment,
            origins={letter.origin: None},
        )
        return one
    one.detail, one.last_recorded = letter.detail, max(one.last_recorded, moment)
    one.origins.pop(letter.origin, None)
    one.origins[letter.origin] = None
    return one


async def read_letters(
    settings: KafkaSettings,
    reasons: Sequence[Reason] = (),
    *,
    replayed: bool = False,
    ids: Sequence[int] = (),
) -> list[KeptLetter]:
    """The dead letters, oldest first; those replayed only on request or by id."""
    every = range(settings.partitions)
    records = [record async for record in scan(settings, "dead-letters", every, whole=False)]
    return [
        one
        for one in gathered(records, settings.partitions)
        if (not reasons or one.reason in reasons)
        and (one.number in ids if ids else replayed or one.replayed is None)
    ]
