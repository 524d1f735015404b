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
        return [each for each in self.calls if each.method == "POST"]

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
