"""What compose.yaml puts together, without containers: its Collector, its evalstream, a real Kafka, a stand-in judge."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from broker import Broker, free_ports
from collector_process import post, running_collector
from composed import with_addresses
from kafka import KafkaAdminClient
from payloads import exchanges, requests
from prometheus_client.parser import text_string_to_metric_families
from stand_in_judge import serve_judge
from tools import DEPLOY

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DIALECTS = ("otel-genai-openai-span", "openinference-langchain")


def _create_topics(bootstrap: str) -> None:
    """As the service `topics` does."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    sizes = {"num_partitions": 8, "replication_factor": 1}
    admin.create_topics({"otlp_spans": sizes, "otlp_logs": sizes})
    admin.close()


TOKEN = "not-a-secret-but-long-enough"


@asynccontextmanager
async def _service(folder: Path, path: Path, judge: str) -> AsyncIterator[None]:
    env = {**os.environ, "OPENAI_API_KEY": "not-a-key", "OPENAI_BASE_URL": judge, "PAGE_TOKEN": TOKEN}
    with (folder / "service.log").open("wb") as log:
        command = (sys.executable, "-m", "collector.cli", "run", "-c", str(path))
        process = await asyncio.create_subprocess_exec(*command, env=env, cwd=folder, stdout=log, stderr=log)
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0, (folder / "service.log").read_text()[-3000:]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _metrics(port: int) -> dict[tuple[str, str], float]:
    """Value of each sample, summed over all but the labels `outcome` and `result`."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        text = await answer.text()
    found: dict[tuple[str, str], float] = {}
    for sample in (each for family in text_string_to_metric_families(text) for each in family.samples):
        key = sample.name, sample.labels.get("outcome", sample.labels.get("exporter", ""))
        found[key] = found.get(key, 0.0) + sample.value
    return found


async def _judged(port: int, number: int) -> dict[tuple[str, str], float]:
    """The metrics once so many evaluations have gone out by OTLP."""
    async with asyncio.timeout(90):
        while True:
            await asyncio.sleep(0.5)
            try:
                metrics = await _metrics(port)
            except aiohttp.ClientConnectionError:
                continue
            if metrics.get(("evalstream_export_evaluations_total", "otlp"), 0) >= number:
                return metrics


async def _shown(port: int, token: str | None) -> int | None:
    """How many evaluations the page lists; None where it wants a token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"http://127.0.0.1:{port}/api/evaluations?range=7d&limit=500"
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as answer:
        return None if answer.status == 401 else len((await answer.json())["rows"])


@pytest.mark.long  # each part is tested by itself: the Collector's topics, the whole way from topics, the files of compose
async def test_scores_of_what_applications_send(own_broker: Broker, tmp_path: Path):
    metrics, scores, page = free_ports(3)
    expected = exchanges(DIALECTS)
    _create_topics(own_broker.bootstrap)
    addresses = {
        "kafka:9092": own_broker.bootstrap,
        "9464": str(metrics),
        "8321": str(page),
        "collector:4319": f"127.0.0.1:{scores}",
    }
    path = with_addresses(DEPLOY / "compose" / "evalstream.yaml", tmp_path / "evalstream.yaml", addresses)
    settings = {"exporters::kafka::brokers": f"[{own_broker.bootstrap}]"}
    with running_collector(tmp_path, settings, scores=scores) as address:
        for dialect in DIALECTS:
            for name, body in requests(dialect):
                post(address, "logs" if "logs" in name else "traces", body)
        async with (
            serve_judge() as judge,
            _service(tmp_path, path, judge),
        ):
            found = await _judged(metrics, len(expected))
            assert await _shown(page, None) is None, "nobody without the token"
            async with asyncio.timeout(60):
                while await _shown(page, TOKEN) != len(expected):
                    await asyncio.sleep(0.2)
    answered = sum(not each["failed"] for each in expected)
    assert found["evalstream_evaluations_total", "scored"] == answered
    assert sum(value for (name, _), value in found.items() if name == "evalstream_evaluations_total") == len(expected)
    assert found["evalstream_estimator_w_total", ""] == answered
