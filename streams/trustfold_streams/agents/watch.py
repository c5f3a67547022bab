"""The agent `watch`: tells when a subject's raw_score crosses a threshold or drifts.

Reads the compacted topic `scores`; the table remembers each subject's last raw_score, its band and
a week of samples; the topic `watch` gets one JSON record a finding. What it may read again is told
apart by the version of the score, and a finding that is written twice has the same id twice.

Every record of `scores` that crosses a threshold is looked at, also one that another supersedes
within a fetch (`band_of`). One record tells of all events of a batch of the stage `fold`, so a
crossing and its return within one batch are nowhere to be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import faust
import msgspec
from faust.types import Message
from msgspec import Struct

from trustfold_projections.laws.scoring import raw_score_of, values_of
from trustfold_schemas.errors import TrustCorruptionError
from trustfold_schemas.instants import DAY, HOUR, format_instant
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.agents.driver import ReadingApp
from trustfold_streams.agents.rows import (
    RAW,
    AckedTable,
    Crash,
    HighWater,
    Poison,
    Send,
    Sent,
    Tally,
    each,
    place,
)
from trustfold_streams.kafka.records import partition_of
from trustfold_streams.kafka.score_records import unpack_score
from trustfold_streams.kafka.settings import KafkaSettings

NAME: Final = "watch"

LEVELS: Final = (0.5, 0.65, 0.75)
"""Where the reflection filter drops a proposal, and the default thresholds (SPEC 5)."""
DRIFT: Final = 0.1
WINDOW: Final = 7 * DAY
STEP: Final = 6 * HOUR
"""Of so long a time one sample is kept, the last: a week earlier is known this exactly."""
_NOISE_DIGITS: Final = 9
"""0.6 - 0.5 is less than 0.1 in doubles; beyond these digits there is nothing but rounding."""

Direction = Literal["up", "down"]


class Sample(NamedTuple):
    """A raw_score at a moment of the evidence, in microseconds since 1970."""

    moment: int
    raw_score: float


class Watched(Struct, frozen=True, kw_only=True):
    """A subject in the table. `band` counts the LEVELS that its raw_score reaches."""

    version: int
    raw_score: float
    band: int
    drifted: Direction | None = None
    samples: tuple[Sample, ...] = ()
    high_water: HighWater = {}


class WatchRecord(Struct, frozen=True, kw_only=True):
    """A record of the topic `watch`, in JSON, keyed by subject.

    `threshold` is set where it `crossed` one; `before` is the last raw_score then, and the one of
    a week earlier where it `drifted`, as of `before_at`. `moment` is the latest that the evidence
    tells of. Both are RFC 3339. A finding that is told twice has the same `id`.
    """

    id: str
    kind: Literal["crossed", "drifted"]
    subject: Subject
    direction: Direction
    raw_score: float
    before: float
    version: int
    threshold: float | None = None
    before_at: str | None = None
    moment: str | None = None


class _Record(Struct):
    raw_score: float


_RECORD = msgspec.json.Decoder(_Record)


def band_of(value: bytes | None) -> object:
    """The band of a record of `scores`, unchecked and quick; of one that is none, its bytes."""
    try:
        return _band(_RECORD.decode(value or b"").raw_score)
    except msgspec.MsgspecError:
        return value


def _band(raw_score: float) -> int:
    return sum(raw_score >= level for level in LEVELS)


def look(known: Watched | None, state: State) -> tuple[Watched, list[WatchRecord]] | None:
    """What a subject's new score means, after what was known; None if it is not new.

    The clock is the evidence's own: the latest moment that the score tells of. The first score
    of a subject crosses nothing, and in its first week nothing is a week earlier.
    """
    if known is not None and state.version <= known.version:
        return None
    raw_score = raw_score_of(values_of(state))
    band = _band(raw_score)
    if known is None:
        known = Watched(version=0, raw_score=raw_score, band=band)
    moments = (state.last_updated, state.last_bad_at, state.last_grant_at)
    moment = max((one for one in moments if one is not None), default=None)
    samples = _sampled(known.samples, moment, raw_score)
    earlier = _a_week_before(samples)
    drifted = None if earlier is None else _drift(raw_score, earlier.raw_score)
    text = None if moment is None else format_instant(moment)
    key = state.subject.key.decode()
    direction: Direction = "up" if raw_score > known.raw_score else "down"
    found = [
        WatchRecord(
            id=f"{key}/{state.version}/crossed/{level}",
            kind="crossed",
            subject=state.subject,
            direction=direction,
            raw_score=raw_score,
            before=known.raw_score,
            version=state.version,
            threshold=level,
            moment=text,
        )
        for level in LEVELS[min(band, known.band) : max(band, known.band)]
    ]
    if drifted is not None and drifted != known.drifted:
        assert earlier is not None
        found.append(
            WatchRecord(
                id=f"{key}/{state.version}/drifted",
                kind="drifted",
                subject=state.subject,
                direction=drifted,
                raw_score=raw_score,
                before=earlier.raw_score,
                version=state.version,
                before_at=format_instant(earlier.moment),
                moment=text,
            )
        )
    watched = Watched(
        version=state.version,
        raw_score=raw_score,
        band=band,
        drifted=drifted,
        samples=samples,
        high_water=known.high_water,
    )
    return watched, found


def _drift(raw_score: float, before: float) -> Direction | None:
    change = round(raw_score - before, _NOISE_DIGITS)
    if abs(change) < DRIFT:
        return None
    return "up" if change > 0 else "down"


def _sampled(
    samples: tuple[Sample, ...], moment: int | None, raw_score: float
) -> tuple[Sample, ...]:
    """The samples with one more: a week of them, and the last one before it."""
    if moment is None:
        return samples
    # A rollback may turn the evidence's clock back; what was sampled then stays where it is.
    made = {one.moment // STEP: one for one in samples}
    made[moment // STEP] = Sample(moment, raw_score)
    ordered = sorted(made.values())
    old = sum(one.moment <= ordered[-1].moment - WINDOW for one in ordered)
    return tuple(ordered[max(0, old - 1) :])


def _a_week_before(samples: tuple[Sample, ...]) -> Sample | None:
    if not samples or samples[0].moment > samples[-1].moment - WINDOW:
        return None
    return samples[0]


class WatchAgent:
    """Takes scores one by one; `send` writes key and value to a partition of `watch`."""

    def __init__(
        self,
        settings: KafkaSettings,
        table: AckedTable,
        send: Send,
    ) -> None:
        self.tally = Tally()
        self._partitions = settings.partitions
        self._table = table
        self._send = send

    async def take(self, message: Message) -> Sequence[Sent]:
        """Look at one record of `scores`."""
        if message.key is None or message.key.startswith(b"\0") or message.value is None:
            self.tally.ignored += 1
            return ()
        try:
            state = unpack_score(message.value)[0]
        except TrustCorruptionError as error:
            raise Poison(str(error)) from None
        if state.subject.key != message.key:
            raise Poison(f"the score of {state.subject} has the key {message.key!r}")
        row = self._table.get(message.key)
        known = None if row is None else msgspec.msgpack.decode(row, type=Watched)
        seen = known is not None and message.offset <= known.high_water.get(place(message), -1)
        new = None if seen else look(known, state)
        if new is None:
            self.tally.repeated += 1
            return ()
        self.tally.counted += 1
        watched, found = new
        partition = partition_of(message.key, self._partitions)
        for one in found:
            # Durable before the row is even sent: a finding may come twice, and is never lost.
            await (await self._send(message.key, msgspec.json.encode(one), partition))
            self.tally.written += 1
        high_water = {**watched.high_water, place(message): message.offset}
        watched = msgspec.structs.replace(watched, high_water=high_water)
        return [self._table.put(message.key, msgspec.msgpack.encode(watched))]


def add_watch(app: ReadingApp, settings: KafkaSettings, crash: Crash) -> WatchAgent:
    """Register agent, table and topics with an application; the agent, for its tally."""
    table = AckedTable.of(app, NAME, settings.partitions)
    own = app.topic(settings.topic("watch"), **RAW)

    async def send(key: bytes, value: bytes, partition: int) -> Sent:
        return await own.send(key=key, value=value, partition=partition)

    agent = WatchAgent(settings, table, send)

    async def watch(stream: faust.Stream[bytes]) -> None:
        await each(stream, agent.take, agent.tally, NAME, app.handover, crash)

    app.agent(app.topic(settings.topic("scores"), **RAW), name=NAME, concurrency=1)(watch)
    return agent
