"""OTLP over gRPC: `TraceService/Export` and `LogsService/Export`, protobuf, into the spans log. Needs the extra `grpc`.

OK means durable, as 200 does over HTTP. What cannot be taken now is answered with RESOURCE_EXHAUSTED (too much at once)
or UNAVAILABLE (the log, or the stop), both with a RetryInfo, without which no sender comes again after the first of
them. What can never be taken is INVALID_ARGUMENT, also where it is too large: some senders come again after every
RESOURCE_EXHAUSTED. Metrics are UNIMPLEMENTED with one sentence, so that a sender of all three signals goes on.

Methods are served as streams of requests, which are the same bytes on the wire: so a sender is looked at before its
request is read, and the request has a deadline. Compressed requests are unpacked here and not by the library: versions
of it unpack all of a bomb before they look at its size.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from collector.errors import BadInput, ConfigError, Overloaded
from collector.logs.log import Log
from collector.otlp import Signal
from collector.receive.access import TlsSettings, Tokens, ssl_context_of
from collector.receive.admission import Place
from collector.receive.answers import success
from collector.receive.inflate import Inflate
from collector.receive.reception import Reception
from collector.receive.refusal import Refused, bug, refusal
from collector.receive.settings import OtlpGrpcSettings
from collector.redact.redactor import Redactor
from collector.telemetry import Telemetry

Context = grpc.aio.ServicerContext[bytes, bytes]
Messages = AsyncIterator[bytes]
Serve = Callable[[Messages, Context], Awaitable[bytes]]

_WHERE = "receive.otlp_grpc"
_SERVICES: dict[Signal, str] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}
_METRICS = "opentelemetry.proto.collector.metrics.v1.MetricsService"
_GZIP = b"\x1f\x8b"
"""How gzip begins, and no protobuf message: 0x1f would be a field of type 7, which there is not."""
_IDENTITY_AND_GZIP = 0b101  # bits of grpc_compression_algorithm; others are UNIMPLEMENTED
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.UNIMPLEMENTED,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.INVALID_ARGUMENT,
    503: grpc.StatusCode.UNAVAILABLE,
}


class OtlpGrpcReceiver:
    """Takes OTLP requests into the spans log. Serve it with `serve()`."""

    def __init__(
        self,
        settings: OtlpGrpcSettings,
        spans: Log,
        telemetry: Telemetry,
        *,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read tokens and certificates.

        Raises:
            ConfigError: they cannot be used.
        """
        self._settings = settings
        self._tokens = Tokens(settings.auth, _WHERE) if settings.auth else None
        self._credentials = _credentials(settings.tls) if settings.tls else None
        self._reception = Reception("otlp_grpc", "OK", settings, spans, telemetry, redactor=redactor, clock=clock)

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[int]:
        """Serve until left; gives the port. Leaving refuses new requests and lets running ones end.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        server = grpc.aio.server(options=self._options())
        server.add_generic_rpc_handlers(
            (
                _method(_SERVICES["traces"], self._traces),
                _method(_SERVICES["logs"], self._logs),
                _method(_METRICS, _no_metrics),
            )
        )
        port = self._listen(server)
        await server.start()
        try:
            yield port
        finally:
            self.refuse()
            await server.stop(self._settings.stop_grace)

    def refuse(self) -> None:
        """Answer everything that comes from now on with UNAVAILABLE; what runs goes on."""
        self._reception.refuse()

    def _options(self) -> list[tuple[str, int]]:
        settings = self._settings
        return [
            ("grpc.max_receive_message_length", settings.max_body_bytes),
            ("grpc.per_message_decompression", 0),
            ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
            ("grpc.max_concurrent_streams", settings.max_requests),
            ("grpc.max_allowed_incoming_connections", settings.max_connections),
            ("grpc.max_connection_idle_ms", round(settings.idle_timeout * 1000)),
            ("grpc.server_handshake_timeout_ms", round(settings.idle_timeout * 1000)),
            ("grpc.so_reuseport", 0),  # a port that is taken is an error
        ]

    def _listen(self, server: grpc.aio.Server) -> int:
        host, port = self._settings.host, self._settings.port
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if self._credentials is not None:
                return server.add_secure_port(address, self._credentials)
            return server.add_insecure_port(address)
        except RuntimeError:
            raise ConfigError(
                f"{_WHERE}: {address} cannot be listened on; write another port, or 0 for any free one"
            ) from None

    async def _traces(self, messages: Messages, context: Context) -> bytes:
        return await self._answer(messages, context, "traces")

    async def _logs(self, messages: Messages, context: Context) -> bytes:
        return await self._answer(messages, context, "logs")

    async def _answer(self, messages: Messages, context: Context, signal: Signal) -> bytes:
        started = self._reception.now()
        try:
            answer = await self._take(messages, context, signal)
        except Exception as error:  # noqa: BLE001 - the last place before the sender: a bug is answered and logged
            known = refusal(error, self._settings.retry_after) or bug(error)
            code = _code(error, known)
            self._reception.count(signal, code.name, started)
            await _abort(context, code, known)
        self._reception.count(signal, "OK", started)
        return answer

    async def _take(self, messages: Messages, context: Context, signal: Signal) -> bytes:
        self._reception.check_open()
        if self._tokens:
            self._tokens.admit(_authorization(context))
        with self._reception.place() as place:
            body = self._plain(await self._message(messages), place)
            intake = await self._reception.take(body, signal, "protobuf")
        return success(signal, rejected=intake.rejected, message=intake.complaint).SerializeToString()

    async def _message(self, messages: Messages) -> bytes:
        """The one request of a call."""
        deadline = self._settings.body_deadline
        try:
            async with asyncio.timeout(deadline):
                message, more = await anext(messages, None), await anext(messages, None)
        except TimeoutError:
            raise Refused(408, f"the request did not arrive within {deadline:g} s") from None
        if message is None or more is not None:
            raise BadInput("the call does not hold one request")
        return message

    def _plain(self, message: bytes, place: Place) -> bytes:
        """The request, unpacked where it is compressed."""
        place.take(len(message))
        if not message.startswith(_GZIP):
            return message
        inflate = Inflate(self._settings.max_body_bytes)
        plain = inflate.feed(message)
        inflate.close()
        place.take(len(plain))
        return plain


def _method(service: str, serve: Serve) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(service, {"Export": grpc.stream_unary_rpc_method_handler(serve)})


async def _no_metrics(_messages: Messages, context: Context) -> bytes:
    sentence = "metrics are not taken here, only traces and logs; send them elsewhere or not at all"
    return await context.abort(grpc.StatusCode.UNIMPLEMENTED, sentence)


def _authorization(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return value if isinstance(value, str) else ""
    return ""


def _code(error: Exception, refused: Refused) -> grpc.StatusCode:
    if isinstance(error, Overloaded):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    return _CODES.get(refused.status, grpc.StatusCode.INTERNAL)


async def _abort(context: Context, code: grpc.StatusCode, refused: Refused) -> NoReturn:
    """End a call. How long to wait is told where OTLP says, and where Python's exporter looks for it."""
    if refused.retry_after is None:
        await context.abort(code, refused.message)
    retry = RetryInfo()
    retry.retry_delay.FromNanoseconds(round((refused.retry_after or 0) * 1e9))
    status = Status(code=code.value[0], message=refused.message)
    status.details.add().Pack(retry)
    told = (
        ("grpc-status-details-bin", status.SerializeToString()),
        ("google.rpc.retryinfo-bin", retry.SerializeToString()),
    )
    await context.abort(code, refused.message, told)


def _credentials(tls: TlsSettings) -> grpc.ServerCredentials:
    ssl_context_of(tls, _WHERE)  # says what is wrong with the files; the library would only refuse every sender
    authorities = tls.client_ca.read_bytes() if tls.client_ca is not None else None
    return grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.certificate.read_bytes())],
        root_certificates=authorities,
        require_client_auth=authorities is not None,
    )
