"""A platform's API for tests: keeps what it gets by id, as the platform does, and answers as told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web


@dataclass
class Call:
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return orjson.loads(self.raw) if self.raw else None


def take(_call: Call) -> web.Response:
    return web.json_response({})


OPIK_SPAN = "019df2dc-0a7b-70e1-9794-9816e49a8761"
"""What Opik makes of the span of the samples, in a trace that began at 1,777,896,000,123 ms."""


def opik_or_empty(call: Call) -> web.Response:
    """Take everything; in the part of Opik, know the span of the samples."""
    known = [{"id": OPIK_SPAN}] if call.path.startswith("/v1/private/spans?") and OPIK_SPAN[19:] in call.path else []
    return web.json_response({"content": known})


@dataclass
class PlatformStub:
    """`answers` are given first, one a call; then `respond` decides."""

    respond: Callable[[Call], web.Response] = take
    answers: list[web.Response] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    port: int = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def posts(self) -> list[Call]:
        return [each for each in self.calls if each.method != "GET"]

    async def _take(self, request: web.Request) -> web.Response:
        call = Call(request.method, request.path_qs, dict(request.headers), await request.read())
        self.calls.append(call)
        return self.answers.pop(0) if self.answers else self.respond(call)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._take)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.port = site.port
            yield
        finally:
            await runner.cleanup()
