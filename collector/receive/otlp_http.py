"""OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf or JSON, into the spans log.

200 means durable: the answer is given when the spans log has taken everything. What cannot be taken now is answered
with 503 and `Retry-After`, which every OTLP sender obeys; what can never be taken with 400, 413 or 415 and a sentence.
Spans without a valid trace id are refused as OTLP's partial success; log records without one belong to no trace and are
left out. Metrics are not taken: `/v1/metrics` answers 404 with one sentence, so that a sender of all three signals goes
on with the other two.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from aiohttp import web
from aiohttp.typedefs import Handler

from collector.logs.log import Log
from collector.otlp import Signal
from collector.receive.access import Tokens, ssl_context_of
from collector.receive.admission import Place
from collector.receive.answers import accepted, form_of, refused
from collector.receive.body import read_body
from collector.receive.reception import Reception
from collector.receive.refusal import Refused, bug, refusal
from collector.receive.serving import serving
from collector.receive.settings import OtlpHttpSettings
from collector.redact.redactor import Redactor
from collector.telemetry import Telemetry

Guard = Callable[[web.BaseRequest], Awaitable[None]]
"""Looks at a request before its body is read; raises Refused (401, 403) to turn it away. Authentication goes here."""


class OtlpHttpReceiver:
    """Takes OTLP requests into the spans log.

    Serve it with `serve()`, or mount `routes()` in an application served with `auto_decompress=False`.
    """

    def __init__(
        self,
        settings: OtlpHttpSettings,
        spans: Log,
        telemetry: Telemetry,
        *,
        guard: Guard | None = None,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._guard = guard or (Tokens(settings.auth, "receive.otlp_http").guard if settings.auth else None)
        self._ssl_context = ssl_context_of(settings.tls, "receive.otlp_http") if settings.tls else None
        self._reception = Reception("otlp_http", "200", settings, spans, telemetry, redactor=redactor, clock=clock)

    def routes(self) -> web.Application:
        """A new application with the three routes. Its shutdown refuses what still comes."""
        application = web.Application(middlewares=[_in_otlp_form])
        application.router.add_post("/v1/traces", self._traces)
        application.router.add_post("/v1/logs", self._logs)
        application.router.add_post("/v1/metrics", _no_metrics)
        application.on_shutdown.append(self._stop)
        return application

    def serve(self, *, ssl_context: ssl.SSLContext | None = None) -> AbstractAsyncContextManager[int]:
        """Serve until left; gives the port. Leaving refuses new requests and lets running ones end."""
        return serving(
            self.routes(),
            host=self._settings.host,
            port=self._settings.port,
            max_connections=self._settings.max_connections,
            idle_timeout=self._settings.idle_timeout,
            stop_grace=self._settings.stop_grace,
            ssl_context=ssl_context or self._ssl_context,
        )

    def refuse(self) -> None:
        """Answer everything that comes from now on with 503; what runs goes on."""
        self._reception.refuse()

    async def _stop(self, _application: web.Application) -> None:
        self.refuse()

    async def _traces(self, request: web.Request) -> web.Response:
        return await self._answer(request, "traces")

    async def _logs(self, request: web.Request) -> web.Response:
        return await self._answer(request, "logs")

    async def _answer(self, request: web.Request, signal: Signal) -> web.Response:
        started = self._reception.now()
        try:
            response = await self._take(request, signal)
        except Exception as error:
            known = refusal(error, self._settings.retry_after)
            self._reception.count(signal, str(known.status if known else 500), started)
            if known is None:
                raise
            return refused(form_of(request.content_type), known)
        self._reception.count(signal, str(response.status), started)
        return response

    async def _take(self, request: web.Request, signal: Signal) -> web.Response:
        self._reception.check_open()
        if self._guard:
            await self._guard(request)
        form = form_of(request.content_type)
        if form is None:
            raise Refused(415, "the content type is not OTLP; use application/x-protobuf or application/json")
        with self._reception.place() as place:
            intake = await self._reception.take(await self._body(request, place), signal, form)
        return accepted(signal, form, rejected=intake.rejected, message=intake.complaint)

    async def _body(self, request: web.Request, place: Place) -> bytes:
        return await read_body(
            request, place, limit=self._settings.max_body_bytes, deadline=self._settings.body_deadline
        )


async def _no_metrics(_request: web.Request) -> web.Response:
    raise Refused(404, "metrics are not taken here, only traces and logs; send them elsewhere or not at all")


@web.middleware
async def _in_otlp_form(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give every error the form of an OTLP answer, and keep judged text out of the log when there is a bug."""
    try:
        return await handler(request)
    except Refused as error:
        failure = error
    except web.HTTPException as error:
        allowed = {name: value for name, value in error.headers.items() if name == "Allow"}
        failure = Refused(error.status, error.reason, headers=allowed)
    except Exception as error:  # noqa: BLE001 - the last place before the sender: a bug is answered and logged
        failure = bug(error)
    return refused(form_of(request.content_type), failure)
