"""What is exported into the pipeline that feeds this service comes back, and is not judged: over processes and restarts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
from broker import free_ports
from made_up import Trace, chat

from collector.config.configured import Config
from collector.config.loading import check
from collector.service.app import Running, running
from collector.telemetry.series import RECEIVE_ITEMS

JUDGING = {"receive", "assemble", "evaluate"}


def configured(folder: Path, port: int, metrics: int) -> Config:
    values: dict[str, Any] = {
        "log": {"kind": "sqlite", "path": str(folder / "evalstream.db")},
        "receive": {"otlp_http": {"port": port}},
        "assemble": {"idle_timeout": "200ms"},
        "evaluators": {"five": {"kind": "contains", "search_text": "five"}},
        "monitors": {"all": {"evaluators": ["five"]}},
        "export": {"otlp": {"endpoint": f"http://127.0.0.1:{port}"}, "prometheus": {"port": metrics}},
    }
    return check(values, "test")


async def send(port: int, number: int) -> None:
    trace = Trace(f"{number:032x}", start=time.time_ns()).span(number, "chat", chat("How much?", "five"), at=0)
    headers = {"Content-Type": "application/x-protobuf"}
    url, body = f"http://127.0.0.1:{port}/v1/traces", trace.spans.SerializeToString()
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
        assert response.status == 200


async def until_back(service: Running, number: int) -> None:
    """Wait until so many spans and events have come back."""
    async with asyncio.timeout(60):
        for signal in ("traces", "logs"):
            counter = service.telemetry.counter(RECEIVE_ITEMS, "otlp_http", signal, "ignored")
            while counter._value.get() < number:
                await asyncio.sleep(0.05)


async def test_over_processes_and_restarts(tmp_path: Path) -> None:
    port, metrics = free_ports(2)
    config = configured(tmp_path, port, metrics)
    for life in (1, 2):
        async with running(config, {"export"}), running(config, JUDGING) as judging:
            await send(port, life)
            await until_back(judging, 1)
            assert sum([await judging.logs.turns.end_offset(0)]) == life
            assert await written(judging) == life


async def written(service: Running) -> int:
    return sum([sum(not record.headers for record in batch) async for batch in service.logs.evaluations.read(0, 0)])
