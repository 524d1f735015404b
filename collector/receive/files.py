"""OTLP files into the spans log: `.pb` and `.json` hold one request, `.jsonl` one OTLP/JSON request a line.

A directory means its files in the order of their names. Whether a request is of traces or of logs is read off its keys
(JSON), the file's name, or else the content.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.backoff import Backoff
from collector.errors import BadInput, ConfigError
from collector.logs.log import Log, LogUnavailable, Record, RecordTooLarge
from collector.otlp import Signal
from collector.receive.intake import Form, take_in
from collector.redact.redactor import Redactor
from collector.telemetry import Telemetry

logger = logging.getLogger(__name__)

_SUFFIXES = (".pb", ".json", ".jsonl")
_BATCH_BYTES = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A request as a file holds it. `place` is the file, and the line where there are several."""

    place: str
    signal: Signal
    form: Form
    body: bytes


@dataclass(frozen=True, slots=True)
class FileCount:
    """What was read: requests, spans and log records, and the requests that could not be read."""

    requests: int
    items: int
    unreadable: int


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The OTLP files that paths name: files as they are, directories with all that is in them.

    Raises:
        ConfigError: a path does not exist, or is no OTLP file by its name.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES)
        elif not path.exists():
            raise ConfigError(f"{path} does not exist")
        elif path.suffix not in _SUFFIXES:
            raise ConfigError(f"{path} is no OTLP file by its name; it should end in {', '.join(_SUFFIXES)}")
        else:
            found.append(path)
    return found


def requests_in(path: Path) -> Iterator[FileRequest]:
    """The requests of one file; whether they can be read is seen when they are.

    Raises:
        OSError: the file cannot be read.
    """
    if path.suffix == ".jsonl":
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield FileRequest(f"{path}:{number}", _signal_of_json(line, path), "json", line)
        return
    body = path.read_bytes()
    form: Form = "json" if path.suffix == ".json" else "protobuf"
    signal = _signal_of_json(body, path) if form == "json" else _signal_of_protobuf(body, path)
    yield FileRequest(str(path), signal, form, body)


async def read_files(
    paths: Sequence[Path],
    spans: Log,
    telemetry: Telemetry,
    *,
    backoff: Backoff | None = None,
    redactor: Redactor | None = None,
) -> FileCount:
    """Read all files into the spans log; returns when everything is durable.

    A request that cannot be read is counted, named in the log and passed. Reading the same files again does no harm
    while their traces are remembered: a span is known again.

    Raises:
        ConfigError: a path does not exist, is no OTLP file, or cannot be read.
    """
    reader = _Reader(spans, telemetry, backoff or Backoff(), redactor)
    for path in files_in(paths):
        try:
            await reader.read(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    await reader.flush()
    return FileCount(reader.requests, reader.items, reader.unreadable)


class _Reader:
    """Gathers what files hold into appends of a few megabytes."""

    def __init__(self, spans: Log, telemetry: Telemetry, backoff: Backoff, redactor: Redactor | None) -> None:
        self.requests = self.items = self.unreadable = 0
        self._spans = spans
        self._telemetry = telemetry
        self._backoff = backoff
        self._redactor = redactor
        self._records: list[Record] = []
        self._bytes = 0

    async def read(self, path: Path) -> None:
        """Read one file."""
        requests = requests_in(path)
        while (request := await asyncio.to_thread(next, requests, None)) is not None:
            self._take(request)
            if self._bytes >= _BATCH_BYTES:
                await self.flush()

    def _take(self, request: FileRequest) -> None:
        self.requests += 1
        try:
            intake = take_in(request.body, request.signal, request.form, redactor=self._redactor)
        except BadInput as error:
            self._leave_out(request.place, str(error))
            return
        intake.count(self._telemetry, "files", len(request.body))
        self.items += intake.accepted
        self._records += intake.records
        self._bytes += len(request.body)

    async def flush(self) -> None:
        """Append what was gathered."""
        records, self._records, self._bytes = self._records, [], 0
        if records:
            try:
                await self._append(records)
            except RecordTooLarge:
                await self._append_what_fits(records)

    async def _append_what_fits(self, records: list[Record]) -> None:
        for record in records:
            try:
                await self._append([record])
            except RecordTooLarge:
                self._leave_out((record.key or b"").decode(), "the trace is larger than the spans log takes")

    async def _append(self, records: list[Record]) -> None:
        await self._backoff.repeat(lambda: self._spans.append(records), LogUnavailable, what="the spans log")

    def _leave_out(self, what: str, why: str) -> None:
        self.unreadable += 1
        self._telemetry.drop("receive", "unreadable_file")
        logger.warning("%s is left out: %s", what, why)


def _signal_of_json(body: bytes, path: Path) -> Signal:
    """By the request's own key, wherever it comes in the document; a request of neither is left to its reading."""
    traces, logs = (
        _position(body, *names)
        for names in ((b"resourceSpans", b"resource_spans"), (b"resourceLogs", b"resource_logs"))
    )
    if traces == logs:
        return _signal_of_name(path) or "traces"
    return "traces" if traces < logs else "logs"


def _position(body: bytes, *names: bytes) -> int:
    return min((at for at in (body.find(b'"%s"' % name) for name in names) if at >= 0), default=len(body))


def _signal_of_protobuf(body: bytes, path: Path) -> Signal:
    """By the name, else by trial: a log record read as a span has no ids of the right size."""
    named = _signal_of_name(path)
    if named:
        return named
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return "logs"
    spans = (span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans)
    return "traces" if all(len(span.trace_id) == 16 and len(span.span_id) == 8 for span in spans) else "logs"


def _signal_of_name(path: Path) -> Signal | None:
    name = path.stem.lower()
    if "trace" in name or "span" in name:
        return "traces"
    return "logs" if "log" in name else None
