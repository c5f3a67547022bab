"""The log `policy` on Kafka, judged as the workers judge it, and folded to what is in force."""

from __future__ import annotations

from trustfold_projections.laws.policy import Policy, PolicyLog
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.facts import Fact
from trustfold_streams.kafka.apart import ApartLog
from trustfold_streams.kafka.records import document_from
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.stage import Record


class PolicyLogOnKafka:
    """The log `policy`, judged as the workers judge it, and folded."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._apart = ApartLog(settings, "policy")
        self._log = PolicyLog()
        self._recorded = 0

    @property
    def policy(self) -> Policy:
        """What is in force."""
        return self._log.policy

    def take(self, record: Record) -> None:
        """Take the next record in; what is refused changes nothing."""
        self._recorded = max(self._recorded, record.timestamp * 1_000)
        if self._apart.take(record) is not None:
            return
        document = document_from(record.value, record.headers)
        stamp = self._settings.stamp("policy")
        event = decode_event(document)
        self._log.take(Fact(record.offset, self._recorded, stamp, event, document))
