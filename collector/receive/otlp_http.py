"""OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf or JSON, into the spans log.

200 means durable: the answer is given when the spans log has taken everything. What cannot be taken now is answered
with 503 and `Retry-After`, which every OTLP sender obeys; what can never be taken with 400, 413 or 415 and a sentence.
Spans without a valid trace id are refused as OTLP's partial success; log records without one belong to no trace and are
left out. Metrics are not taken: `/v1/metrics` answers 404 with one sentence, so that a sender of all three signals goes
on with the other two.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Self

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import BaseModel, ConfigDict, Field, model_validator

from collector.durations import Seconds
from collector.logs.log import Log, Record
from collector.otlp import Signal
from collector.receive.access import AuthSettings, TlsSettings, Tokens, is_loopback, ssl_context_of
from collector.receive.admission import Admission, Place
from collector.receive.answers import accepted, form_of, refused
from collector.receive.body import read_body
from collector.receive.intake import take_in
from collector.receive.refusal import Refused, refusal
from collector.receive.serving import serving
from collector.redact.redactor import Redactor
from collector.telemetry import (
    RECEIVE_DURATION,
    RECEIVE_PENDING_BYTES,
    RECEIVED_BYTES,
    RECEIVED_ITEMS,
    RECEIVED_REQUESTS,
    Telemetry,
)

logger = logging.getLogger(__name__)

_SOURCE = "otlp_http"

Guard = Callable[[web.BaseRequest], Awaitable[None]]
"""Looks at a request before its body is read; raises Refused (401, 403) to turn it away. Authentication goes here."""


class OtlpHttpSettings(BaseModel):
    """The OTLP/HTTP receiver."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=4318, ge=0, le=65535, description="Port to listen on; 0 takes any free one.")
    max_body_bytes: int = Field(
        default=4 * 1024**2, ge=1024, description="Largest request, before and after decompression; beyond: 413."
    )
    max_items: int = Field(default=20_000, ge=1, description="Most spans or log records in one request; beyond: 413.")
    body_deadline: Seconds = Field(default=10.0, gt=0, description="Time for a body to arrive; beyond: 408.")
    log_deadline: Seconds = Field(default=10.0, gt=0, description="Time for the spans log to take it; beyond: 503.")
    max_requests: int = Field(default=256, ge=1, description="Requests being taken in at once; beyond: 503.")
    max_pending_bytes: int = Field(
        default=128 * 1024**2, ge=1024, description="Bytes of requests read but not yet durable; beyond: 503."
    )
    max_connections: int = Field(default=1000, ge=1, description="Open connections; beyond: 503 and closed.")
    idle_timeout: Seconds = Field(
        default=30.0, gt=0, description="An idle connection, or one slow with its headers, is closed after this long."
    )
    retry_after: Seconds = Field(default=1.0, ge=0, description="What senders are asked to wait after 503.")
    stop_grace: Seconds = Field(default=10.0, ge=0, description="Time for running requests to end at the stop.")
    auth: AuthSettings | None = Field(default=None, description="Bearer tokens that senders have to show.")
    tls: TlsSettings | None = Field(default=None, description="TLS, and mutual TLS.")
    insecure: bool = Field(default=False, description="Listen beyond this machine without authentication.")

    @model_validator(mode="after")
    def _not_open_to_all(self) -> Self:
        authentic = self.auth is not None or (self.tls is not None and self.tls.client_ca is not None)
        if not (authentic or self.insecure or is_loopback(self.host)):
            raise ValueError(
                f"host {self.host} lets anybody send who reaches it; write auth: {{tokens: [...]}} or "
                "tls: {client_ca: ...}, or insecure: true where the network keeps others out"
            )
        return self


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
        self._spans = spans
        self._telemetry = telemetry
        self._guard = guard or (Tokens(settings.auth) if settings.auth else None)
        self._ssl_context = ssl_context_of(settings.tls) if settings.tls else None
        self._redactor = redactor
        self._clock = clock
        self._stopping = False
        self._admission = Admission(
            max_requests=settings.max_requests,
            max_bytes=settings.max_pending_bytes,
            retry_after=settings.retry_after,
            pending=telemetry.gauge(RECEIVE_PENDING_BYTES),
        )
        for signal in ("traces", "logs"):  # an increase from nothing to 1 is one that Prometheus does not see
            telemetry.counter(RECEIVED_REQUESTS, signal, "200")
            telemetry.counter(RECEIVED_ITEMS, _SOURCE, signal, "accepted")
            telemetry.counter(RECEIVED_BYTES, _SOURCE, signal)

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
        self._stopping = True

    async def _stop(self, _application: web.Application) -> None:
        self.refuse()

    async def _traces(self, request: web.Request) -> web.Response:
        return await self._answer(request, "traces")

    async def _logs(self, request: web.Request) -> web.Response:
        return await self._answer(request, "logs")

    async def _answer(self, request: web.Request, signal: Signal) -> web.Response:
        started = self._clock()
        try:
            response = await self._take(request, signal)
        except Exception as error:
            known = refusal(error, self._settings.retry_after)
            self._count(signal, known.status if known else 500, started)
            if known is None:
                raise
            return refused(form_of(request.content_type), known)
        self._count(signal, response.status, started)
        return response

    async def _take(self, request: web.Request, signal: Signal) -> web.Response:
        if self._stopping:
            raise Refused(503, "the receiver is stopping", retry_after=self._settings.retry_after)
        if self._guard:
            await self._guard(request)
        form = form_of(request.content_type)
        if form is None:
            raise Refused(415, "the content type is not OTLP; use application/x-protobuf or application/json")
        with self._admission.place() as place:
            body = await self._body(request, place)
            intake = take_in(body, signal, form, max_items=self._settings.max_items, redactor=self._redactor)
            await self._append(intake.records)
        intake.count(self._telemetry, _SOURCE, len(body))
        return accepted(signal, form, rejected=intake.rejected, message=intake.complaint)

    async def _body(self, request: web.Request, place: Place) -> bytes:
        return await read_body(
            request, place, limit=self._settings.max_body_bytes, deadline=self._settings.body_deadline
        )

    async def _append(self, records: list[Record]) -> None:
        if records:
            async with asyncio.timeout(self._settings.log_deadline):
                await self._spans.append(records)

    def _count(self, signal: Signal, status: int, started: float) -> None:
        self._telemetry.counter(RECEIVED_REQUESTS, signal, str(status)).inc()
        self._telemetry.histogram(RECEIVE_DURATION, signal).observe(self._clock() - started)


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
        frame = traceback.extract_tb(error.__traceback__)[-1]
        logger.error("receiving failed: %s at %s:%s", type(error).__name__, frame.filename, frame.lineno)  # noqa: TRY400 - the message may hold judged text
        failure = Refused(500, "internal error")
    return refused(form_of(request.content_type), failure)
