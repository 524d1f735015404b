"""Every process shows metrics and a sign of life, whichever stages it runs."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from broker import free_ports
from configurations import checked

from collector.backoff import Backoff
from collector.config.configured import Config
from collector.logs.log import Log, Record
from collector.logs.whole_log import read_partitions
from collector.records.json import turn_to_json
from collector.service import app
from collector.service.app import running
from evaluators.cases import Turn


def _config(port: int) -> Config:
    return checked(
        {"same": {"kind": "exact_match"}},
        log={"kind": "memory"},
        receive={"otlp_http": {"port": 0}},
        export={"prometheus": {"port": port}},
    )


async def _get(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


@pytest.mark.parametrize("stages", [{"receive"}, {"assemble"}, {"evaluate"}, {"export"}])
async def test_each_stage_by_itself(stages: set[str]):
    (port,) = free_ports(1)
    async with running(_config(port), stages):
        assert await _get(port, "/healthz") == (200, "ok\n")
        status, text = await _get(port, "/metrics")
        assert status == 200
        assert "evalstream_open_conversations" in text


async def test_a_second_process_on_the_same_port_serves_once_the_first_has_ended(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """It said once that the port was in use, and never tried again."""
    (port,) = free_ports(1)
    monkeypatch.setattr(app, "Backoff", partial(Backoff, cap=0.01))
    caplog.set_level(logging.INFO)
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        await first.enter_async_context(running(_config(port), {"assemble"}))
        await second.enter_async_context(running(_config(port), {"evaluate"}))
        assert (await _get(port, "/healthz"))[0] == 200
        await first.aclose()
        async with asyncio.timeout(10):
            while "succeeded" not in caplog.text:
                await asyncio.sleep(0.01)
        assert (await _get(port, "/readyz"))[0] == 200
    refused, taken = [line for line in caplog.messages if "serving /metrics, /healthz and /readyz" in line]
    assert "write another export.prometheus.port" in refused
    assert "succeeded after" in taken
    with pytest.raises(aiohttp.ClientConnectorError):
        await _get(port, "/healthz")


async def test_what_waits_for_the_first_scrape_delays_no_stop_and_counts_after_it(tmp_path: Path) -> None:
    """Nobody reads /metrics of the first process. Its place in the log stays, as after a crash."""
    (port,) = free_ports(1)
    config = checked(
        {"same": {"kind": "exact_match"}},
        log={"path": str(tmp_path / "evalstream.db")},
        export={"prometheus": {"port": port}},
    )
    said = {"input": "?", "actual_output": "!", "expected_output": "!"}
    turns = [Turn(turn_id=str(number), conversation_id=str(number), **said) for number in range(3)]
    async with running(config, {"evaluate", "export"}) as first:
        await first.logs.turns.append([Record(turn.turn_id.encode(), turn_to_json(turn)) for turn in turns])
        async with asyncio.timeout(20):
            while await _evaluated(first.logs.evaluations) < len(turns):
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)  # they come to the exporter
        stopping = time.monotonic()
    assert time.monotonic() - stopping < 5
    async with running(config, {"export"}):
        await _get(port, "/metrics")
        async with asyncio.timeout(20):
            while _scores(await _get(port, "/metrics")) != [3.0]:
                await asyncio.sleep(0.05)


async def _evaluated(log: Log) -> int:
    return sum([not each.headers async for batch in read_partitions(log) for each in batch])


def _scores(answer: tuple[int, str]) -> list[float]:
    lines = answer[1].splitlines()
    return [float(line.split()[-1]) for line in lines if line.startswith("gen_ai_evaluation_score_count{")]
