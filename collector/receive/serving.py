"""Serves an aiohttp application with what hostile or slow senders require."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from aiohttp import web

_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Full(asyncio.Protocol):
    """A connection beyond the cap: told to come again, and closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writing = cast("asyncio.WriteTransport", transport)  # uvloop's is of no class of asyncio's
        writing.write(_REFUSAL)
        writing.close()


@asynccontextmanager
async def serving(
    application: web.Application,
    *,
    host: str,
    port: int,
    max_connections: int,
    idle_timeout: float,
    stop_grace: float,
    ssl_context: ssl.SSLContext | None = None,
) -> AsyncGenerator[int]:
    """Serve until left; gives the port. On leaving, new connections are refused and running requests may end.

    Bodies reach the application as sent, not decompressed. A connection that is idle, or sends its headers slowly, is
    closed after `idle_timeout` (s); running requests have `stop_grace` (s).

    Raises:
        OSError: the address cannot be bound.
    """
    runner = web.AppRunner(
        application,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=idle_timeout,
        lingering_time=2.0,
        shutdown_timeout=stop_grace,
    )
    await runner.setup()
    try:
        server = await _listen(runner, host, port, max_connections, ssl_context)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
    finally:
        await runner.cleanup()


async def _listen(
    runner: web.AppRunner, host: str, port: int, max_connections: int, ssl_context: ssl.SSLContext | None
) -> asyncio.Server:
    web_server = runner.server
    assert web_server is not None

    def protocol() -> asyncio.Protocol:
        return web_server() if len(web_server.connections) < max_connections else _Full()

    return await asyncio.get_running_loop().create_server(
        protocol, host, port, ssl=ssl_context, backlog=min(max_connections, 1024)
    )
