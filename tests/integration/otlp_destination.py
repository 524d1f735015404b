"""An OTLP/HTTP endpoint for tests: keeps what it gets, answers as told."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Destination:
    """`answers` are given first, one a request; then everything is taken."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: list[web.Response | Exception] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.events: list[LogRecord] = []
        self.spans: list[Span] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        assert len(body) == int(request.headers["Content-Length"]) or request.headers["Content-Encoding"] == "gzip"
        self.requests.append((request.path, dict(request.headers)))
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                request.transport.abort()
                raise answer
            if answer.status >= 300:
                return answer
        else:
            answer = web.Response(content_type="application/x-protobuf")
        self._keep(request.path, body)
        return answer

    def _keep(self, path: str, body: bytes) -> None:
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        if path == "/v1/logs":
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                self.events += resource.scope_logs[0].log_records
        else:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans += resource.scope_spans[0].spans

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[None]:
        application = web.Application()
        application.router.add_post("/v1/logs", self._take)
        application.router.add_post("/v1/traces", self._take)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", port)
            await site.start()
            self.port = site.port
            yield
        finally:
            await runner.cleanup()
