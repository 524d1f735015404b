"""Server of /metrics, and of /healthz and /readyz for whatever starts, stops and balances processes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from collector.admission.http_server import serving
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import REFUSED_CONNECTIONS

MOST_CONNECTIONS = 64


def metrics_application(registry: CollectorRegistry, health: Health | None = None) -> web.Application:
    """An application with these routes. OpenMetrics, with exemplars, goes to whoever asks for it."""
    application = web.Application()
    state = health or Health()

    async def ready(_request: web.Request) -> web.Response:
        results = state.results
        problems = state.problems(results)
        degraded = any(each.status == "degraded" for each in results.values())
        body = {
            "status": "not ready" if problems else "degraded" if degraded else "ready",
            "problems": problems,
            "checks": {name: asdict(each) for name, each in results.items()},
        }
        return web.json_response(body, status=503 if problems else 200)

    application.router.add_get("/readyz", ready)
    application.router.add_get("/metrics", make_aiohttp_handler(registry))
    application.router.add_get("/healthz", _alive)
    return application


async def _alive(_request: web.Request) -> web.Response:
    """An answer says that the event loop runs. Nothing else is asked: a restart mends nothing else.

    A process whose reading hangs, or whose stage fails, ends by itself.
    """
    return web.Response(text="ok\n")


@asynccontextmanager
async def serve_metrics(
    telemetry: Telemetry, *, host: str, port: int, health: Health | None = None
) -> AsyncGenerator[int]:
    """Serve until left; gives the port. Connections beyond the limit are refused and counted.

    Raises:
        OSError: the address cannot be bound.
    """
    async with serving(
        metrics_application(telemetry.registry, health),
        host=host,
        port=port,
        max_connections=MOST_CONNECTIONS,
        idle_timeout=75.0,
        stop_grace=1.0,
        on_refused=telemetry.counter(REFUSED_CONNECTIONS, "metrics").inc,
    ) as bound:
        yield bound
