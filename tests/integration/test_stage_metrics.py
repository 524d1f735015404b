"""Every process shows metrics and a sign of life, whichever stages it runs."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from functools import partial

import aiohttp
import pytest
from broker import free_ports
from configurations import checked

from collector.backoff import Backoff
from collector.config.configured import Config
from collector.service import app
from collector.service.app import running


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
