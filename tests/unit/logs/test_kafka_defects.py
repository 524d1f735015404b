"""The code of kafka-python that workarounds are about: where a release changes it, look whether one can go.

Defects that need no broker are shown in `test_kafka_connections.py`, what our log does about them in
`tests/integration/test_kafka_traps.py`.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.consumer.group import KafkaConsumer
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.base import BaseCoordinator
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.coordinator.heartbeat import Heartbeat
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.producer.kafka import KafkaProducer
from kafka.producer.sender import Sender
from kafka.producer.transaction_manager import TransactionManager

from collector.logs.kafka import workarounds

KNOWN: dict[str, tuple[list[Any], str]] = {
    "client_without_topic_creation": ([KafkaNetClient, ClusterMetadata], "c24b9f4bf1b361ff"),
    "close_failed_connections": (
        [create_connection, KafkaNetSocket, KafkaConnectionManager._build_transport],
        "66156710cf57c26d",
    ),
    "keep_refreshing_metadata": ([ClusterMetadata._refresh_loop, ClusterMetadata.refresh_metadata], "d110b892c6ed9e14"),
    "replace_decoding": ([Fetcher.PartitionRecords], "cf2214c6a21884be"),
    "report_out_of_range": ([SubscriptionState.request_offset_reset], "528607d1e010b989"),
    "keep_joining": ([BaseCoordinator.ensure_active_group], "4d30f3e576b504d4"),
    "wait_in_poll": ([ConsumerCoordinator.time_to_next_poll], "e13264b23a42b5d1"),
    "poll_in_one_thread": ([KafkaConsumer.poll], "541641a7e53e6fd9"),
    "waits_for_group": ([BaseCoordinator.need_rejoin], "ae48ec8f8589812f"),
    "ReportedHeartbeat": ([Heartbeat], "489f214d304128f1"),
    "give_back_parked_records": ([Fetcher.fetched_records], "bf91319f1a2fda46"),
    "is_broken": ([TransactionManager], "061b9eecbbd54d4f"),
    "woken_once": ([KafkaProducer.send], "70c63bac7acf5e37"),
    "abandon": ([KafkaProducer.close, Sender.force_close], "5356c10bec0e6c61"),
}
"""By workaround: what it works around, and the hash of that code in the pinned release."""


def code_of(parts: list[Any]) -> str:
    return hashlib.sha256("".join(inspect.getsource(part) for part in parts).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", KNOWN)
def test_the_library_still_needs_the_workaround(name: str) -> None:
    assert hasattr(workarounds, name)
    parts, known = KNOWN[name]
    assert code_of(parts) == known, f"kafka-python has changed this: look whether workarounds.{name} can go"


def test_methods_that_the_library_lacks() -> None:
    """Each would replace a workaround: `rejoin`, `topic_id`, `position_after_reset`."""
    lacking: list[Callable[..., Any] | None] = [
        getattr(KafkaConsumer, name, None) for name in ("enforce_rebalance", "topic_id", "current_position")
    ]
    assert lacking == [None] * 3
