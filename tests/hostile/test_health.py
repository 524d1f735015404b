"""/healthz and /readyz: alive while it answers, ready from the start until it drains."""

from __future__ import annotations

import asyncio
from functools import partial

import aiohttp

from collector.export.scrape import MOST_CONNECTIONS, serve_metrics
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import REFUSED_CONNECTIONS


async def test_ready_from_the_start_until_it_drains():
    health, problems = Health(), dict[str, str]()
    async with serve_metrics(Telemetry(), host="127.0.0.1", port=0, health=health) as port:

        async def ask(path: str) -> tuple[int, list[str]]:
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
                said = await response.json() if path == "/readyz" else {}
                return response.status, said.get("problems", [])

        assert await ask("/readyz") == (503, ["starting"])
        health.start()
        assert await ask("/readyz") == (200, [])
        health.add("log", lambda: problems.get("log"), vital=True)
        health.add("judges", lambda: problems.get("judges"), vital=False)
        assert await ask("/readyz") == (200, [])
        problems["judges"] = "unavailable: judge.example"
        assert await ask("/readyz") == (200, ["judges: unavailable: judge.example"]), "no other process could do more"
        problems["log"] = "no broker"
        assert await ask("/readyz") == (503, ["log: no broker", "judges: unavailable: judge.example"])
        health.drain()
        assert await ask("/readyz") == (503, ["draining"])
        assert (await ask("/healthz"))[0] == 200


async def test_each_check_is_named_with_what_it_finds_and_has_a_metric():
    telemetry = Telemetry()
    health, problems = Health(telemetry), {"judges": "unavailable: judge.example"}
    for name in ("log", "judges"):
        health.add(name, partial(problems.get, name), vital=name == "log")
    health.start()
    async with (
        serve_metrics(telemetry, host="127.0.0.1", port=0, health=health) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        async with session.get("/readyz") as response:
            assert await response.json() == {
                "status": "degraded",
                "problems": ["judges: unavailable: judge.example"],
                "checks": {
                    "log": {"status": "ok", "detail": ""},
                    "judges": {"status": "degraded", "detail": "unavailable: judge.example"},
                },
            }
        async with session.get("/metrics") as response:
            metrics = await response.text()
    assert 'evalstream_health_check_ok{check="log"} 1.0' in metrics
    assert 'evalstream_health_check_ok{check="judges"} 0.0' in metrics


async def test_connections_beyond_the_limit_are_refused_and_counted():
    telemetry = Telemetry()
    async with serve_metrics(telemetry, host="127.0.0.1", port=0) as port:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST_CONNECTIONS)]
        refused = [asyncio.create_task(reader.read()) for reader, _ in opened]
        count = telemetry.counter(REFUSED_CONNECTIONS, "metrics")._value
        async with asyncio.timeout(60):
            while sum(each.done() for each in refused) < count.get() or count.get() < MOST_CONNECTIONS // 2:
                await asyncio.sleep(0.01)
        for _, writer in opened:
            writer.close()
        await asyncio.gather(*refused)


async def test_a_sender_of_traces_learns_that_this_is_the_port_of_metrics():
    """The answer was a bare 404."""
    async with (
        serve_metrics(Telemetry(), host="127.0.0.1", port=0) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        session.post("/v1/traces", data=b"\n\x00") as response,
    ):
        assert response.status == 404
        assert "send traces to receive.otlp_http.port (4318 if it is not set)" in await response.text()
