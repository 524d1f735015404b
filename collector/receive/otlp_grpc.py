"""OTLP over gRPC: `TraceService/Export` and `LogsService/Export`, protobuf, into the spans log. Needs the extra `grpc`.

OK means durable, as 200 does over HTTP. Requests that cannot be accepted now get RESOURCE_EXHAUSTED (too much at once)
or UNAVAILABLE (the log, or the stop), both with a RetryInfo, without which no sender retries after the first of them.
Requests that can never be accepted get INVALID_ARGUMENT, also if they are too large: some senders retry after every
RESOURCE_EXHAUSTED. Only messages of more than twice the limit get the library's own RESOURCE_EXHAUSTED, which has no
RetryInfo. Metrics are UNIMPLEMENTED with one sentence, so that a sender of all three signals continues.

Methods are served as streams of requests, which are the same bytes on the wire: so a sender is authenticated before its
request is read, and the request has a deadline. Compressed requests are decompressed here and not by the library: some
versions decompress all of a bomb before they check its size.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import NoReturn
from urllib.parse import unquote

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from collector.admission.fair_limit import Holding, address_key
from collector.admission.listener import Address, listening
from collector.admission.relay import Relay
from collector.admission.shared_port import SharedPort
from collector.errors import BadInput, ConfigError, Overloaded, TooLarge
from collector.logs.log import Log
from collector.otlp.decode import Signal
from collector.receive.access import OtlpGrpcSettings, TlsSettings, ssl_context_of
from collector.receive.bodies import GzipDecompressor, success
from collector.receive.otlp_ingest import IngestLogs, IngestRules, OtlpIngest, SenderLimits
from collector.receive.rejection import Rejected, internal_error, rejection_of
from collector.receive.tenants import Sender, sender_of, tenant_with
from collector.telemetry.registry import Telemetry

Context = grpc.aio.ServicerContext[bytes, bytes]
Messages = AsyncIterator[bytes]
Serve = Callable[[Messages, Context], Awaitable[bytes]]

_WHERE = "receive.otlp_grpc"
_SERVICES: dict[Signal, str] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}
_GZIP = b"\x1f\x8b"
"""How gzip begins, and no protobuf message: 0x1f would be a field of type 7, which there is not."""
_IDENTITY_AND_GZIP = 0b101  # bits of grpc_compression_algorithm; others are UNIMPLEMENTED
_HEADROOM = 2
"""The library reads up to so many times max_body_bytes: what is larger it ends by itself, with RESOURCE_EXHAUSTED."""


class OtlpGrpcReceiver:
    """Appends OTLP requests to the spans log. Serve it with `serve()`."""

    def __init__(
        self,
        settings: OtlpGrpcSettings,
        spans: Log,
        telemetry: Telemetry,
        *,
        limits: SenderLimits | None = None,
        rules: IngestRules | None = None,
    ) -> None:
        """Read tokens and certificates.

        Raises:
            ConfigError: they cannot be used.
        """
        self._settings = settings
        self._relay: Relay | None = None
        self._credentials = _credentials(settings.tls) if settings.tls else None
        self._ingest = OtlpIngest(
            "otlp_grpc", "OK", settings, IngestLogs(spans), telemetry, limits, rules or IngestRules()
        )
        self._most_read = min(_HEADROOM * settings.max_body_bytes, self._ingest.most_pending_bytes)

    @asynccontextmanager
    async def serve(self, *, shared: SharedPort | None = None) -> AsyncGenerator[int]:
        """Serve until left; gives the port, which may be `shared`. Leaving lets running requests end.

        Raises:
            ConfigError: the address cannot be listened on.
        """
        server = grpc.aio.server(options=self._options())
        server.add_generic_rpc_handlers(
            (
                _method(_SERVICES["traces"], partial(self._export, "traces")),
                _method(_SERVICES["logs"], partial(self._export, "logs")),
                _method("opentelemetry.proto.collector.metrics.v1.MetricsService", _no_metrics),
            )
        )
        async with AsyncExitStack() as stack:
            yield await self._start(server, stack, shared=shared)

    async def _start(self, server: grpc.aio.Server, stack: AsyncExitStack, *, shared: SharedPort | None) -> int:
        """Start the server behind a relay, which gives each address its part of the connections."""
        settings = self._settings
        try:
            relay = self._relay = await stack.enter_async_context(Relay.open())
            self._listen(server, f"unix:{relay.path}")
            await server.start()
            stack.push_async_callback(server.stop, settings.stop_grace)
            stack.callback(self.stop_accepting)
            listener = listening(
                relay.end_of,
                address=Address(_WHERE, settings.host, settings.port),
                max_connections=settings.max_connections,
                on_refused=self._ingest.count_refused_connection,
                shared=shared,
            )
            return await stack.enter_async_context(listener)
        except (OSError, RuntimeError) as error:  # the library's own are RuntimeErrors
            raise ConfigError(f"{_WHERE}: {getattr(error, 'strerror', None) or error}") from None

    def stop_accepting(self) -> None:
        """Answer everything that comes from now on with UNAVAILABLE; running requests finish."""
        self._ingest.stop_accepting()

    def _options(self) -> list[tuple[str, int]]:
        settings = self._settings
        return [
            ("grpc.max_receive_message_length", _HEADROOM * settings.max_body_bytes),
            ("grpc.http2.bdp_probe", 0),  # else a call that is not read yet may hold megabytes, and not 64 KiB
            ("grpc.per_message_decompression", 0),
            ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
            ("grpc.max_concurrent_streams", settings.max_requests),
            ("grpc.max_allowed_incoming_connections", settings.max_connections),
            ("grpc.max_connection_idle_ms", round(settings.idle_timeout * 1000)),
            ("grpc.server_handshake_timeout_ms", round(settings.idle_timeout * 1000)),
            ("grpc.so_reuseport", 0),  # a port that is taken is an error
        ]

    def _listen(self, server: grpc.aio.Server, address: str) -> None:
        if self._credentials is not None:
            server.add_secure_port(address, self._credentials)
        else:
            server.add_insecure_port(address)

    async def _export(self, signal: Signal, messages: Messages, context: Context) -> bytes:
        """Answer one call and count it, whatever becomes of it."""
        started = time.monotonic()
        sender: Sender | None = None
        try:
            self._ingest.refuse_if_stopping()
            sender = await self._sender(context)
            response = await self._accept(signal, messages, sender)
        except Exception as error:  # noqa: BLE001 - the last place before the sender: a bug is answered and logged
            rejection = rejection_of(error, self._settings.retry_after) or internal_error(error)
            self._ingest.count_rejection(rejection, sender)
            code = _code(error, rejection)
            self._ingest.count(signal, code.name, started)
            await _abort(context, code, rejection)
        self._ingest.count(signal, "OK", started)
        return response

    async def _sender(self, context: Context) -> Sender:
        """The sender, by token, certificate or address."""
        address = self._relay.address_of(unquote(context.peer()).partition(":")[2]) if self._relay else None
        tokens = self._ingest.tokens
        tenant = await tokens.require(_authorization(context), address_key(address)) if tokens else None
        subjects: list[str] = []
        if self._settings.tls and self._settings.tls.client_ca:
            names = context.auth_context()  # in the client's certificate
            parts = [*names.get("x509_common_name", ()), *names.get("x509_subject_alternative_name", ())]
            subjects = [part.decode("utf-8", "replace") for part in parts]
            tenant = tenant or tenant_with(subjects, self._settings.tls.tenants)
        return sender_of(address, tenant, subjects)

    async def _accept(self, signal: Signal, messages: Messages, sender: Sender) -> bytes:
        with self._ingest.admit(sender) as holding:
            body = self._decompressed(await self._message(messages, holding), holding)
            parsed = await self._ingest.ingest(body, signal, "protobuf", sender, holding)
        return success(signal, rejected=parsed.rejected, message=parsed.error_message).SerializeToString()

    async def _message(self, messages: Messages, holding: Holding) -> bytes:
        """The one request of a call.

        The library collects a message unseen, so room for the largest is reserved before it begins.
        """
        deadline = self._settings.body_deadline
        try:
            async with asyncio.timeout(deadline):
                await holding.wait_for_bytes(self._most_read)
                message = await anext(messages, None)
                holding.received = size = len(message or b"")
                if size > self._most_read:
                    holding.take_bytes(size - self._most_read)
                else:
                    holding.give_back_bytes(self._most_read - size)
                more = await anext(messages, None)
        except TimeoutError:
            raise Rejected(408, f"the request did not arrive within {deadline:g} s") from None
        if message is None or more is not None:
            raise BadInput("the call does not hold one request")
        if size > self._settings.max_body_bytes:
            raise TooLarge(f"the request is larger than {self._settings.max_body_bytes} bytes")
        return message

    def _decompressed(self, message: bytes, holding: Holding) -> bytes:
        if not message.startswith(_GZIP):
            return message
        decompressor = GzipDecompressor(self._settings.max_body_bytes)
        body = decompressor.feed(message)
        decompressor.close()
        holding.take_bytes(len(body))
        return body


def _method(service: str, serve: Serve) -> grpc.GenericRpcHandler:
    return grpc.method_handlers_generic_handler(service, {"Export": grpc.stream_unary_rpc_method_handler(serve)})


async def _no_metrics(_messages: Messages, context: Context) -> bytes:
    sentence = "metrics are not accepted here, only traces and logs; send them elsewhere or not at all"
    return await context.abort(grpc.StatusCode.UNIMPLEMENTED, sentence)


def _authorization(context: Context) -> str:
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return value if isinstance(value, str) else ""
    return ""


def _code(error: Exception, rejection: Rejected) -> grpc.StatusCode:
    if isinstance(error, Overloaded):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    return grpc.StatusCode[rejection.meaning.over_grpc]


async def _abort(context: Context, code: grpc.StatusCode, rejection: Rejected) -> NoReturn:
    """End a call. The time to wait is where OTLP says, and where Python's exporter looks for it."""
    if rejection.retry_after is None:
        await context.abort(code, rejection.message)
    retry = RetryInfo()
    retry.retry_delay.FromNanoseconds(round((rejection.retry_after or 0) * 1e9))
    status = Status(code=code.value[0], message=rejection.message)
    status.details.add().Pack(retry)
    metadata = (
        ("grpc-status-details-bin", status.SerializeToString()),
        ("google.rpc.retryinfo-bin", retry.SerializeToString()),
    )
    await context.abort(code, rejection.message, metadata)


def _credentials(tls: TlsSettings) -> grpc.ServerCredentials:
    ssl_context_of(tls, _WHERE)  # reports what is wrong with the files; the library would only reject every sender
    authorities = tls.client_ca.read_bytes() if tls.client_ca is not None else None
    return grpc.ssl_server_credentials(
        [(tls.key.read_bytes(), tls.certificate.read_bytes())],
        root_certificates=authorities,
        require_client_auth=authorities is not None,
    )
