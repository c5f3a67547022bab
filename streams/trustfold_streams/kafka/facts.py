"""The log of facts as an auditor reads it: whose trace, which event, and a score without them.

Everything here reads whole partitions; nothing here is for the way of an event.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from trustfold_projections.laws.correlation import Key, key_of
from trustfold_projections.laws.explanation import without_event, without_trace
from trustfold_projections.laws.medians import MedianTable
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.errors import UnknownNameError
from trustfold_schemas.facts import Fact
from trustfold_schemas.ledger import Entry
from trustfold_schemas.subject import Subject
from trustfold_streams.kafka.apart import ApartLog
from trustfold_streams.kafka.records import partition_of, stamp_from
from trustfold_streams.kafka.scanning import scan
from trustfold_streams.kafka.settings import KafkaSettings


def _log_key(trace_id: str) -> str:
    """The key of a trace's records in the log of facts; `log_key_of` makes it of an event."""
    return f"trace {trace_id}"


async def knows_trace(settings: KafkaSettings, trace_id: str) -> bool:
    """Whether any fact is of this trace."""
    key = _log_key(trace_id)
    partition = partition_of(key, settings.partitions)
    async with aclosing(scan(settings, "facts", [partition])) as records:
        async for record in records:
            if record.key == key.encode():
                return True
    return False


async def entries_without(
    settings: KafkaSettings, subject: Subject, entries: Sequence[Entry], name: str
) -> list[Entry]:
    """A subject's ledger had an event, or a trace, of this name never been.

    Raises UnknownNameError where nothing has the name.
    """
    if await knows_trace(settings, name):
        return without_trace(entries, name)
    keys = await _keys_of_event(settings, name)
    if not keys:
        raise UnknownNameError(f"no event and no trace of the log is named {name!r}")
    of_traces = {
        key.name: await _facts_of_trace(settings, key.name) for key in keys if key.kind == "trace"
    }
    return without_event(subject, entries, name, of_traces, await read_medians(settings))


async def read_medians(settings: KafkaSettings) -> MedianTable:
    """The table of medians as it stands."""
    log = ApartLog(settings, "cost-median")
    async for record in scan(settings, "cost-median", [0]):
        log.take(record)
    return log.medians


async def _keys_of_event(settings: KafkaSettings, event_id: str) -> set[Key]:
    """The keys under which events of this id were recorded."""
    found: set[Key] = set()
    spelled = event_id.encode()
    async for record in scan(settings, "facts", range(settings.partitions)):
        body = record.value or b""
        # An id that is spelled with escapes has a backslash; all others stand there as they are.
        if spelled in body or b"\\" in body:
            event = decode_event(body)
            if event.id == event_id:
                found.add(key_of(event))
    return found


async def _facts_of_trace(settings: KafkaSettings, trace_id: str) -> list[Fact]:
    key = _log_key(trace_id)
    return [
        fact
        async for fact in _facts(settings, partition_of(key, settings.partitions), key.encode())
    ]


async def _facts(settings: KafkaSettings, partition: int, key: bytes) -> AsyncGenerator[Fact]:
    """The facts of one key of the log; their moments are those that correlation gave them."""
    recorded = 0
    async for record in scan(settings, "facts", [partition]):
        recorded = max(recorded, record.timestamp * 1_000)
        if record.key == key:
            body = record.value or b""
            yield Fact(
                record.offset, recorded, stamp_from(record.headers), decode_event(body), body
            )
