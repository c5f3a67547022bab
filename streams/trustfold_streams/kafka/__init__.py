"""What talks to Kafka: settings, topics, the publisher, the stages and the table reader.

Only `admin` and what moves records import aiokafka, and only when they run: it comes with the
extra `streams`, and the command line starts without it.
"""

from __future__ import annotations

from trustfold_streams.kafka.settings import KafkaSettings

__all__ = ["KafkaSettings"]
