"""Server of /metrics, and of /healthz and /readyz for whatever starts, stops and balances processes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.aiohttp import make_aiohttp_handler

from collector.admission.listener import Address, serving
from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import REFUSED_CONNECTIONS

MOST_CONNECTIONS = 64


def metrics_application(registry: CollectorRegistry, health: Health | None = None) -> web.Application:
    """The server's application. A client that asks for OpenMetrics gets it, with exemplars."""
    state = health or Health()

    async def ready(_request: web.Request) -> web.Response:
        results = state.results
        problems = state.problems(results)
        takes_work = state.takes_work(results)
        body = {
            "status": "not ready" if not takes_work else "degraded" if problems else "ready",
            "problems": problems,
            "checks": {name: asdict(result) for name, result in results.items()},
        }
        return web.json_response(body, status=200 if takes_work else 503)

    return application_of(make_aiohttp_handler(registry), ready)


def application_of(metrics: Handler, ready: Handler) -> web.Application:
    """The routes of a process, or of the one that answers for its workers."""
    application = web.Application()
    application.router.add_get("/readyz", ready)
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/healthz", say_alive)
    application.router.add_post("/{path:.*}", refuse_traces)
    return application


async def say_alive(_request: web.Request) -> web.Response:
    """An answer says that the event loop runs. Nothing else is asked: a restart mends nothing else.

    A process whose reading hangs, or whose stage fails, ends by itself.
    """
    return web.Response(text="ok\n")


async def refuse_traces(_request: web.Request) -> web.Response:
    """A sender of traces has the wrong port."""
    return web.Response(
        status=404, text="this port serves /metrics; send traces to receive.otlp_http.port (4318 if it is not set)\n"
    )


@asynccontextmanager
async def _serving_on(application: web.Application, socket: Path) -> AsyncGenerator[None]:
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(socket)).start()
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serve_metrics(
    telemetry: Telemetry, *, host: str, port: int, health: Health | None = None, socket: Path | None = None
) -> AsyncGenerator[int]:
    """Serve until left; gives the port. Connections beyond the limit are refused and counted.

    With `socket` it is served on that socket file and nowhere else: the port is 0.

    Raises:
        ConfigError: the address cannot be bound.
    """
    application = metrics_application(telemetry.registry, health)
    if socket is not None:
        async with _serving_on(application, socket):
            yield 0
        return
    async with serving(
        application,
        address=Address("export.prometheus", host, port),
        max_connections=MOST_CONNECTIONS,
        idle_timeout=75.0,
        stop_grace=1.0,
        on_refused=telemetry.counter(REFUSED_CONNECTIONS, "metrics").inc,
    ) as bound:
        yield bound
