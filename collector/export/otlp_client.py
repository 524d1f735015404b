"""Client for OTLP over HTTP by the protocol's rules: retries, permanent rejections, partial success."""

import gzip as gzip_
import io
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TypeVar

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from pydantic import Field, SecretStr, field_validator

from collector.backoff import Backoff
from collector.durations import Seconds
from collector.errors import ConfigError
from collector.export.acceptance import Refused, answer_to, no_otlp
from collector.export.exporter import ExportContext, ExporterSettings, ExportUnavailable, bounded_refusals
from collector.logs.log import Confirm, certain
from collector.section import checked_base
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import EXPORT_FAILURES
from evaluators.secret_files import SecretFiles
from evaluators.wire.http_client import HttpClient, HttpResponse

OtlpReply = TypeVar("OtlpReply", ExportLogsServiceResponse, traces.ExportTraceServiceResponse)

logger = logging.getLogger(__name__)

_AGAIN = frozenset({429, 502, 503, 504})  # OTLP/HTTP's list of retryable answers
_ABOUT_REQUEST = frozenset({400, 413, 414, 415, 422, 431})  # the same request would be refused again
_NO_SUCH_PLACE = frozenset({404, 405, 501})


@dataclass(frozen=True, slots=True)
class OtlpDestination:
    """An OTLP endpoint, and how it is asked.

    `headers` is called before each request. A request that is refused is tried again for `give_up_after` seconds.
    """

    endpoint: str
    gzip: bool
    headers: Callable[[], Mapping[str, str]] = dict
    give_up_after: float = 3600.0


@dataclass(eq=False, repr=False)
class OtlpClient:
    """Posts to `{endpoint}/v1/logs` and `/v1/traces`, protobuf, until each request is taken or refused for good.

    `give_up_after` (s) is how long a request is tried again that is refused for a reason that an operator may mend.
    `confirm` is called before each attempt: see `ExportContext`; so is `headers`, for those that may change.
    """

    client: HttpClient
    destination: OtlpDestination
    telemetry: Telemetry
    _: KW_ONLY
    backoff: Backoff
    exporter: str = "otlp"
    confirm: Confirm = certain

    def __post_init__(self) -> None:
        self.problem: str | None = None
        """Why requests are not accepted now; None if they are, as far as is known."""
        self.has_logs = True
        """Whether the endpoint takes log records, as far as is known."""

    async def send_logs(
        self, request: ExportLogsServiceRequest, *, spans_follow: bool = False, confirm: Confirm | None = None
    ) -> int:
        """Send log records; returns how many were refused for good. `confirm` takes the place of the client's own.

        With `spans_follow`, which say the same, an endpoint that has no logs at all is not tried again and again:
        whether it takes traces is asked once, and then no log records are sent any more.
        """
        count = sum(len(scope.log_records) for logs in request.resource_logs for scope in logs.scope_logs)
        if not count or not self.has_logs:
            return 0
        body = request.SerializeToString()
        return await self._deliver("/v1/logs", body, count, spans_follow=spans_follow, confirm=confirm)

    async def send_traces(self, request: traces.ExportTraceServiceRequest) -> int:
        """Send spans; returns how many were refused for good."""
        count = sum(len(scope.spans) for spans in request.resource_spans for scope in spans.scope_spans)
        return await self._deliver("/v1/traces", request.SerializeToString(), count) if count else 0

    async def _deliver(
        self, path: str, body: bytes, count: int, *, spans_follow: bool = False, confirm: Confirm | None = None
    ) -> int:
        headers = {"Content-Type": "application/x-protobuf"}
        if self.destination.gzip:
            body = gzip_.compress(body, 6, mtime=0)
            headers["Content-Encoding"] = "gzip"
        give_up: float | None = None

        async def attempt() -> int:
            nonlocal give_up
            await (confirm or self.confirm)()
            try:
                return self._count_rejected(_REJECTED[path](await self._post(path, body, headers)), count)
            except Refused as error:
                if spans_follow and give_up is None and await self._has_no_logs(error):
                    return 0
                now = self.backoff.clock()
                give_up = now + self.destination.give_up_after if give_up is None else give_up
                if error.status in _ABOUT_REQUEST or now >= give_up:
                    return self._drop(error, count)
                raise

        refused = await self.backoff.repeat(
            attempt, ExportUnavailable, action=f"exporting to {self.exporter} ({path})", on_failure=self._failed
        )
        self.problem = None
        return refused

    async def _has_no_logs(self, refused: Refused) -> bool:
        """Whether only log records have no place there: spans have one. Says what follows from it."""
        if refused.status not in _NO_SUCH_PLACE:
            return False
        headers = {"Content-Type": "application/x-protobuf"}
        try:
            await self._post("/v1/traces", traces.ExportTraceServiceRequest().SerializeToString(), headers)
        except ExportUnavailable:
            return False
        self.has_logs = False
        logger.warning(
            "exporter %s: the endpoint takes traces, but nothing is at its /v1/logs (status %d): scores go there as "
            "spans alone from now on; events: false makes it permanent",
            self.exporter, refused.status,
        )  # fmt: skip
        return True

    async def _post(self, path: str, body: bytes, headers: dict[str, str]) -> HttpResponse:
        address = self.destination.endpoint.rstrip("/") + path
        sent = {**self.destination.headers(), **headers}
        data = io.BytesIO(body)
        return _accepted(await answer_to(self.client, "POST", address, again=_AGAIN, headers=sent, data=data))

    def _drop(self, error: Refused, count: int) -> int:
        self.telemetry.drop(f"export_{self.exporter}", error.reason, count)
        logger.error("exporter %s: %d records dropped: %s", self.exporter, count, error)
        return count

    def _count_rejected(self, claimed: int, count: int) -> int:
        """Count what the endpoint says that it has rejected of `count` records: none to all of them."""
        refused = bounded_refusals(claimed, count, self.exporter)
        if refused:
            self.telemetry.drop(f"export_{self.exporter}", DropReason.PARTIAL_SUCCESS, refused)
        return refused

    def _failed(self, error: ExportUnavailable) -> None:
        self.problem = str(error)
        self.telemetry.counter(EXPORT_FAILURES, self.exporter, error.reason).inc()


class OtlpEndpointSettings(ExporterSettings):
    """An OTLP/HTTP endpoint."""

    endpoint: str = Field(pattern=r"^https?://")
    """The OTLP/HTTP endpoint; /v1/traces is added."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Sent with every request, like Authorization; usually ${env:NAME}."""
    header_files: dict[str, Path] = Field(default_factory=dict)
    """Files with further headers, {Authorization: /run/secrets/otlp}; read again when they change."""
    gzip: bool = True
    """Compress requests."""
    timeout: Seconds = Field(default=10.0, gt=0)
    """Deadline of one request."""
    give_up_after: Seconds = Field(default=3600.0, ge=0)
    """How long a request that the endpoint refuses (status 401, 403, 404, 500) is repeated; then its records are
    dropped and counted. The exporter waits for an endpoint that does not answer."""

    @field_validator("endpoint")
    @classmethod
    def _a_base(cls, url: str) -> str:
        return checked_base(url, "/v1/traces", "/v1/logs")


@asynccontextmanager
async def open_otlp_client(
    settings: OtlpEndpointSettings,
    context: ExportContext,
    backoff: Backoff | None = None,
    *,
    exporter: str = "otlp",
    confirm: Confirm,
) -> AsyncGenerator[OtlpClient]:
    """A client of the endpoint, which need not be there yet.

    Raises:
        ConfigError: a file with headers cannot be read.
    """
    headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
    try:
        secrets = SecretFiles(settings.header_files)
    except (OSError, ValueError) as error:
        where = "otlp" if exporter == "otlp" else f"{exporter}.otlp"
        raise ConfigError(f"export.{where}.header_files: {error}") from error
    async with HttpClient(headers, timeout=settings.timeout) as http:
        destination = OtlpDestination(settings.endpoint, settings.gzip, secrets.texts, settings.give_up_after)
        yield OtlpClient(
            http, destination, context.telemetry, backoff=backoff or Backoff(), exporter=exporter, confirm=confirm
        )


def _accepted(answer: HttpResponse) -> HttpResponse:
    why = no_otlp(answer) if answer.is_success else None
    if why is not None or not answer.is_success:
        raise Refused(answer.status_code, why, key="headers", place="nothing takes OTLP there")
    return answer


_REJECTED: Mapping[str, Callable[[HttpResponse], int]] = {
    "/v1/logs": lambda reply: _read_reply(reply, ExportLogsServiceResponse()).partial_success.rejected_log_records,
    "/v1/traces": lambda reply: _read_reply(reply, traces.ExportTraceServiceResponse()).partial_success.rejected_spans,
}
"""How many items of a request an answer refuses, by the request's path."""


def _read_reply(answer: HttpResponse, message: OtlpReply) -> OtlpReply:
    """The message of an answer; an empty one where it cannot be read, as the status says that all was taken."""
    try:
        if answer.content_type == "application/x-protobuf":
            message.ParseFromString(answer.content)
        elif answer.content:
            json_format.Parse(answer.content, message, ignore_unknown_fields=True)
    except (DecodeError, json_format.ParseError, ValueError):
        message.Clear()
    return message
