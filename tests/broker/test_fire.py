"""Machines die, freeze and come back while events flow; the sums are those of a quiet day.

The short campaign is one of the tests. `make fire` does the whole one and prints every disturbance.
TRUSTFOLD_FIRE_SEED=N is another course of events: which worker, which moment, which order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from compose.kafka.broker import Broker
from tests.broker.loads import medians, mixed
from tests.broker.pipeline import (
    PARTITIONS,
    complete,
    create,
    must_equal,
    publish,
    settings_for,
)
from tests.broker.processes import Supervisor, WorkerProcess, supervised, until
from tests.broker.running import Running
from tests.broker.worker_process import Trap
from trustfold_streams.clock import SystemClock
from trustfold_streams.kafka.errors import BrokerError
from trustfold_streams.kafka.publisher import Publisher
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.table import TableReader
from trustfold_streams.kafka.worker import EXIT_RESTART

pytestmark = pytest.mark.broker

SEED = int(os.environ.get("TRUSTFOLD_FIRE_SEED", "1"))
WHOLE = os.environ.get("TRUSTFOLD_FIRE") == "whole"

PIECE = 4
PIECE_SECONDS = 0.1
AGAIN = 2
"""So many of the events of a piece are published once more some time later."""

TRAP_SECONDS_MAX = 15.0
RECOVERY_SECONDS_MAX = 90.0
BROKER_SECONDS_MAX = 120.0

AT_RANDOM: None = None
MOMENTS: tuple[tuple[str, str] | None, ...] = (
    AT_RANDOM,
    ("correlate", "acknowledged"),
    ("fold", "sent"),
    ("fold", "committed"),
    ("correlate", "restoring"),
    AT_RANDOM,
    ("ingest", "sent"),
    ("ingest", "acknowledged"),
    ("ingest", "committed"),
    ("correlate", "sent"),
    ("correlate", "committed"),
    ("fold", "acknowledged"),
    AT_RANDOM,
    ("correlate", "fenced"),
    ("correlate", "restored"),
    ("fold", "fenced"),
    ("fold", "restoring"),
    ("fold", "restored"),
)
"""When a worker is killed: at any time, in the middle of a batch, or while it takes over."""
OPENING = ("fenced", "restoring", "restored")
FREEZES = (("correlate", "sent"), AT_RANDOM, ("fold", "acknowledged"), ("fold", "sent"))
DEATHS = ("SIGKILL", "SIGTERM", "SIGTERM")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """While a broker is away its client says so thousands of times."""
    caplog.set_level(logging.CRITICAL, "aiokafka")


class Disturbance(NamedTuple):
    """One thing that goes wrong; `at` is the stage and its moment, None any time."""

    kind: Literal["kill", "freeze", "broker"]
    at: tuple[str, str] | None = None
    death: str = ""


def disturbances(kills: int, freezes: int, deaths: int, chance: random.Random) -> list[Disturbance]:
    """So many of each in a random order; the moments and ways each in turn."""
    made = [Disturbance("kill", MOMENTS[n % len(MOMENTS)]) for n in range(kills)]
    made += [Disturbance("freeze", FREEZES[n % len(FREEZES)]) for n in range(freezes)]
    made += [Disturbance("broker", death=DEATHS[n % len(DEATHS)]) for n in range(deaths)]
    chance.shuffle(made)
    return made


class Feed:
    """Publishes a load piece by piece, some of it twice; once it is out, all of it again."""

    def __init__(self, settings: KafkaSettings, load: Sequence[bytes], seed: int) -> None:
        self.published = 0
        self.repeated = 0
        self.failures: Counter[str] = Counter()
        self._settings = settings
        self._load = load
        self._chance = random.Random(f"feed {seed}")

    async def flow(self) -> None:
        """Publish for as long as nobody cancels this, a broker that is away now and then or not."""
        while True:
            with contextlib.suppress(BrokerError):
                async with Publisher(self._settings) as publisher:
                    while True:
                        await self._piece(publisher)
                        await asyncio.sleep(PIECE_SECONDS)
            await asyncio.sleep(PIECE_SECONDS)

    async def rest(self) -> None:
        """Publish what is not out yet, at once."""
        await publish(self._settings, self._load[self.published :])
        self.published = len(self._load)

    async def _piece(self, publisher: Publisher) -> None:
        fresh = self._load[self.published : self.published + PIECE]
        known = self._load[: self.published]
        again = self._chance.sample(known, min(len(known), AGAIN if fresh else PIECE))
        try:
            await asyncio.gather(*(publisher.publish(one) for one in (*fresh, *again)))
        except BrokerError as error:
            self.failures[type(error).__name__] += 1
            raise
        self.published += len(fresh)
        self.repeated += len(again)


class Fire:
    """A campaign on two workers and one broker."""

    def __init__(
        self,
        broker: Broker,
        workers: Sequence[Supervisor],
        reader: TableReader,
        chance: random.Random,
    ) -> None:
        self.done: Counter[str] = Counter()
        self._broker = broker
        self._workers = workers
        self._reader = reader
        self._chance = chance
        self._turn = chance.randrange(len(workers))
        self._started = time.monotonic()

    def tell(self, what: str) -> None:
        """One line, at once."""
        sys.stdout.write(f"[{time.monotonic() - self._started:6.1f} s] {what}\n")
        sys.stdout.flush()

    async def disturb(self, one: Disturbance) -> None:
        """Do it; mostly wait until all is well again, sometimes go on in the middle of it."""
        began = time.monotonic()
        if one.kind == "kill":
            told = await self._kill(one.at)
        elif one.kind == "freeze":
            told = await self._freeze(one.at)
        else:
            told = await self._end_broker(one.death)
        if self._chance.random() < 0.7:
            await self.recovered()
            told += f", the table complete again after {time.monotonic() - began:.1f} s"
        self.tell(told)

    async def recovered(self) -> None:
        """Wait until the table holds what was published by now."""
        await complete(self._reader, SystemClock().now())

    async def _kill(self, at: tuple[str, str] | None) -> str:
        number, supervisor = self._next_in_turn()
        worker = await supervisor.running()
        if at is not None and at[1] in OPENING:
            supervisor.next_traps.append(_trap(at, "SIGKILL"))
            worker.signal(signal.SIGKILL)
            await self._counted(worker)
            worker = await self._next(supervisor, worker)
        elif at is not None:
            worker.set_traps(_trap(at, "SIGKILL", self._chance.randint(1, 4)))
        trapped = at is not None and await self._ended(worker)
        if not trapped:
            await asyncio.sleep(self._chance.random())
            worker.signal(signal.SIGKILL)
        killed = await self._counted(worker)
        await self._next(supervisor, worker)
        if not killed:  # it had ended itself before, as after a broker's death
            return await self._kill(at)
        moment = "at {} {}".format(*at) if at is not None and trapped else "at random"
        return f"kill -9 of worker {number} {moment}"

    async def _counted(self, worker: WorkerProcess) -> bool:
        """Wait until it has ended; whether it was killed."""
        killed = await worker.gone() == -signal.SIGKILL
        self.done["kill"] += killed
        return killed

    async def _freeze(self, at: tuple[str, str] | None) -> str:
        number, supervisor = self._next_in_turn()
        other = self._workers[1 - number]
        # The frozen one must have something to lose.
        await self.recovered()
        worker = await supervisor.running()
        heir = await other.running()
        before = heir.said().count("has partitions")
        trapped = False
        if at is not None:
            worker.set_traps(_trap(at, "SIGSTOP"))
            trapped = await self._frozen(worker)
        if not trapped:
            worker.signal(signal.SIGSTOP)
            assert await self._frozen(worker), worker.last_words()
        self.done["freeze"] += 1
        began = time.monotonic()
        await self._taken_over(other, heir, before)
        await self.recovered()
        frozen = time.monotonic() - began
        if not trapped:  # it would stand still once more, with nobody to thaw it
            worker.set_traps()
        worker.signal(signal.SIGCONT)
        if trapped:  # in the middle of a transaction that somebody else has ended meanwhile
            assert await worker.gone() == EXIT_RESTART, worker.last_words()
        moment = "at {} {}".format(*at) if at is not None and trapped else "at random"
        await self.recovered()
        outcome = "lives on" if worker.exit_code is None else f"ended itself, {worker.exit_code}"
        return f"worker {number} frozen {moment} for {frozen:.1f} s, thawed, {outcome}"

    async def _end_broker(self, death: str) -> str:
        async with asyncio.timeout(BROKER_SECONDS_MAX):
            if death == "SIGTERM":
                await asyncio.to_thread(self._broker.stop)
            else:
                await asyncio.to_thread(self._broker.kill)
            await asyncio.sleep(self._chance.random() * 3)
            await asyncio.to_thread(self._broker.start)
        self.done[f"broker {death}"] += 1
        return f"broker ended by {death} and started again"

    def _next_in_turn(self) -> tuple[int, Supervisor]:
        self._turn = (self._turn + 1) % len(self._workers)
        return self._turn, self._workers[self._turn]

    async def _next(self, supervisor: Supervisor, gone: WorkerProcess) -> WorkerProcess:
        async def look() -> str | None:
            return gone.last_words() if supervisor.worker is gone else None

        await until("the supervisor has started a worker again", look, RECOVERY_SECONDS_MAX)
        return supervisor.worker

    async def _ended(self, worker: WorkerProcess) -> bool:
        """Whether it walks into its trap; it may have none of the partitions just now."""
        with contextlib.suppress(AssertionError):
            await worker.gone(TRAP_SECONDS_MAX)
            return True
        return False

    async def _frozen(self, worker: WorkerProcess) -> bool:
        async def look() -> str | None:
            return None if worker.frozen else worker.last_words()

        with contextlib.suppress(AssertionError):
            await until("a worker stands still", look, TRAP_SECONDS_MAX)
            return True
        return False

    async def _taken_over(self, other: Supervisor, heir: WorkerProcess, before: int) -> None:
        """Wait until the other worker, or the one after it, has all partitions of both stages."""
        wanted = [
            f"{stage} has partitions {list(range(PARTITIONS))}" for stage in ("correlate", "fold")
        ]

        async def look() -> str | None:
            worker = other.worker
            lines = [line for line in worker.said().splitlines() if "has partitions" in line]
            fresh = lines[before:] if worker is heir else lines
            missing = [one for one in wanted if not any(one in line for line in fresh)]
            return f"not yet {missing}: {worker.last_words()}" if missing else None

        await until("the other worker has taken over", look, RECOVERY_SECONDS_MAX)


def _trap(at: tuple[str, str], number: Literal["SIGKILL", "SIGSTOP"], n: int = 1) -> Trap:
    stage, moment = at
    return Trap(stage, moment, n, number)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def flowing(feed: Feed) -> AsyncGenerator[None]:
    """Events are published meanwhile; what fails in it fails the campaign."""
    flow = asyncio.create_task(feed.flow())
    try:
        yield
    finally:
        if flow.done():
            flow.result()
        flow.cancel()
        await asyncio.wait([flow])


async def campaign(
    broker: Broker,
    prefix: str,
    folder: Path,
    *,
    seed: int,
    kills: int,
    freezes: int,
    broker_deaths: int,
    traces: int,
) -> None:
    """Disturb two workers and their broker under load; then table and ledger must be the law's."""
    chance = random.Random(f"fire {seed}")
    plan = disturbances(kills, freezes, broker_deaths, chance)
    load = list(mixed(traces, seed))
    settings = settings_for(broker.bootstrap, prefix)
    await create(settings)
    await publish(settings, medians())
    feed = Feed(settings, load, seed)
    reader = TableReader(settings)
    # One keeps its slot in the groups when it comes back, the other joins anew each time.
    every = [settings_for(broker.bootstrap, prefix, "slot-0"), settings]
    async with supervised(every, folder) as workers:
        await reader.start()
        fire = Fire(broker, workers, reader, chance)
        fire.tell(f"seed {seed}: {len(plan)} disturbances, {len(load)} events of {traces} traces")
        try:
            async with flowing(feed):
                await fire.recovered()
                for one in plan:
                    await fire.disturb(one)
                await fire.recovered()
            await feed.rest()
            ledger = await must_equal(settings, [*medians(), *load])
        finally:
            await reader.stop()
        restarts = sum(one.asked_for_restart for one in workers)
        fire.tell(
            f"done: {dict(fire.done)}; workers ended themselves (exit 70) {restarts} times; "
            f"{feed.published} events, {feed.repeated} repeated, publisher opened anew after "
            f"{dict(feed.failures)}; {len(ledger.entries)} entries each once, digests as foreseen"
        )
        assert fire.done["kill"] >= kills
        assert fire.done["freeze"] == freezes


def test_under_fire(own_broker: Running, prefix: str, tmp_path: Path) -> None:
    """Kills at random and chosen moments, a zombie, a broker's death: every sum is exact."""
    assert own_broker.process is not None
    asyncio.run(
        campaign(
            own_broker.process,
            prefix,
            tmp_path,
            seed=SEED,
            kills=5,
            freezes=1,
            broker_deaths=1,
            traces=1_500,
        )
    )


@pytest.mark.skipif(not WHOLE, reason="minutes long: `make fire`")
def test_under_heavy_fire(own_broker: Running, prefix: str, tmp_path: Path) -> None:
    """The same with every moment of every stage, several zombies, and each death of a broker."""
    assert own_broker.process is not None
    asyncio.run(
        campaign(
            own_broker.process,
            prefix,
            tmp_path,
            seed=SEED,
            kills=30,
            freezes=4,
            broker_deaths=4,
            traces=8_000,
        )
    )
