"""From a source topic into the spans log, over real logs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from log_doubles import stored
from log_stores import TIMING
from otlp_samples import trace_id, traces_request

from collector.backoff import Backoff
from collector.logs.log import Record
from collector.logs.sqlite import SqliteLog
from collector.receive.kafka import KafkaReceiver, SourceTopic
from collector.telemetry.registry import Telemetry


async def test_messages_without_keys_end_up_by_trace(tmp_path: Path):
    logs = await SqliteLog.open(tmp_path / "logs.db", ["otlp_spans", "spans"], 3, timing=TIMING)
    source, spans = logs["otlp_spans"], logs["spans"]
    message = traces_request(*map(trace_id, (1, 2, 1))).SerializeToString()
    await source.append([Record(None, message), Record(None, b"\xff"), Record(None, b""), Record(None, message)])
    receiver = KafkaReceiver(SourceTopic("otlp_spans", "traces"), spans, Telemetry(), backoff=Backoff())
    task = asyncio.create_task(source.follow("evalstream", receiver.open_fold))
    async with asyncio.timeout(60):
        while len(await stored(spans)) < 4:
            await asyncio.sleep(0.01)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    records = await stored(spans)
    assert len(records) == 4
    partitions = {
        key: {each.partition for each in records if each.key == key} for key in {each.key for each in records}
    }
    assert set(partitions) == {trace_id(1).hex().encode(), trace_id(2).hex().encode()}
    assert all(len(each) == 1 for each in partitions.values())
    for log in logs.values():
        await log.close()
