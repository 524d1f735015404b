"""A judged span once more with its scores, out of a real service that is killed meanwhile: none missing."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from made_up import Trace, chat
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from otlp_destination import Destination
from service import ServiceProcess
from topics import Topics

TRACES = 30
NAMES = {"five", "short"}


def configuration(spans: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "log": {"kind": "sqlite", "path": "evalstream.db"},
        "assemble": {"idle_timeout": "300ms"},
        "evaluators": {
            "five": {"kind": "contains", "search_text": "five"},
            "short": {"kind": "length", "maximum": 5},
        },
        "monitors": {"all": {"evaluators": ["five", "short"]}},
        "export": {"spans": spans},
        **changes,
    }


async def sent_and_killed(process: ServiceProcess) -> dict[bytes, Span]:
    """Send traces and kill the service twice on the way; the spans that were sent, by trace."""
    sent: dict[bytes, Span] = {}
    await process.start()
    for number in range(1, TRACES + 1):
        trace = Trace(f"{number:032x}", start=time.time_ns()).span(number, "chat", chat("How much?", "five"), at=0)
        sent[trace.trace_id] = trace.spans.resource_spans[0].scope_spans[0].spans[0]
        assert await process.post("traces", trace.spans.SerializeToString()) == 200
        if number % (TRACES // 3) == 0 and number < TRACES:
            await asyncio.sleep(0.7)
            await process.kill()
            await process.start()
    return sent


def assert_whole(sent: dict[bytes, Span], rows: dict[bytes, Span]) -> None:
    """A store that replaces a span by its id has one row for each, with every score, and as it came otherwise."""
    assert set(rows) == set(sent)
    for trace_id, row in rows.items():
        names = {each.key for each in row.attributes}
        assert {f"gen_ai.evaluation.{name}.score.value" for name in NAMES} <= names
        plain = Span.FromString(row.SerializeToString())
        for index in reversed(range(len(plain.attributes))):
            if plain.attributes[index].key.startswith(("gen_ai.evaluation.", "evalstream.signature")):
                del plain.attributes[index]
        assert plain == sent[trace_id]


def has_all(row: Span) -> bool:
    names = {each.key for each in row.attributes}
    return all(f"gen_ai.evaluation.{name}.score.value" in names for name in NAMES)


@pytest.mark.long
async def test_over_otlp_through_kills(tmp_path: Path) -> None:
    destination = Destination()
    async with destination.serve():
        process = ServiceProcess(tmp_path, configuration({"otlp": {"endpoint": destination.endpoint}}))
        try:
            sent = await sent_and_killed(process)
            async with asyncio.timeout(60):
                while sum(map(has_all, {each.trace_id: each for each in destination.spans}.values())) < TRACES:
                    await asyncio.sleep(0.1)
            assert_whole(sent, {each.trace_id: each for each in destination.spans})
            assert await process.stop() == 0
        finally:
            await process.end()


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize("logs", ["sqlite", "kafka"])
async def test_over_a_topic_through_kills(logs: str, tmp_path: Path, kafka_broker: Any) -> None:
    topics = Topics(kafka_broker.bootstrap)
    name = f"{topics.name}.judged"
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap)
    admin.create_topics({name: {"num_partitions": 3, "replication_factor": 1}})
    admin.close()
    changes = {"log": topics.log_settings()} if logs == "kafka" else {}
    spans = {"kafka": {"bootstrap_servers": [kafka_broker.bootstrap], "topic": name}}
    process = ServiceProcess(tmp_path, configuration(spans, **changes))
    try:
        sent = await sent_and_killed(process)
        rows: dict[bytes, Span] = {}
        consumer = KafkaConsumer(
            name, bootstrap_servers=kafka_broker.bootstrap, auto_offset_reset="earliest", group_id=None
        )
        async with asyncio.timeout(90):
            while sum(map(has_all, rows.values())) < TRACES:
                batches = await asyncio.to_thread(consumer.poll, 200)
                for record in (each for batch in batches.values() for each in batch):
                    request = ExportTraceServiceRequest.FromString(record.value)
                    span = request.resource_spans[0].scope_spans[0].spans[0]
                    assert record.key == f"{span.trace_id.hex()}-{span.span_id.hex()}".encode()
                    rows[span.trace_id] = span
        consumer.close()
        assert_whole(sent, rows)
        assert await process.stop() == 0
    finally:
        await process.end()
