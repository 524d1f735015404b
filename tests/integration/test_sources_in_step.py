"""The traces and the logs of a source, of which brokers refuse one for a time: each turn is made once, and whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from broker import Broker, free_ports
from broker_security import grant, revoke
from folds import following
from kafka import KafkaAdminClient
from kafka_logs import fresh, produce, settings_for
from log_doubles import stored
from otlp_samples import logs_request, trace_id, traces_request
from payloads import exchanges, requests
from running_service import ledger
from test_kafka_security import user_of
from test_source_lag import make

from collector.config.loading import check
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.kafka import KafkaSettings, KafkaSource
from collector.logs.memory import MemoryLog
from collector.receive.kafka import KafkaReceiver, SourceTopic
from collector.records.json import turn_from_json
from collector.service.app import Running, running
from collector.service.receive import IN_STEP
from collector.telemetry.registry import Telemetry

pytestmark = pytest.mark.kafka
BEFORE, MEANWHILE = "otel-openai-v2-events", "otel-genai-openai-event"
"""Applications whose messages are in log records."""
IDLE = 2.0
"""Seconds after which a trace is assembled with what there is of it."""


@pytest.fixture(autouse=True)
def _metadata_is_young(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    options = KafkaSettings.client_options
    monkeypatch.setattr(KafkaSettings, "client_options", lambda self: {**options(self), "metadata_max_age_ms": 500})


class Source:
    """A topic with spans and one with log records, and a user who may read both."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.user, self.group = broker, user_of(broker, "x"), fresh("step")
        self.topics = {"traces": f"{self.group}.otlp_spans", "logs": f"{self.group}.otlp_logs"}
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1} for topic in self.topics.values()})
        admin.close()
        grant(broker.bootstrap, self.user, "GROUP", self.group, "READ")

    async def change(self, how: Callable[..., None], kind: str) -> None:
        await asyncio.to_thread(how, self.broker.bootstrap, self.user, "TOPIC", self.topics[kind], "READ")

    async def send(self, application: str, *kinds: str) -> None:
        """Every request of an application, with those of one kind before those of the other."""
        for kind in kinds:
            bodies = [{"value": body} for name, body in requests(application) if kind in name]
            await produce(self.broker, self.topics[kind], bodies)

    def configuration(self, folder: Path, port: int) -> dict[str, Any]:
        assert self.broker.certificates is not None
        security = {
            "protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": self.user, "password": "x",
            "ca": str(self.broker.certificates.ca),
        }  # fmt: skip
        topics = {kind: [topic] for kind, topic in self.topics.items()}
        source = {"bootstrap_servers": [self.broker.secure], "group": self.group, "security": security, **topics}
        return {
            "log": {"kind": "sqlite", "path": str(folder / "logs.db")},
            "receive": {"kafka": [source]},
            "assemble": {"idle_timeout": f"{IDLE}s", "allowed_lateness": "1s"},
            "evaluators": {"brief": {"kind": "length", "maximum": 1000}},
            "monitors": {"all": {"evaluators": ["brief"]}},
            "export": {"prometheus": {"port": port}},
        }


async def problems(port: int) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/readyz") as response:
        return await response.text()


async def until_judged(service: Running, count: int) -> None:
    async with asyncio.timeout(60):
        while len(await ledger(service)) < count:
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(("refused", "other"), [("logs", "traces"), ("traces", "logs")])
async def test_what_waits_for_a_topic_that_is_refused_makes_each_turn_once(
    secured_broker: Broker, tmp_path: Path, refused: str, other: str
) -> None:
    """27 traces made 54 turns: without their messages they were skipped as incomplete, and scored when those came."""
    source, [port] = Source(secured_broker), free_ports(1)
    await source.change(grant, "traces")
    await source.change(grant, "logs")
    async with running(check(source.configuration(tmp_path, port), "test")) as service:
        await source.send(BEFORE, "traces", "logs")
        await until_judged(service, len(exchanges((BEFORE,))))
        await source.change(revoke, refused)
        async with asyncio.timeout(60):
            while f"receive {source.topics[refused]}: " not in (said := await problems(port)):
                await asyncio.sleep(0.1)
        await source.send(MEANWHILE, other, refused)
        await asyncio.sleep(2 * IDLE)
        await source.change(grant, refused)
        sent = exchanges((BEFORE, MEANWHILE))
        await until_judged(service, len(sent))
        await asyncio.sleep(2 * IDLE)
        turns = [turn_from_json(record.value) for record in await stored(service.logs.turns) if not record.headers]
        assert [turn.incomplete for turn in turns] == [None] * len(sent)
        assert {turn.conversation_id for turn in turns} == {exchange["conversation_id"] for exchange in sent}
        assert len(await ledger(service)) == len(sent)
        assert f"; records of {source.topics[other]} wait for it" in said
        assert "wait for it" not in await problems(port)


RECORDS, AT_ONCE = 600, 20
"""Of each topic, one a second; and how many of each of its two partitions are read at once."""
LATER = 4.0
"""Seconds after which the second topic is read: the first one could be read by then."""


async def test_what_was_written_long_ago_is_read_in_the_order_of_its_times(kafka_broker: Any) -> None:
    """After an outage of evalstream both topics are full, and neither waits for all of the other."""
    topics = {"traces": fresh("spans"), "logs": fresh("logs")}
    began = round(time.time()) - 10 * RECORDS
    make(kafka_broker, list(topics.values()))
    for kind, request in (("traces", traces_request), ("logs", logs_request)):
        records = [
            {"value": request(trace_id(n)).SerializeToString(), "partition": n % 2, "timestamp_ms": 1000 * (began + n)}
            for n in range(1, RECORDS + 1)
        ]
        await produce(kafka_broker, topics[kind], records)
    settings = settings_for(kafka_broker, max_queued=(AT_ONCE, 1 << 20))
    sources = {
        kind: await KafkaSource.open(settings, [topic], timing=ConsumerTiming(commit_interval=0.02))
        for kind, topic in topics.items()
    }
    spans, group = MemoryLog("spans", partitions=1), fresh("g")
    receivers = {
        kind: KafkaReceiver(SourceTopic(topics[kind], kind, await_older=sources[other].await_older), spans, Telemetry())
        for kind, other in IN_STEP.items()
    }
    async with AsyncExitStack() as stack:
        for kind, receiver in receivers.items():
            await stack.enter_async_context(following(sources[kind], f"{group}.{kind}", receiver.open_fold))
            await asyncio.sleep(LATER)
        async with asyncio.timeout(60):
            while len(read := await stored(spans)) < 2 * RECORDS:
                await asyncio.sleep(0.1)
    lead, most = 0, 0
    for record in read:
        lead += 1 if dict(record.headers)["signal"] == b"traces" else -1
        most = max(most, abs(lead))
    assert most <= 6 * AT_ONCE, most  # two deliveries of two partitions, and what a second brings
