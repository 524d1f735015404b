"""/healthz and /readyz: alive while it answers, ready from the start until it drains."""

from __future__ import annotations

import aiohttp
from prometheus_client import CollectorRegistry

from collector.export.scrape import serve_metrics
from collector.health import Health


async def test_ready_from_the_start_until_it_drains():
    health = Health()
    async with serve_metrics(CollectorRegistry(), host="127.0.0.1", port=0, health=health) as port:

        async def ask(path: str) -> tuple[int, list[str]]:
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
                said = await response.json() if path == "/readyz" else {}
                return response.status, said.get("problems", [])

        assert await ask("/readyz") == (503, ["starting"])
        health.start()
        assert await ask("/readyz") == (200, [])
        health.add(lambda: "no broker")
        assert await ask("/readyz") == (503, ["no broker"])
        health.drain()
        assert await ask("/readyz") == (503, ["draining"])
        assert (await ask("/healthz"))[0] == 200
