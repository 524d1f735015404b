"""Sends OTLP requests over HTTP as the protocol rules: what to try again, what to give up, what was refused in part."""

from __future__ import annotations

import asyncio
import gzip as gzip_
import io
import logging
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.backoff import Backoff
from collector.export.exporter import ExportUnavailable
from collector.telemetry import EXPORT_FAILURES, Telemetry

logger = logging.getLogger(__name__)

_AGAIN = frozenset({429, 502, 503, 504})  # OTLP/HTTP's list of retryable answers
_ANSWER_LIMIT = 64 * 1024


class OtlpClient:
    """Posts to `{endpoint}/v1/logs` and `/v1/traces`, protobuf, until each request is taken or refused for good."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: str,
        telemetry: Telemetry,
        *,
        gzip: bool,
        backoff: Backoff,
        exporter: str = "otlp",
    ) -> None:
        self._session = session
        self._endpoint = endpoint.rstrip("/")
        self._telemetry = telemetry
        self._gzip = gzip
        self._backoff = backoff
        self._exporter = exporter

    async def send_logs(self, request: ExportLogsServiceRequest) -> None:
        """Send log records."""
        count = sum(len(scope.log_records) for each in request.resource_logs for scope in each.scope_logs)
        if count:
            answer = await self._deliver("/v1/logs", request.SerializeToString(), count)
            self._count_refused(_refused_records(answer))

    async def send_traces(self, request: ExportTraceServiceRequest) -> None:
        """Send spans."""
        count = sum(len(scope.spans) for each in request.resource_spans for scope in each.scope_spans)
        if count:
            answer = await self._deliver("/v1/traces", request.SerializeToString(), count)
            self._count_refused(_refused_spans(answer))

    async def _deliver(self, path: str, body: bytes, count: int) -> bytes:
        """The body of the answer; none where the request was refused for good."""
        headers = {"Content-Type": "application/x-protobuf"}
        if self._gzip:
            body = gzip_.compress(body, 6, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return await self._backoff.repeat(
            lambda: self._post(path, body, headers, count),
            ExportUnavailable,
            what=f"exporter {self._exporter} ({path})",
            on_failure=self._failed,
        )

    async def _post(self, path: str, body: bytes, headers: dict[str, str], count: int) -> bytes:
        try:
            async with self._session.post(
                self._endpoint + path, data=io.BytesIO(body), headers=headers, allow_redirects=False
            ) as response:
                return self._settle(response, await _limited(response), count)
        except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError
            raise ExportUnavailable(f"no answer: {type(error).__name__}", reason="no_connection") from error

    def _settle(self, response: aiohttp.ClientResponse, answer: bytes, count: int) -> bytes:
        if response.status in _AGAIN:
            wait = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
            raise ExportUnavailable(f"status {response.status}", reason=f"http_{response.status}", retry_after=wait)
        if 200 <= response.status < 300:
            is_protobuf = response.content_type == "application/x-protobuf"
            return answer if is_protobuf else b""
        self._telemetry.drop(f"export_{self._exporter}", f"http_{response.status}", count)
        logger.error("exporter %s: %d records refused with status %d", self._exporter, count, response.status)
        return b""

    def _count_refused(self, refused: int) -> None:
        if refused > 0:
            self._telemetry.drop(f"export_{self._exporter}", "partial_success", refused)

    def _failed(self, error: ExportUnavailable) -> None:
        self._telemetry.counter(EXPORT_FAILURES, self._exporter, error.reason).inc()


def _refused_records(answer: bytes) -> int:
    try:
        return ExportLogsServiceResponse.FromString(answer).partial_success.rejected_log_records
    except DecodeError:
        return 0  # the status says that it was taken; what the body says beyond it is courtesy


def _refused_spans(answer: bytes) -> int:
    try:
        return ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans
    except DecodeError:
        return 0


async def _limited(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.readexactly(_ANSWER_LIMIT)
    except asyncio.IncompleteReadError as end:
        return end.partial


def retry_after(header: str | None, now: datetime) -> float | None:
    """The wait in seconds that a `Retry-After` asks for, as seconds or as a date; None where it says nothing."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())
