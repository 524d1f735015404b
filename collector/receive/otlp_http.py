"""OTLP over HTTP: `POST /v1/traces` and `/v1/logs`, protobuf or JSON, into the spans log; references beside it.

200 means durable: the response is sent when the spans log has accepted everything. Requests that cannot be accepted
now get 503 with `Retry-After`, which every OTLP sender obeys; those that can never be accepted get 400, 413 or 415
with a sentence. Spans without a valid trace id are rejected as OTLP's partial success; log records without one belong
to no trace and are ignored. `/v1/references` takes JSON into the turns log, `/v1/feedback` into the labels log, under
the same limits. `/v1/metrics` answers 404 with one sentence, so that a sender of all three signals keeps the other two.
"""

import logging
import time
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import count
from typing import Literal

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from collector.admission.listener import Address, serving
from collector.admission.shared_port import SharedPort
from collector.logs.log import Log
from collector.otlp.decode import Signal
from collector.receive.access import OtlpHttpSettings, ssl_context_of
from collector.receive.bodies import FORMS, read_body, rejected, response_of, success
from collector.receive.feedback_ingest import DocumentKind
from collector.receive.otlp_ingest import IngestLogs, IngestRules, OtlpIngest, SenderLimits
from collector.receive.rejection import Rejected, internal_error, rejection_of
from collector.receive.tenants import Sender, sender_of, subjects_of, tenant_with
from collector.telemetry.registry import Telemetry

logger = logging.getLogger(__name__)


class OtlpHttpReceiver:
    """Appends OTLP requests to the spans log.

    Serve it with `serve()`, or mount `routes()` in an application served with `auto_decompress=False`.
    """

    def __init__(
        self,
        settings: OtlpHttpSettings,
        spans: Log,
        telemetry: Telemetry,
        *,
        turns: Log | None = None,
        labels: Log | None = None,
        limits: SenderLimits | None = None,
        rules: IngestRules | None = None,
    ) -> None:
        self._settings = settings
        self._ssl_context = ssl_context_of(settings.tls, "receive.otlp_http") if settings.tls else None
        logs = IngestLogs(spans, turns, labels)
        self._ingest = OtlpIngest("otlp_http", "200", settings, logs, telemetry, limits, rules or IngestRules())

    def routes(self) -> web.Application:
        """A new application with its routes. Its shutdown rejects new requests."""
        browsers = [_for_browsers(frozenset(self._settings.origins))] if self._settings.origins else []
        application = web.Application(middlewares=[*browsers, _in_otlp_form()])
        application.router.add_post("/v1/traces", partial(self._export, "traces"))
        application.router.add_post("/v1/logs", partial(self._export, "logs"))
        application.router.add_post("/v1/references", partial(self._export, "references"))
        application.router.add_post("/v1/feedback", partial(self._export, "feedback"))
        application.router.add_post("/v1/metrics", _no_metrics)
        application.on_shutdown.append(self._stop)
        return application

    def serve(self, *, shared: SharedPort | None = None) -> AbstractAsyncContextManager[int]:
        """Serve until left; gives the port, which may be `shared`. Leaving lets running requests end."""
        return serving(
            self.routes(),
            address=Address("receive.otlp_http", self._settings.host, self._settings.port),
            max_connections=self._settings.max_connections,
            idle_timeout=self._settings.idle_timeout,
            stop_grace=self._settings.stop_grace,
            ssl_context=self._ssl_context,
            on_refused=self._ingest.count_refused_connection,
            shared=shared,
        )

    def stop_accepting(self) -> None:
        """Answer everything that comes from now on with 503; running requests finish."""
        self._ingest.stop_accepting()

    async def _stop(self, _application: web.Application) -> None:
        self.stop_accepting()

    async def _export(self, signal: Signal | Literal["references", "feedback"], request: web.Request) -> web.Response:
        """Answer one request and count it, whatever becomes of it."""
        started = time.monotonic()
        sender: Sender | None = None
        try:
            self._ingest.refuse_if_stopping()
            sender = await self._sender(request)
            response = await self._accept(signal, request, sender)
        except Exception as error:  # noqa: BLE001 - the last place before the sender: a bug is answered and logged
            rejection = rejection_of(error, self._settings.retry_after) or internal_error(error)
            self._ingest.count_rejection(rejection, sender)
            response = rejected(FORMS.get(request.content_type), rejection)
        self._ingest.count(signal, str(response.status), started)
        return response

    async def _sender(self, request: web.Request) -> Sender:
        """The sender, by token, certificate or address."""
        tenant = await self._ingest.tokens.authenticate(request) if self._ingest.tokens else None
        subjects: list[str] = []
        if request.transport is not None and self._settings.tls and self._settings.tls.client_ca:
            subjects = subjects_of(request.transport.get_extra_info("peercert"))
            tenant = tenant or tenant_with(subjects, self._settings.tls.tenants)
        return sender_of(request.remote, tenant, subjects)

    async def _accept(self, signal: Signal | DocumentKind, request: web.Request, sender: Sender) -> web.Response:
        """Accept OTLP, or JSON documents that are about turns, and no traffic themselves."""
        form = FORMS.get(request.content_type) if signal in ("traces", "logs") else "json"
        if form is None:
            raise Rejected(415, "the content type is not OTLP; use application/x-protobuf or application/json")
        limit, deadline = self._settings.max_body_bytes, self._settings.body_deadline
        with self._ingest.admit(sender) as holding:  # until it is durable: the body is held in memory
            body = await read_body(request, holding, limit=limit, deadline=deadline)
            if signal in ("references", "feedback"):
                documents = await self._ingest.ingest_documents(signal, body, sender, holding)
                return web.json_response({"accepted": documents.accepted})
            parsed = await self._ingest.ingest(body, signal, form, sender, holding)
        number = parsed.rejected
        return response_of(200, form, success(signal, rejected=number, message=parsed.error_message if number else ""))


async def _no_metrics(_request: web.Request) -> web.Response:
    raise Rejected(404, "metrics are not accepted here, only traces and logs; send them elsewhere or not at all")


def _for_browsers(origins: frozenset[str]) -> Middleware:
    """Let pages of these origins send from a browser, which asks first and reads the response's headers (CORS)."""

    @web.middleware
    async def allow(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin", "")
        is_allowed = origin in origins or ("*" in origins and bool(origin))
        is_question = request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers
        response = web.Response(status=204) if is_allowed and is_question else await handler(request)
        if is_allowed:
            response.headers.update({"Access-Control-Allow-Origin": origin, "Vary": "Origin"})
        if is_allowed and is_question:
            headers = request.headers.get("Access-Control-Request-Headers", "Content-Type")
            response.headers.update(
                {
                    "Access-Control-Allow-Methods": "POST",
                    "Access-Control-Allow-Headers": headers,
                    "Access-Control-Max-Age": "7200",
                }
            )
        return response

    return allow


_PATHS = (
    "nothing is received at this path; traces go to /v1/traces, log records to /v1/logs, feedback to /v1/feedback, "
    "references to /v1/references. An exporter appends the first two to "
    "OTEL_EXPORTER_OTLP_ENDPOINT, and takes OTEL_EXPORTER_OTLP_TRACES_ENDPOINT as it is"
)


def _in_otlp_form() -> Middleware:
    """Give every error the form of an OTLP answer, and keep texts out of the log when there is a bug."""
    wrong_paths = count()

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Rejected as error:
            failure = error
        except web.HTTPNotFound as error:
            if not next(wrong_paths):  # a sender sends without end: one line is enough
                logger.warning("a request to another path is refused: %s", _PATHS)
            failure = Rejected(error.status, _PATHS)
        except web.HTTPException as error:
            allowed = {name: value for name, value in error.headers.items() if name == "Allow"}
            problem = f"{error.reason}{''.join(f'; use {method}' for method in allowed.values())}"
            failure = Rejected(error.status, problem, headers=allowed)
        except Exception as error:  # noqa: BLE001 - the last place before the sender: a bug is answered and logged
            failure = internal_error(error)
        return rejected(FORMS.get(request.content_type), failure)

    return answer
