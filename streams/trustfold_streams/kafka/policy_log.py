"""The log `policy` on Kafka, judged as the workers judge it, and folded to what is in force."""

from __future__ import annotations

from collections import OrderedDict

from trustfold_projections.laws.policy import Policy, PolicyLog
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.facts import Fact
from trustfold_streams.kafka.apart import ApartLog
from trustfold_streams.kafka.records import Letter, document_from
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record

REFUSED_MAX = 1_000
"""Refusals that are remembered, for those who have just published what was refused."""


class PolicyLogOnKafka:
    """The log `policy`, judged as the workers judge it, and folded."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._apart = ApartLog(settings, "policy")
        self._log = PolicyLog()
        self._recorded = 0
        self._refused: OrderedDict[int, Letter] = OrderedDict()

    @property
    def policy(self) -> Policy:
        """What is in force."""
        return self._log.policy

    def refusal(self, offset: int) -> Letter | None:
        """Why the record at an offset was refused, if it was, and is one of the latest."""
        return self._refused.get(offset)

    def take(self, record: Record) -> Fact | None:
        """Take the next record in, as the fact that it is; None if it is refused."""
        self._recorded = max(self._recorded, record.timestamp * 1_000)
        letter = self._apart.take(record)
        if letter is not None:
            self._refused[record.offset] = letter
            while len(self._refused) > REFUSED_MAX:
                self._refused.popitem(last=False)
            return None
        document = document_from(record.value, record.headers)
        stamp = self._settings.stamp("policy")
        event = decode_event(document)
        fact = Fact(record.offset, self._recorded, stamp, event, document)
        self._log.take(fact)
        return fact
