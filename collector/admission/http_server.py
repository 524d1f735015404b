"""Serves an aiohttp application with what hostile or slow clients require."""

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from collector.admission.listener import ignore, listening
from collector.admission.shared_port import SharedPort

_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


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
    on_refused: Callable[[], object] = ignore,
    shared: SharedPort | None = None,
) -> AsyncGenerator[int]:
    """Serve until left; gives the port. On leaving, new connections are refused and running requests may end.

    Bodies reach the application as sent, not decompressed. A connection that is idle, or sends its headers slowly, is
    closed after `idle_timeout` (s); running requests have `stop_grace` (s). Of `max_connections`, which count from
    before the TLS handshake, an address may hold as many as it leaves free; others are refused. For `shared` see
    `listening`.

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
        server = runner.server
        assert server is not None
        opened = listening(
            lambda _address: server(),
            host=host,
            port=port,
            max_connections=max_connections,
            ssl_context=ssl_context,
            refusal=b"" if ssl_context else _REFUSAL,
            on_refused=on_refused,
            shared=shared,
        )
        async with opened as bound:
            yield bound
    finally:
        await runner.cleanup()
