"""Topics whose number of partitions has changed: used only if that is meant, and then known."""

from __future__ import annotations

import pytest

from collector.config.settings import KafkaLogSettings
from collector.errors import ConfigError
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.logs.memory import MemoryLog
from collector.service.app import require_partitions


async def start(log: MemoryLog, partitions: int, before: int | None = None) -> None:
    settings = KafkaLogSettings(bootstrap_servers=["b:9092"], partitions=partitions, repartitioned_from=before)
    await require_partitions(await GeneratedStepsStore.open(log), settings)


async def test_a_change_must_be_meant_and_is_then_known() -> None:
    log = MemoryLog("definitions", partitions=1)
    await start(log, 2)
    await start(log, 2)
    for before in (None, 3, 4):
        with pytest.raises(ConfigError, match=r"had 2 partitions and have 4.* set repartitioned_from: 2$"):
            await start(log, 4, before)
    await start(log, 2)
    await start(log, 4, 2)
    await start(log, 4, 2)
    await start(log, 4)
    with pytest.raises(ConfigError, match="had 4 partitions and have 2"):
        await start(log, 2)
    await start(log, 16, 4)
    await start(log, 16)
