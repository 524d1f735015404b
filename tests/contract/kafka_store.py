"""The Kafka log under contract: a topic of its own for each test."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping

from kafka import KafkaAdminClient
from log_stores import TIMING

from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.kafka import KafkaLog, KafkaSettings
from collector.logs.kafka.owned_partitions import from_kafka
from collector.logs.log import Committed, Log


class KafkaStore:
    """`patience` is longer than the other logs': a broker needs some time for anything."""

    def __init__(self, bootstrap: str) -> None:
        self.settings = KafkaSettings(bootstrap_servers=[bootstrap], max_record_bytes=1 << 20)
        self.topic = f"spans-{uuid.uuid4().hex[:12]}"

    async def open(self, partitions: int = 2, timing: ConsumerTiming = TIMING) -> Log:
        from dataclasses import replace

        self._arguments = partitions, timing
        logs = await KafkaLog.open(
            self.settings, {"spans": self.topic}, partitions, timing=replace(timing, patience=30.0)
        )
        self._log = logs["spans"]
        return self._log

    async def restart(self) -> Log:
        await self._log.close()
        return await self.open(*self._arguments)

    async def commits(self, group: str) -> Mapping[int, Committed]:
        return await asyncio.to_thread(self._commits, f"{group}")

    def _commits(self, group: str) -> Mapping[int, Committed]:
        admin = KafkaAdminClient(bootstrap_servers=self.settings.bootstrap_servers)
        try:
            offsets = admin.list_group_offsets([group])[group]
        finally:
            admin.close()
        return {where.partition: from_kafka(state) for where, state in offsets.items() if where.topic == self.topic}

    async def close(self) -> None:
        await self._log.close()
