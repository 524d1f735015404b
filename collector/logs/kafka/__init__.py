"""The log in Kafka: topics, consumer groups and rebalancing are the distributed engine. Needs `kafka-python` 3.0.12."""

from collector.logs.kafka.credentials import Credentials
from collector.logs.kafka.log import KafkaLog
from collector.logs.kafka.records import UnreadableRange
from collector.logs.kafka.settings import KafkaSettings
from collector.logs.kafka.source import KafkaSource
from collector.logs.kafka.subscription import LostRecords

__all__ = ["Credentials", "KafkaLog", "KafkaSettings", "KafkaSource", "LostRecords", "UnreadableRange"]
