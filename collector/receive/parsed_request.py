"""The parsing of an OTLP request into records of the spans log, one per trace.

A record's key is the trace id (32 hex digits), with `@` and the tenant where the sender is named; its value is that
trace's part of the request in protobuf, its header `signal` is `traces` or `logs`. A short description of the
trace's only turn may stand in front: see `collector.records.noted_turns`.

Feedback may be a log record without a trace: it names its response, long after the trace. It gets a trace id made of
the response's id, and goes through the spans log like any other. So do the records of a program that logs without spans
(Claude Code): all records of one prompt get a trace id made of the session's and the prompt's ids.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.logs.log import Headers, Record
from collector.otlp import decode
from collector.otlp.inline_media import omit_from_request
from collector.otlp.outline import Outline, outline_of
from collector.otlp.own_items import OWN_SCOPE, SIGNATURE, OwnItems
from collector.receive.rejection import NotRedacted
from collector.records.noted_turns import NotedTurn, has_note, with_note
from collector.records.tenants import trace_key
from collector.redact.otlp_request import RequestRedaction
from collector.redact.redactor import RedactionFailed, Redactor
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import INGEST_LAG, MEDIA_OMITTED, NOTED, RECEIVE_BYTES, RECEIVE_ITEMS

_NAME, _RESPONSE = "event.name", "gen_ai.response.id"
_PROMPTS = ("prompt.id", "prompt_id")
_SESSIONS = ("session.id", "conversation.id")
_NAMES = frozenset((_NAME, _RESPONSE, *_PROMPTS, *_SESSIONS))
_TIMED = "codex.user_prompt"
"""Codex's event of a prompt. If it names no prompt, its time is the prompt's id."""


def give_traces(request: decode.Request) -> bool:
    """Give trace ids to feedback and to log records of programs without spans; says whether there were any."""
    return sum(map(_give_trace, _list_without_trace(request))) > 0


def list_events_without_trace(request: decode.Request) -> list[str]:
    """The names of the events whose log records have no trace id."""
    return [_read_texts(record).get(_NAME) or record.event_name for record in _list_without_trace(request)]


def _list_without_trace(request: decode.Request) -> list[LogRecord]:
    if not isinstance(request, ExportLogsServiceRequest):
        return []
    scopes = (scope for resource in request.resource_logs for scope in resource.scope_logs)
    return [record for scope in scopes for record in scope.log_records if not any(record.trace_id)]


def _read_texts(record: LogRecord) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in record.attributes if pair.key in _NAMES}


def _give_trace(record: LogRecord) -> bool:
    texts = _read_texts(record)
    name = texts.get(_NAME) or record.event_name
    session, prompt = (next((texts[key] for key in keys if texts.get(key)), "") for keys in (_SESSIONS, _PROMPTS))
    if name == _TIMED and not prompt:
        prompt = str(record.time_unix_nano or record.observed_time_unix_nano)
    if prompt and session:
        key = f"{session}\x1f{prompt}"
    elif name == "gen_ai.evaluation.result":
        key = texts.get(_RESPONSE, "")
    else:
        return False
    if key:
        record.trace_id = hashlib.sha256(key.encode()).digest()[:16]
    return bool(key)


_TRACE_ID_BYTES = 16


class TurnNoting(Protocol):
    """Finds turns that no monitor can select; `selects` says whether the configuration allows such turns."""

    selects: Callable[[], bool]

    def find(self, parts: Sequence[decode.Part], tenant: str) -> NotedTurn | None:
        """Find the only turn in redacted parts of one trace; None if it is wanted or not certain."""
        ...


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """The records of a request, and counts of its items.

    `without_trace` items have no valid trace id; `self_emitted` ones were written by this service. `ended_at` (s since
    the epoch) is when the last span ended; None for log records and spans without an end. `omitted_media` counts
    pictures and the like whose content is not stored, `noted` the records with a note of their turn. `unreadable` items
    were left out; `reason` is the first one's.
    """

    signal: decode.Signal
    records: list[Record]
    accepted: int
    without_trace: int
    self_emitted: int
    ended_at: float | None = None
    omitted_media: int = 0
    noted: int = 0
    unreadable: int = 0
    reason: str = ""

    @property
    def items(self) -> int:
        """All items that the request held."""
        return self.accepted + self.without_trace + self.self_emitted + self.unreadable

    @property
    def rejected(self) -> int:
        """The items to report to the sender as rejected: a span needs a trace, a log record need not have one."""
        return self.unreadable + (self.without_trace if self.signal == "traces" else 0)

    @property
    def error_message(self) -> str:
        """Why items were rejected, for the sender; "" if none were."""
        traceless = self.rejected - self.unreadable
        parts = [f"{traceless} spans have no valid trace id"] if traceless else []
        if self.unreadable:
            parts.append(f"{self.unreadable} left out, the first because {self.reason}")
        return "; ".join(parts)

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count a durable request of `size` bytes, and its lag at `now` (s since the epoch; None counts no lag)."""
        if now is not None and self.ended_at is not None:
            telemetry.histogram(INGEST_LAG, source).observe(max(0.0, now - self.ended_at))
        telemetry.counter(RECEIVE_BYTES, source, self.signal).inc(size)
        telemetry.counter(RECEIVE_ITEMS, source, self.signal, "accepted").inc(self.accepted)
        if self.self_emitted:
            telemetry.counter(RECEIVE_ITEMS, source, self.signal, "ignored").inc(self.self_emitted)
        if self.omitted_media:
            telemetry.counter(MEDIA_OMITTED, source).inc(self.omitted_media)
        if self.noted:
            telemetry.counter(NOTED, source).inc(self.noted)
        if self.without_trace:
            result = "rejected" if self.signal == "traces" else "ignored"
            telemetry.counter(RECEIVE_ITEMS, source, self.signal, result).inc(self.without_trace)
            telemetry.drop("receive", DropReason(f"{self.signal}_without_trace_id"), self.without_trace)
        if self.unreadable:
            telemetry.counter(RECEIVE_ITEMS, source, self.signal, "rejected").inc(self.unreadable)
            telemetry.drop("receive", DropReason.UNREADABLE_ITEM, self.unreadable)


def parse(
    body: bytes,
    signal: decode.Signal,
    form: decode.Form | None = None,
    *,
    max_items: int | None = None,
    redactor: Redactor | None = None,
    tenant: str = "",
    own: OwnItems | None = None,
    stored_media: int = 0,
    notes: TurnNoting | None = None,
) -> ParsedRequest:
    """Parse a request and split it by trace; without a form it is detected. An empty body is an empty request.

    `tenant` is the sender's name, or "". Items that `own` has signed are left out. Media of more than `stored_media`
    bytes are replaced by hash and size. `notes` finds turns to note.

    Raises:
        TooLarge: it holds more than `max_items` spans or log records, or its traces come to much more than it.
        NotRedacted: the redactor failed on it.
        BadInput: it cannot be read.
    """
    if not body:
        return ParsedRequest(signal, [], 0, 0, 0)
    request, unreadable, reason, mended = decode.read_mended(body, signal, max_items, form=form)
    self_emitted = 0
    if own is not None and (form != "protobuf" or OWN_SCOPE.encode() in body):
        # to look at every attribute of every request would take long
        self_emitted = own.remove_from(decode.scopes_of(request), everywhere=SIGNATURE.encode() in body)
    omitted = omit_from_request(request, body, stored_media)
    changed = (signal == "logs" and give_traces(request)) or bool(self_emitted or omitted or mended)
    if redactor is None and form == "protobuf" and not changed:
        outline = outline_of(body, signal)
    else:
        outline = decode.outlined(request, known_fields_only=redactor is not None)
    del request  # which takes several times the body's memory
    groups = decode.group_by_trace(outline)
    items = accepted = 0
    for trace_id, parts in list(groups.items()):
        items += (number := decode.count_items(parts))
        if len(trace_id) == _TRACE_ID_BYTES and any(trace_id):
            accepted += number
        else:
            del groups[trace_id]
    # A request of one trace may be appended unchanged, but not if it is redacted: its bytes may hold unknown fields.
    # Nor if it begins like a note: only we write notes.
    may_stay = form == "protobuf" and redactor is None and not changed
    original = body if may_stay and len(groups) == 1 and accepted == items and not has_note(body) else None
    if redactor is not None:
        _redact(outline, groups, redactor)
    records, noted = _records(signal, outline, groups, tenant, notes, original)
    ended_at = _ended_at(signal, outline)
    without = items - accepted
    return ParsedRequest(signal, records, accepted, without, self_emitted, ended_at, omitted, noted, unreadable, reason)


def _records(
    signal: decode.Signal,
    request: Outline,
    groups: Mapping[bytes, Sequence[decode.Part]],
    tenant: str,
    notes: TurnNoting | None,
    original: bytes | None,
) -> tuple[list[Record], int]:
    """A record for each trace, and how many have a note of their turn."""
    headers: Headers = (("signal", signal.encode()),)
    writer = decode.PieceWriter(request)
    records: list[Record] = []
    noted = 0
    finds = notes is not None and signal == "traces" and notes.selects()
    for trace_id, parts in groups.items():
        piece = original or writer.piece(parts)
        turn = notes.find(parts, tenant) if notes is not None and finds else None
        if turn is not None:
            piece, noted = with_note(turn, piece), noted + 1
        records.append(Record(trace_key(trace_id.hex(), tenant), piece, headers))
    return records, noted


def _redact(request: Outline, groups: Mapping[bytes, Sequence[decode.Part]], redactor: Redactor) -> None:
    """Redact the parts of a request in place. Raises NotRedacted."""
    redaction = RequestRedaction(redactor)
    try:
        redaction.surroundings(request)
        for parts in groups.values():
            for _, _, items in parts:
                redaction.add_items(items)
        redaction.finish()
    except RedactionFailed as error:
        raise NotRedacted(f"a text could not be redacted ({error}), so nothing of the request is stored") from None


def _ended_at(signal: decode.Signal, request: Outline) -> float | None:
    """When the last span ended: senders list spans in the order of their ends, so the others are not read."""
    if signal != "traces":
        return None
    for resource in reversed(request.resource_spans):
        for scope in reversed(resource.scope_spans):
            if scope.spans:
                return scope.spans[-1].end_time_unix_nano / 1e9 or None
    return None
