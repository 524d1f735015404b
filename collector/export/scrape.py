"""Serves /metrics, and /healthz and /readyz for whoever starts, stops and balances processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from collector.health import Health


def metrics_application(registry: CollectorRegistry, health: Health | None = None) -> web.Application:
    """An application with these routes. OpenMetrics, with exemplars, goes to whoever asks for it."""
    application = web.Application()
    state = health or Health()

    async def ready(_request: web.Request) -> web.Response:
        problems = state.problems
        said = {"status": "not ready" if problems else "ready", "problems": problems}
        return web.json_response(said, status=503 if problems else 200)

    application.router.add_get("/readyz", ready)
    application.router.add_get("/metrics", make_aiohttp_handler(registry))
    application.router.add_get("/healthz", _alive)
    return application


async def _alive(_request: web.Request) -> web.Response:
    """An answer from the event loop says that the process still turns."""
    return web.Response(text="ok\n")


@asynccontextmanager
async def serve_metrics(
    registry: CollectorRegistry, *, host: str, port: int, health: Health | None = None
) -> AsyncGenerator[int]:
    """Serve until left; gives the port.

    Raises:
        OSError: the address cannot be bound.
    """
    runner = web.AppRunner(
        metrics_application(registry, health), access_log=None, keepalive_timeout=75.0, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield site.port
    finally:
        await runner.cleanup()
