"""An OTLP endpoint that counts the evaluations it has taken, and refuses them when it is told to."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

ID = "evalstream.evaluation.id"


PAGE = "<html><body><h1>Please log in</h1></body></html>"
MORE_THAN_WAS_SENT = 1 << 40


class Sink:
    """`status` is what it answers from now on; what it answers with 200 counts.

    As a `page` it answers 200 with one, and takes nothing. With `overclaims` it takes everything and says that it has
    refused more than that.
    """

    def __init__(self) -> None:
        self.status = 200
        self.page = False
        self.overclaims = False
        self.refused = 0
        self.taken: Counter[str] = Counter()

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        if self.status != 200:
            self.refused += 1
            return web.Response(status=self.status)
        if self.page:
            self.refused += 1
            return web.Response(text=PAGE, content_type="text/html")
        if request.headers.get("Content-Encoding") == "gzip" and body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    self.taken.update(each.value.string_value for each in record.attributes if each.key == ID)
        answer = ExportLogsServiceResponse()
        if self.overclaims:
            answer.partial_success.rejected_log_records = MORE_THAN_WAS_SENT
        return web.Response(body=answer.SerializeToString(), content_type="application/x-protobuf")

    def calm(self) -> None:
        """Answer as it should from now on."""
        self.status, self.page, self.overclaims = 200, False, False

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve it; gives its URL."""
        application = web.Application(client_max_size=64 << 20)
        application.router.add_post("/v1/logs", self.handle)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
