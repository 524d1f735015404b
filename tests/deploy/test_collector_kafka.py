"""OTLP through a real Collector and a real Kafka: what the kafka exporter writes, the receiver reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from collector_process import post, running_collector
from kafka import KafkaConsumer
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from payloads import requests
from topics import Topics

from collector.logs.kafka import KafkaSettings, KafkaSource
from collector.logs.memory import MemoryLog
from collector.logs.whole_log import read_partitions
from collector.receive.kafka import KafkaReceiver, SourceTopic
from collector.records.shared_records import divide_records
from collector.telemetry.registry import Telemetry

pytestmark = pytest.mark.kafka

DIALECTS = ("otel-genai-openai-span", "otel-openai-v2-events", "openinference-langchain")


def _send_all(address: str) -> tuple[set[bytes], int]:
    """Send the captured payloads; gives the ids of their spans, and how many log records of traces there are."""
    spans: set[bytes] = set()
    records = 0
    for dialect in DIALECTS:
        for name, body in requests(dialect):
            if "logs" in name:
                post(address, "logs", body)
                records += sum(bool(each.trace_id) for each in _records(body))
            else:
                post(address, "traces", body)
                spans |= {each.span_id for each in _spans(body)}
    return spans, records


def _spans(body: bytes) -> list[object]:
    request = ExportTraceServiceRequest.FromString(body)
    return [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]


def _records(body: bytes) -> list[object]:
    request = ExportLogsServiceRequest.FromString(body)
    return [each for resource in request.resource_logs for scope in resource.scope_logs for each in scope.log_records]


@asynccontextmanager
async def _received(topics: Topics) -> AsyncIterator[MemoryLog]:
    """A spans log that the receiver fills from the topics."""
    spans, telemetry = MemoryLog("spans", 2), Telemetry()
    tasks: list[asyncio.Task[None]] = []
    settings = KafkaSettings(bootstrap_servers=[topics.bootstrap])
    for signal, topic in (("traces", "otlp_spans"), ("logs", "otlp_logs")):
        source = await KafkaSource.open(settings, [f"{topics.name}.{topic}"], start="earliest")
        receiver = KafkaReceiver(SourceTopic(topic, signal), spans, telemetry)
        tasks.append(asyncio.create_task(source.follow(f"{topics.name}.{signal}", receiver.open_fold)))
    try:
        yield spans
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _held(log: MemoryLog) -> tuple[set[bytes], int]:
    """Ids of spans and number of log records that a spans log holds."""
    spans: set[bytes] = set()
    records = 0
    async for batch in read_partitions(log):
        for record in divide_records(batch):
            if dict(record.headers).get("signal") == b"logs":
                records += len(_records(record.value))
            else:
                spans |= {span.span_id for span in _spans(record.value)}
    return spans, records


def _messages(topics: Topics) -> list[tuple[bytes | None, bytes]]:
    consumer = KafkaConsumer(
        f"{topics.name}.otlp_spans",
        bootstrap_servers=topics.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=2000,
    )
    try:
        return [(each.key, each.value) for each in consumer]
    finally:
        consumer.close()


async def test_what_the_collector_writes_is_read(kafka_broker, tmp_path: Path):
    topics = Topics(kafka_broker.bootstrap)
    settings = {
        "exporters::kafka::brokers": f"[{topics.bootstrap}]",
        "exporters::kafka::traces::topic": f"{topics.name}.otlp_spans",
        "exporters::kafka::logs::topic": f"{topics.name}.otlp_logs",
    }
    with running_collector(tmp_path, settings) as address:
        sent = await asyncio.to_thread(_send_all, address)
        assert len(sent[0]) > 10
        assert sent[1] > 5
        async with _received(topics) as spans, asyncio.timeout(40):
            while await _held(spans) != sent:
                await asyncio.sleep(0.1)
    for key, value in await asyncio.to_thread(_messages, topics):
        (trace,) = {each.trace_id for each in _spans(value)}
        assert key == trace.hex().encode(), "partition_traces_by_id: one trace in a message, its id the key"
