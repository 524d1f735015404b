"""Every process shows metrics and a sign of life, whichever stages it runs."""

from __future__ import annotations

import logging

import aiohttp
import pytest
from broker import free_ports
from configurations import checked

from collector.config.configured import Config
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


async def test_a_second_process_on_the_same_port_runs_and_says_what_it_does_not_serve(caplog: pytest.LogCaptureFixture):
    (port,) = free_ports(1)
    with caplog.at_level(logging.WARNING):
        async with running(_config(port), {"assemble"}), running(_config(port), {"evaluate"}):
            assert (await _get(port, "/healthz"))[0] == 200
    assert "this process serves no /metrics, /healthz and /readyz" in caplog.text
    assert "write another export.prometheus.port" in caplog.text
