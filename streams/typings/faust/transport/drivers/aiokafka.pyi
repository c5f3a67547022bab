from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import ConsumerRecord
from faust import App

class AIOKafkaConsumerThread:
    app: App
    consumer: Consumer
    def __init__(self, consumer: Consumer, *, loop: Any, beacon: Any) -> None: ...
    def _create_worker_consumer(self, transport: Transport) -> AIOKafkaConsumer: ...
    async def _fetch_records(
        self, consumer: AIOKafkaConsumer, *places: Any, **bounds: Any
    ) -> Mapping[TopicPartition, Sequence[ConsumerRecord]]: ...

class Consumer:
    in_transaction: bool
    loop: Any
    beacon: Any
    def _new_consumer_thread(self) -> AIOKafkaConsumerThread: ...

class Transport:
    Consumer: type[Consumer]
    def __init__(self, url: Any, app: App) -> None: ...
