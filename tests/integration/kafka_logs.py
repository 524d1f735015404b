"""Kafka logs for tests: each with a topic of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from log_stores import TIMING

from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.kafka import KafkaLog, KafkaSettings, UnreadableRange
from collector.logs.kafka.owned_partitions import from_kafka
from collector.logs.log import Committed, Record


def fresh(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:12]}"


def settings_for(broker: Any, **changes: Any) -> KafkaSettings:
    quick = {"request_timeout": 10.0, "session_timeout": 3.0}  # a member looks for a rebalance every second
    return KafkaSettings(**{"bootstrap_servers": [broker.bootstrap], **quick, **changes})


@asynccontextmanager
async def open_log(
    broker: Any,
    *,
    topic: str | None = None,
    partitions: int = 1,
    timing: ConsumerTiming = TIMING,
    on_unreadable: Callable[[UnreadableRange], None] | None = None,
    on_stall: Callable[[], None] | None = None,
    **changes: Any,
) -> AsyncIterator[KafkaLog]:
    """A log in a new topic, or in the one that is named."""
    hooks = {"on_unreadable": on_unreadable, "on_stall": on_stall}
    logs = await KafkaLog.open(
        settings_for(broker, **changes),
        {"spans": topic or fresh("spans")},
        partitions,
        timing=timing,
        **{name: hook for name, hook in hooks.items() if hook},
    )
    try:
        yield logs["spans"]
    finally:
        await logs["spans"].close()


def numbered(start: int, end: int, partition: int = 0) -> list[Record]:
    return [Record(b"k", b"%d" % n, partition=partition) for n in range(start, end)]


async def commits(broker: Any, group: str) -> dict[int, Committed]:
    """What a group has committed, by partition."""

    def ask() -> dict[int, Committed]:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        try:
            offsets = admin.list_group_offsets([group])[group]
        finally:
            admin.close()
        return {where.partition: from_kafka(state) for where, state in offsets.items()}

    return await asyncio.to_thread(ask)


async def produce(broker: Any, topic: str, records: list[dict[str, Any]], **options: Any) -> None:
    """Write as somebody else does, one batch for all."""

    def write() -> None:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=50, batch_size=1 << 20, **options)
        try:
            for sent in [producer.send(topic, **record) for record in records]:
                sent.get(20)
        finally:
            producer.close()

    await asyncio.to_thread(write)
