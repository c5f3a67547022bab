"""A pipeline under test: its topics, what is published to it, waiting, and what it came to.

What it must come to is foreseen by the law in this process, on the same documents. Recorded
moments differ between the two; sums and digests may not.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, ParamSpec
from unittest.mock import patch

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.broker.loads import START, TOOLS
from tests.broker.processes import until
from tests.embedded.documents import event, step
from tests.laws.runs import Run
from tests.oracles.batch import Told
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.instants import MINUTE, format_instant
from trustfold_schemas.ledger import Entry
from trustfold_schemas.scores import State, content_digest
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka import topics
from trustfold_streams.kafka import worker as product
from trustfold_streams.kafka.clients import REQUEST_BYTES_MAX
from trustfold_streams.kafka.publisher import Publisher, Receipt, topic_of
from trustfold_streams.kafka.reading import NumberedLetter, TopicReader
from trustfold_streams.kafka.settings import ROLES, InputTopic, KafkaSettings
from trustfold_streams.kafka.table import TableReader
from trustfold_streams.kafka.worker import Worker

PARTITIONS = 3
SESSION_MS = 3_000
COMPLETE_SECONDS_MAX = 150.0
STOP_SECONDS_MAX = 45.0
STORY_SECONDS_MAX = 300.0
"""A test that hangs is one that fails."""
RECORDED = 2_000_000_000_000_000
"""The first moment of the law's own log; every event here is long past by then."""

SUBJECT = Subject("", *TOOLS[0])

P = ParamSpec("P")
Digests = dict[Subject, str]
Headers = Sequence[tuple[str, bytes]]


def story(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Run a test that is a coroutine in an event loop of its own, for a bounded time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def whole() -> None:
            async with asyncio.timeout(STORY_SECONDS_MAX):
                await test(*args, **kwargs)

        asyncio.run(whole())

    return run


def settings_for(bootstrap: str, prefix: str, instance: str | None = None) -> KafkaSettings:
    """Settings of a small pipeline whose groups notice soon that a member is gone."""
    return KafkaSettings(
        bootstrap,
        prefix,
        PARTITIONS,
        session_timeout_ms=SESSION_MS,
        worker_instance=instance,
    )


async def create(settings: KafkaSettings, inputs: Mapping[InputTopic, int] | None = None) -> None:
    """Create the topics; input topics named here with partition counts of their own."""
    declared = topics.declared(settings)
    made = [
        NewTopic(name, count, 1, topic_configs={rule.key: rule.create for rule in known.rules})
        for topic, count in (inputs or {}).items()
        for name, known in [(settings.topic(topic), declared[settings.topic(topic)])]
    ]
    if made:
        client = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap)
        await client.start()
        try:
            await client.create_topics(made)
        finally:
            await client.close()
    await topics.create(settings)


@asynccontextmanager
async def working(settings: KafkaSettings, *, history: bool = True) -> AsyncGenerator[Worker]:
    """A worker in this process; it leaves in order, and what failed in it fails the test."""
    # As often as the workers of worker_process: a test waits for several rounds of it.
    with patch.object(product, "PROGRESS_SECONDS", 0.1):
        worker = Worker(settings, history=history)
        await worker.start()
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            try:
                if running.done():
                    running.result()
            finally:
                running.cancel()
                # It finishes what is in flight, which may never be acknowledged.
                async with asyncio.timeout(STOP_SECONDS_MAX):
                    await worker.stop()


# ---- in ----------------------------------------------------------------------------------------


def close(trace_id: str, *subjects: Subject, minute: int = 0) -> bytes:
    """A closed trace with a good step for each subject."""
    steps = [step(str(n), subject) for n, subject in enumerate(subjects or (SUBJECT,))]
    data = {"trace_id": trace_id, "outcome": "completed", "steps": steps, "cost_usd": 0.004}
    return event("trace.closed", f"close/{trace_id}", data, START + minute * MINUTE)


async def publish(settings: KafkaSettings, documents: Iterable[bytes]) -> list[Receipt]:
    """Publish events as their owner, each on its topic; durable when this returns."""
    async with Publisher(settings) as publisher:
        return list(await asyncio.gather(*(publisher.publish(one) for one in documents)))


class Raw(NamedTuple):
    """A record as any client may write it, good or bad. Partition None leaves it to the client."""

    topic: InputTopic
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None


async def write(settings: KafkaSettings, records: Iterable[Raw]) -> None:
    """Write records with a plain client, one after the other."""
    async with plain_producer(settings) as producer:
        for one in records:
            await producer.send_and_wait(
                settings.topic(one.topic),
                one.value,
                one.key,
                partition=one.partition,
                headers=list(one.headers),
            )


def plain_producer(settings: KafkaSettings) -> Any:
    """A client without any setting of ours but the size of what it may send."""
    return AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap, acks="all", max_request_size=REQUEST_BYTES_MAX
    )


# ---- out ---------------------------------------------------------------------------------------


async def complete(reader: TableReader, since: int | None = None) -> None:
    """Wait until the table holds everything that was published before now, or `since`."""
    moment = SystemClock().now() if since is None else since

    async def look() -> str | None:
        reached = reader.complete_as_of()
        return None if reached >= moment else f"complete as of {_text(reached)}, {_said(reader)}"

    await until(f"the table is complete as of {_text(moment)}", look, COMPLETE_SECONDS_MAX)


def _text(moment: int) -> str:
    return format_instant(moment) if moment else "no moment"


def _said(reader: TableReader) -> str:
    return "; ".join(
        f"{one.key.decode()} at {one.positions} caught up as of {_text(one.caught_up)}"
        for one in reader.progress()
    )


def digests_of(reader: TableReader) -> Digests:
    """The content digests of a table in which nothing is corrupt."""
    made: Digests = {}
    for state in reader.states():
        assert isinstance(state, State), state
        made[state.subject] = content_digest(state)
    return made


async def table(settings: KafkaSettings) -> Digests:
    """The digests, once the table holds everything that was published before this call."""
    reader = TableReader(settings)
    moment = SystemClock().now()
    await reader.start()
    try:
        await complete(reader, moment)
        return digests_of(reader)
    finally:
        await reader.stop()


async def letters(settings: KafkaSettings) -> list[NumberedLetter]:
    """All dead letters."""
    return await TopicReader(settings).dead_letters()


class Ledger:
    """The ledger as it stands, envelope by envelope; nothing is filtered."""

    def __init__(self) -> None:
        self.places: Counter[tuple[int, int, int]] = Counter()
        self.entries: list[Entry] = []

    @classmethod
    async def read(cls, settings: KafkaSettings) -> Ledger:
        """Read all of it."""
        made = cls()
        async for partition, offset, number, entry in TopicReader(settings).ledger():
            made.places[partition, offset, number] += 1
            made.entries.append(entry)
        return made

    def must_hold_each_once(self) -> None:
        """Each entry of each fact stands there once, and no two have the same name."""
        again = [place for place, count in self.places.items() if count > 1]
        assert not again, f"{len(again)} entries stand there more than once, as {again[:5]}"
        names = Counter(entry.entry_id for entry in self.entries)
        same = [name for name, count in names.items() if count > 1]
        assert not same, f"{len(same)} names belong to more than one entry, as {same[:5]}"


# ---- foreseen ----------------------------------------------------------------------------------


class Total(NamedTuple):
    """What a trace, or an event without one, came to for one subject, over all its entries."""

    amounts: tuple[int, ...]
    weights: tuple[int, ...]
    n_samples: int
    self_play: tuple[int, int]
    occurred: frozenset[int]
    medians: frozenset[int]
    bad_at: int | None
    grant_at: int | None
    clean: bool


Totals = dict[tuple[str, Subject], Total]


def totals(entries: Iterable[Entry]) -> Totals:
    """The entries by trace and subject, summed: how many they are depends on the order."""
    by_name: dict[tuple[str, Subject], list[Entry]] = {}
    for entry in entries:
        name = entry.trace_id or f"{entry.source} {entry.event_id}"
        by_name.setdefault((name, entry.subject), []).append(entry)
    return {name: _total(every) for name, every in by_name.items()}


def _total(every: Sequence[Entry]) -> Total:
    plays = [entry.self_play for entry in every if entry.self_play is not None]
    return Total(
        amounts=tuple(map(sum, zip(*(entry.amounts for entry in every), strict=True))),
        weights=tuple(map(sum, zip(*(entry.weights for entry in every), strict=True))),
        n_samples=sum(entry.n_samples for entry in every),
        self_play=(sum(amount for amount, _ in plays), sum(weight for _, weight in plays)),
        occurred=frozenset(
            entry.occurred for entry in every if entry.kind in ("evidence", "correction")
        ),
        medians=frozenset(one.median_usd for one in every if one.median_usd is not None),
        bad_at=max((one.bad_at for one in every if one.bad_at is not None), default=None),
        grant_at=max((one.grant_at for one in every if one.grant_at is not None), default=None),
        clean=any(entry.clean for entry in every),
    )


def foreseen(documents: Iterable[bytes], recorded: int = RECORDED, run: Run | None = None) -> Run:
    """What the law makes of documents in this order, a microsecond apart."""
    made = Run() if run is None else run
    for number, document in enumerate(documents):
        role = ROLES[topic_of(decode_event(document), "owner")]
        made.take(Told(recorded + number, role, None, None, msgspec.json.decode(document)))
    return made


def digests_in(run: Run) -> Digests:
    """The content digests of what was foreseen."""
    return {subject: content_digest(state) for subject, state in run.states.items()}


async def must_equal(settings: KafkaSettings, documents: Iterable[bytes]) -> Ledger:
    """The table and the ledger are what the law makes of these documents, each entry once."""
    run = foreseen(documents)
    assert not run.reasons, f"the load itself is refused: {run.reasons}"
    found = await table(settings)
    ledger = await Ledger.read(settings)
    ledger.must_hold_each_once()
    unlike = _unlike(totals(ledger.entries), totals(run.ledger))
    assert not unlike, f"the ledger is not what the law makes of the load: {unlike}"
    unlike = _unlike(found, digests_in(run))
    assert not unlike, f"the table is not what the law makes of the load: {unlike}"
    assert [one.letter.detail for one in await letters(settings)] == []
    return ledger


def _unlike(found: Mapping[Any, Any], wanted: Mapping[Any, Any]) -> str:
    """How many keys differ, and the first of them with both sides."""
    names = [name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)]
    told = [f"{name}: {found.get(name)}, wanted {wanted.get(name)}" for name in sorted(names)[:3]]
    return f"{len(names)} differ, as {told}" if names else ""
