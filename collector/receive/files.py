"""Files as input of the logs: `.pb` and `.json` hold one OTLP request, `.jsonl` one OTLP/JSON request a line.

A directory means its files in the order of their names. Whether a request is of traces or of logs is read off its keys
(JSON), the file's name, or else the content. In the place of a request a `.json` file or a line may hold ready-made
turns, conversations or chats, which go into the turns log. A file whose name ends in `.references.json` or
`.references.jsonl` holds references, one in `.feedback.json` or `.feedback.jsonl` feedback.
"""

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.backoff import Backoff
from collector.errors import BadInput, ConfigError
from collector.logs.log import Log, LogUnavailable, Record, RecordTooLarge
from collector.logs.memory import MemoryLog
from collector.otlp.decode import Form, Signal
from collector.receive.feedback_ingest import ParsedDocuments, parse_feedback, parse_references
from collector.receive.otlp_ingest import IngestRules
from collector.receive.parsed_request import ParsedRequest
from collector.receive.turn_ingest import ArrivalTimes, ParsedTurns, RecentTurns, parse_turns
from collector.records.ready_made import Incoming, NotReadymade, documents_in
from collector.records.shared_records import append_shared
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry

logger = logging.getLogger(__name__)

_Parsed: TypeAlias = ParsedRequest | ParsedTurns | ParsedDocuments

_SUFFIXES = (".pb", ".json", ".jsonl")
_BATCH_BYTES = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class FileRequest:
    """A request as a file holds it. `place` is the file, and the line where there are several.

    JSON that is no request has the signal of turns: if it is none of these either, reading it gives the error.
    """

    place: str
    signal: Incoming
    form: Form
    body: bytes


@dataclass(frozen=True, slots=True)
class FileCount:
    """Counts of the requests and the like, spans, log records and turns that were read, and of unreadable requests."""

    requests: int
    items: int
    unreadable: int


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The files that paths name: files as they are, directories with all that is in them.

    Raises:
        ConfigError: a path does not exist, or has another ending.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(each for each in path.iterdir() if each.suffix in _SUFFIXES)
        elif not path.exists():
            raise ConfigError(f"{path} does not exist")
        elif path.suffix not in _SUFFIXES:
            raise ConfigError(f"{path} holds neither OTLP nor turns by its name; it must end in {', '.join(_SUFFIXES)}")
        else:
            files.append(path)
    return files


def requests_in(path: Path) -> Iterator[FileRequest]:
    """The requests of one file; whether they can be read is seen when they are.

    Raises:
        OSError: the file cannot be read.
    """
    if path.suffix == ".jsonl":
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    signal = _document_kind(path) or _signal_of_json(line, path)
                    yield FileRequest(f"{path}:{number}", signal, "json", line)
        return
    body = path.read_bytes()
    if kind := _document_kind(path):
        yield FileRequest(str(path), kind, "json", body)
        return
    form: Form = "json" if path.suffix == ".json" else "protobuf"
    signal = _signal_of_json(body, path) if form == "json" else _signal_of_protobuf(body, path)
    yield FileRequest(str(path), signal, form, body)


async def read_files(
    paths: Sequence[Path],
    spans: Log,
    turns: Log,
    telemetry: Telemetry,
    *,
    labels: Log | None = None,
    rules: IngestRules | None = None,
) -> FileCount:
    """Read all files into the spans log, and ready-made turns into the turns log; returns when everything is durable.

    Feedback goes into the `labels` log; without one it cannot be read.

    A request that cannot be read is counted, named in the log and passed. Reading the same files again does no harm
    while their traces and turns are remembered: a span is known again, and so is a turn.

    Raises:
        ConfigError: a path does not exist, has another ending, or cannot be read.
    """
    reader = _Reader(
        _Batch(spans, "trace", "spans"),
        _Batch(turns, "turn", "turns"),
        None if labels is None else _Batch(labels, "piece of feedback", "labels"),
        telemetry,
        rules or IngestRules(),
    )
    for path in files_in(paths):
        try:
            await reader.read(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    await reader.flush()
    return FileCount(reader.requests, reader.items, reader.unreadable)


def first_unreadable(path: Path) -> str | None:
    """The first of the first hundred requests of a file that cannot be read, and why."""
    spans, turns, labels = (_Batch(MemoryLog(name, 1), name, name) for name in ("spans", "turns", "labels"))
    reader = _Reader(spans, turns, labels, Telemetry(), IngestRules())
    for _, request in zip(range(100), requests_in(path), strict=False):
        try:
            reader.parse(request)
        except BadInput as error:
            return f"{request.place} cannot be read: {error}"
    return None


class _Batch:
    """Gathers records into appends of a few megabytes."""

    def __init__(self, log: Log, unit: str, log_name: str) -> None:
        self.too_large = f"the {unit} is larger than the {log_name} log accepts"
        self._action = f"writing to the {log_name} log"
        self.log = log
        self._backoff = Backoff()
        self._records: list[tuple[str, Record]] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        return self._bytes >= _BATCH_BYTES

    def add(self, place: str, records: Sequence[Record]) -> None:
        self._records += ((place, record) for record in records)
        self._bytes += sum(len(record.value) for record in records)

    async def flush(self) -> list[str]:
        """Append what was gathered; gives the places of what is too large, once for each record."""
        located, self._records, self._bytes = self._records, [], 0
        try:
            await self._append([record for _, record in located])
        except RecordTooLarge:
            return [place for place, record in located if not await self._fits(record)]
        return []

    async def _fits(self, record: Record) -> bool:
        try:
            await self._append([record])
        except RecordTooLarge:
            return False
        return True

    async def _append(self, records: list[Record]) -> None:
        if records:
            await self._backoff.repeat(lambda: append_shared(self.log, records), LogUnavailable, action=self._action)


@dataclass(eq=False, repr=False)
class _Reader:
    """Reads files one after the other; turns of a chat that comes again are left out."""

    spans: _Batch
    turns: _Batch
    labels: _Batch | None
    telemetry: Telemetry
    rules: IngestRules

    def __post_init__(self) -> None:
        self.requests = self.items = self.unreadable = 0
        self._recent_turns = RecentTurns()
        self._arrival_times = ArrivalTimes()

    async def read(self, path: Path) -> None:
        """Read one file."""
        requests = requests_in(path)
        while (request := await asyncio.to_thread(next, requests, None)) is not None:
            self._add(request)
            if any(batch.full for batch in self._batches()):
                await self.flush()

    def _add(self, request: FileRequest) -> None:
        self.requests += 1
        try:
            parsed = self.parse(request)
        except BadInput as error:
            self._skip(request.place, str(error))
            return
        parsed.count(self.telemetry, "files", len(request.body))
        self.items += parsed.accepted
        self._batch_of(parsed).add(request.place, parsed.records)
        if isinstance(parsed, ParsedTurns):
            if self.labels is not None:
                self.labels.add(request.place, parsed.feedback)
            self._recent_turns.add(parsed.repeatable, self.requests)
            self._recent_turns.forget(self.requests)

    def _batches(self) -> tuple[_Batch, ...]:
        return tuple(batch for batch in (self.spans, self.turns, self.labels) if batch is not None)

    def _batch_of(self, parsed: _Parsed) -> _Batch:
        if isinstance(parsed, ParsedDocuments) and parsed.signal == "feedback":
            assert self.labels is not None  # else it was not read
            return self.labels
        return self.spans if isinstance(parsed, ParsedRequest) else self.turns

    def parse(self, request: FileRequest) -> _Parsed:
        """The request's records. Raises BadInput: it cannot be read."""
        redactor = self.rules.redactor_of(request.body)
        if request.signal == "feedback":
            if self.labels is None:
                raise BadInput("feedback is taken by the service alone")
            return parse_feedback(request.body, self.rules.feedback, tenant=None, redactor=redactor)
        if request.signal == "references":
            return parse_references(request.body, self.turns.log, tenant=None, redactor=redactor)
        if request.signal != "turns":
            return self.rules.parse(request.body, request.signal, request.form, redactor=redactor)
        known = self._recent_turns.__contains__
        try:
            return parse_turns(
                request.body,
                request.place,
                at=self._arrival_times.next,
                known=known,
                redactor=redactor,
                stored_media=self.rules.stored_media,
                comments=self.rules.feedback.comments,
            )
        except NotReadymade as error:
            raise BadInput(f"no OTLP request (resourceSpans, resourceLogs), and {error}") from None

    async def flush(self) -> None:
        """Append what was gathered."""
        for batch in self._batches():
            for place in await batch.flush():
                self._skip(place, batch.too_large)

    def _skip(self, location: str, reason: str) -> None:
        self.unreadable += 1
        self.telemetry.drop("receive", DropReason.UNREADABLE_FILE)
        logger.warning("%s is skipped: %s", location, reason)


def _signal_of_json(body: bytes, path: Path) -> Incoming:
    """The signal by the request's own key, wherever that is in the document; a request of neither is left to its
    reading.
    """
    if not _OTLP_FIRST.match(body) and _holds_turns(body):
        return "turns"
    traces, logs = (_position(body, *_KEYS[signal]) for signal in ("traces", "logs"))
    if traces == logs:
        return _signal_of_name(path) or "traces"
    return "traces" if traces < logs else "logs"


def _document_kind(path: Path) -> Literal["references", "feedback"] | None:
    """The contents of a file by its name, if they are not traffic."""
    kinds: tuple[Literal["references", "feedback"], ...] = ("references", "feedback")
    return next((kind for kind in kinds if path.name.endswith((f".{kind}.json", f".{kind}.jsonl"))), None)


_KEYS: Mapping[Signal, tuple[bytes, ...]] = {
    "traces": (b"resourceSpans", b"resource_spans"),
    "logs": (b"resourceLogs", b"resource_logs"),
}
_OTLP_FIRST = re.compile(rb'\s*\{\s*"resource_?(?:Spans|Logs|spans|logs)"')
"""As nearly every request of OTLP/JSON begins: such a one is not read twice."""


def _holds_turns(body: bytes) -> bool:
    """Whether the first document is no request. A document with a key of OTLP is a request, whatever else it has."""
    try:
        first = next(iter(documents_in(body)), None)
    except BadInput:
        return False
    if not isinstance(first, Mapping) or not first:
        return False
    return not any(name.decode() in first for names in _KEYS.values() for name in names)


def _position(body: bytes, *names: bytes) -> int:
    return min((at for at in (body.find(b'"%s"' % name) for name in names) if at >= 0), default=len(body))


def _signal_of_protobuf(body: bytes, path: Path) -> Signal:
    """The signal by the file's name, else by trial: a log record read as a span has no ids of the right size."""
    if named := _signal_of_name(path):
        return named
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return "logs"
    spans = (span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans)
    return "traces" if all(len(span.trace_id) == 16 and len(span.span_id) == 8 for span in spans) else "logs"


def _signal_of_name(path: Path) -> Signal | None:
    name = path.stem.lower()
    if "trace" in name or "span" in name:
        return "traces"
    return "logs" if "log" in name else None
