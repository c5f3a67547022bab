"""The logs `policy` and `decisions` as a policy reads them: without a group, in memory, followed.

What is in force follows from `policy` alone, from its beginning; of `decisions` a day is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from trustfold_projections.laws.policy import Policy
from trustfold_projections.laws.policy.hindsight import ASKED_AGAIN_WITHIN
from trustfold_schemas.instants import HOUR
from trustfold_streams.clock import Clock
from trustfold_streams.kafka.clients import Watermarks, new_consumer, record_of
from trustfold_streams.kafka.decisions import TOPIC, Asked, decision_from
from trustfold_streams.kafka.errors import BrokerSlowError
from trustfold_streams.kafka.policy_log import PolicyLogOnKafka
from trustfold_streams.kafka.records import Letter, partition_of
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record

log = logging.getLogger("trustfold.kafka.policy")

WAIT_SECONDS = 30.0
AGAIN_SECONDS = 0.5
POLL_MS = 100
MARGIN = HOUR
"""Clocks of deciders may differ by so much."""


class PolicyTail:
    """Follows both logs from one consumer."""

    def __init__(self, settings: KafkaSettings, clock: Clock) -> None:
        self.asked = Asked()
        self.fresh_as_of = 0
        """The moment as of which everything in both logs is in memory."""
        self._settings = settings
        self._clock = clock
        self._log = PolicyLogOnKafka(settings)
        self._policy = TopicPartition(settings.topic("policy"), 0)
        self._decisions = [
            TopicPartition(settings.topic(TOPIC), p) for p in range(settings.partitions)
        ]
        name = f"{settings.app_id}-policy"
        self._watermarks = Watermarks(settings, f"{name}-ends")
        self._consumer: AIOKafkaConsumer | None = None
        self._running: asyncio.Task[None] | None = None
        self._read = asyncio.Condition()
        self._name = name

    @property
    def policy(self) -> Policy:
        """What is in force, as far as it was read."""
        return self._log.policy

    def refusal(self, offset: int) -> Letter | None:
        """Why the record of `policy` at an offset was refused, if it was read and was."""
        return self._log.refusal(offset)

    async def start(self) -> None:
        """Read what is there, then follow in the background."""
        consumer = new_consumer(self._settings, self._name)
        self._consumer = consumer
        await self._watermarks.start()
        await consumer.start()
        consumer.assign([self._policy, *self._decisions])
        consumer.seek(self._policy, 0)
        since = (self._clock.now() - ASKED_AGAIN_WITHIN - MARGIN) // 1_000
        found = await consumer.offsets_for_times(dict.fromkeys(self._decisions, since))
        ends = await self._watermarks.of(self._decisions)
        for place in self._decisions:
            known = found.get(place)
            consumer.seek(place, ends[place] if known is None else known.offset)
        self._running = asyncio.create_task(self._follow(consumer), name=self._name)
        await self.caught_up()

    async def stop(self) -> None:
        """Stop following."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self._watermarks.stop()
        if self._consumer is not None:
            await self._consumer.stop()

    async def caught_up(self, trace_id: str | None = None) -> None:
        """Wait until `policy`, and the decisions of a trace, are read as far as they are now.

        Raises BrokerSlowError.
        """
        moment = self._clock.now()
        places = [self._policy]
        if trace_id is None:
            places += self._decisions
        else:
            places.append(self._decisions[partition_of(trace_id, self._settings.partitions)])
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                ends = await self._watermarks.of(places)
                async with self._read:
                    while await self._behind(ends):
                        await self._read.wait()
            if trace_id is None:
                # Of empty logs this is known before anything was ever read.
                self.fresh_as_of = max(self.fresh_as_of, moment)
        except TimeoutError:
            raise BrokerSlowError(
                f"the logs policy and decisions could not be read to their ends within "
                f"{WAIT_SECONDS:g} s"
            ) from None

    async def _behind(self, ends: Mapping[TopicPartition, int]) -> bool:
        assert self._consumer is not None
        for place, end in ends.items():
            if await self._consumer.position(place) < end:
                return True
        return False

    async def _follow(self, consumer: AIOKafkaConsumer) -> None:
        places = [self._policy, *self._decisions]
        while True:
            try:
                moment = self._clock.now()
                ends = await self._watermarks.of(places)
                got = await consumer.getmany(timeout_ms=POLL_MS)
                for place, records in got.items():
                    for record in map(record_of, records):
                        self._take(place, record)
                self.asked.forget(moment - MARGIN)
                if not await self._behind(ends):
                    self.fresh_as_of = moment
                async with self._read:
                    self._read.notify_all()
            except KafkaError as error:
                # Nothing is lost by trying again; until it succeeds the tail grows stale.
                log.warning("the policy cannot be followed: %s %s", type(error).__name__, error)
                await asyncio.sleep(AGAIN_SECONDS)

    def _take(self, place: TopicPartition, record: Record) -> None:
        if place == self._policy:
            self._log.take(record)
            return
        decision = decision_from(record)
        if decision is None:
            where = f"{record.topic}/{record.partition}/{record.offset}"
            log.error("%s is no decision, and answers nothing", where)
        else:
            self.asked.take(decision)
