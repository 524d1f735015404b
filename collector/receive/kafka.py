"""Source topics: OTLP that the OpenTelemetry Collector writes into Kafka, or turns that producers write themselves.

Nothing is assumed about keys, nor about a message: it may hold one trace, a part of a trace, or many traces, perhaps in
an envelope (Confluent's five bytes, Kafka Connect's, CloudEvents'). Every OTLP message is split by trace on its way
into the spans log, so that the pieces of a trace are in one partition there; turns go straight into the turns log, by
conversation. Duplicate deliveries are harmless: assemble recognizes a span, and a turn gets the same id.
"""

import asyncio
import base64
import binascii
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Literal, Protocol, cast

import orjson

from collector.backoff import Backoff
from collector.errors import BadInput
from collector.logs.log import Committed, Log, LogUnavailable, Record, RecordTooLarge, StoredRecord, UntimedFold
from collector.otlp.decode import Form, Signal
from collector.otlp.json import without_mark
from collector.receive.feedback_ingest import ParsedDocuments, parse_feedback, parse_references
from collector.receive.otlp_ingest import IngestRules
from collector.receive.parsed_request import ParsedRequest
from collector.receive.turn_ingest import ArrivalTimes, ParsedTurns, RecentTurns, message_location, parse_turns
from collector.records.ready_made import Incoming
from collector.records.shared_records import append_shared
from collector.telemetry.drop_reasons import DropReason
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RECEIVE_ITEMS

_MAGIC, _PREFIX_BYTES = b"\x00", 5
"""Begins a message whose schema is registered: this byte, and the schema's id in four more."""


def unwrap(message: bytes) -> bytes:
    """The request in a message; a value without an envelope is returned unchanged, and so is an unreadable one."""
    if message[:1] == _MAGIC and len(message) > _PREFIX_BYTES:
        body = message[_PREFIX_BYTES:]
        return body[1:] if body[:1] == _MAGIC else body  # the index of the message in the schema; 0 is the first
    message = without_mark(message)
    if message[:1] != b"{" or not any(name in message for name in (b'"payload"', b'"specversion"')):
        return message
    try:
        document: Any = orjson.loads(message)
    except orjson.JSONDecodeError:
        return message
    envelope = cast("dict[str, Any]", document)
    if envelope.keys() == {"schema", "payload"}:
        return _payload_bytes(envelope["payload"], message)
    if "specversion" in envelope:
        return _payload_bytes(envelope.get("data_base64", envelope.get("data")), message)
    return message


def _payload_bytes(content: Any, message: bytes) -> bytes:
    """The bytes of what an envelope holds: an object, its JSON as a text, or bytes in base64."""
    if isinstance(content, dict | list):
        return orjson.dumps(content)
    if not isinstance(content, str):
        return message
    if content[:1] in {"{", "["}:
        return content.encode()
    try:
        return base64.b64decode(content, validate=True)
    except (ValueError, binascii.Error):
        return message


Encoding = Literal["auto", "otlp_proto", "otlp_json"]
OnUnreadableMessage = Callable[[StoredRecord, BadInput], None]
"""Takes a message that cannot be read; the topic continues when it returns."""

_UNITS: dict[Incoming, tuple[str, str]] = {
    "turns": ("turns", "turn"),
    "references": ("turns", "reference"),
    "feedback": ("labels", "piece of feedback"),
}
_FORMS: dict[Encoding, Form | None] = {"auto": None, "otlp_proto": "protobuf", "otlp_json": "json"}


def _pass(_message: StoredRecord, _error: BadInput) -> None: ...


class ParsedMessage(Protocol):
    """The content of a message."""

    @property
    def records(self) -> list[Record]:
        """The records to append."""
        ...

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count a message of `size` bytes that is durable, at a time (s since the epoch)."""


Read = Callable[[StoredRecord], ParsedMessage]
"""Reads a message. Raises BadInput."""


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """The settings of a source topic, or of several topics with the same form. `name` is what messages call it.

    `max_items` bounds the items of one message: more are dead-lettered, like what cannot be read. `locate` returns the
    topic and its partition for a record's partition; without it they are `name` and the same number. `await_older`
    waits until what is older than a time (s since the epoch) was read of the topics that belong to these.
    """

    name: str
    signal: Incoming
    encoding: Encoding = "auto"
    max_items: int = 200_000
    locate: Callable[[int], tuple[str, int]] | None = None
    await_older: Callable[[float], Awaitable[None]] | None = None

    def place(self, partition: int) -> tuple[str, int]:
        """The topic and its partition for a record's partition."""
        return self.locate(partition) if self.locate else (self.name, partition)


@dataclass(eq=False, repr=False)
class KafkaReceiver:
    """Opens the folds of a source topic's partitions.

    `log` is the spans log, for turns and references the turns log, for feedback the labels log. Feedback in ready-made
    turns goes into the `labels` log, if there is one.
    """

    topic: SourceTopic
    log: Log
    telemetry: Telemetry
    _: KW_ONLY
    labels: Log | None = None
    rules: IngestRules = field(default_factory=IngestRules)
    backoff: Backoff = field(default_factory=Backoff)
    on_unreadable: OnUnreadableMessage = _pass
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        log_name, unit = _UNITS.get(self.topic.signal, ("spans", "trace"))
        self._action = f"writing {self.topic.name} to the {log_name} log"
        self._too_large = f"a {unit} in the message is larger than the {log_name} log accepts"
        # At 0 from the start: Prometheus sees no rise to 1 of a new series.
        self.telemetry.counter(RECEIVE_ITEMS, "kafka", self.topic.signal, "accepted")

    @asynccontextmanager
    async def open_fold(self, _partition: int, _committed: Committed | None) -> "AsyncGenerator[SourceFold]":
        """Open the fold of a partition; it needs nothing of what was committed."""
        if self.topic.signal == "turns":
            yield TurnsFold(self, ArrivalTimes(self.clock))
        elif self.topic.signal in ("references", "feedback"):
            yield SourceFold(self, self._read_documents)
        else:
            yield SourceFold(self, partial(self._read_otlp, self.topic.signal))

    async def ingest(self, messages: Sequence[StoredRecord], fold: "SourceFold") -> None:
        """Append what the messages hold to the log; returns when it is durable, however long that takes."""
        read = fold.reader()
        parsed: list[tuple[StoredRecord, ParsedMessage]] = []
        for message in messages:
            if message.value and not message.is_tick:  # no value: a tombstone
                try:
                    parsed.append((message, read(message)))
                except BadInput as error:
                    self._report_unreadable(message, error)
        try:
            await self._append(self.log, [record for _, message in parsed for record in message.records])
            if self.labels is not None:
                turns = [message for _, message in parsed if isinstance(message, ParsedTurns)]
                await self._append(self.labels, [record for parsed_turns in turns for record in parsed_turns.feedback])
        except RecordTooLarge:
            await self._ingest_singly([message for message, _ in parsed], fold)
            return
        now = self.clock()
        for message, parsed_message in parsed:
            parsed_message.count(self.telemetry, "kafka", len(message.value), now)
            fold.on_ingested(message, parsed_message)

    async def _ingest_singly(self, messages: Sequence[StoredRecord], fold: "SourceFold") -> None:
        """Ingest one at a time, to find the one that is too large."""
        if len(messages) == 1:
            self._report_unreadable(messages[0], BadInput(self._too_large))
            return
        for message in messages:
            await self.ingest([message], fold)

    def read_turns(
        self, message: StoredRecord, known: Callable[[str], bool], arrival_times: ArrivalTimes
    ) -> ParsedTurns:
        """Read a message of ready-made turns, without the known ones. Raises BadInput."""
        return parse_turns(
            unwrap(message.value),
            message_location(*self.topic.place(message.partition), message.offset),
            at=partial(arrival_times.next, message.timestamp),
            known=known,
            max_items=self.topic.max_items,
            redactor=self.rules.redactor_of(message.value),
            stored_media=self.rules.stored_media,
            comments=self.rules.feedback.comments,
        )

    def _read_documents(self, message: StoredRecord) -> ParsedDocuments:
        body, most, redactor = unwrap(message.value), self.topic.max_items, self.rules.redactor_of(message.value)
        if self.topic.signal == "references":
            return parse_references(body, self.log, tenant=None, max_items=most, redactor=redactor)
        return parse_feedback(body, self.rules.feedback, tenant=None, max_items=most, redactor=redactor)

    def _read_otlp(self, signal: Signal, message: StoredRecord) -> ParsedRequest:
        body, most, redactor = unwrap(message.value), self.topic.max_items, self.rules.redactor_of(message.value)
        return self.rules.parse(body, signal, _FORMS[self.topic.encoding], max_items=most, redactor=redactor)

    async def _append(self, log: Log, records: list[Record]) -> None:
        if records:
            await self.backoff.repeat(lambda: append_shared(log, records), LogUnavailable, action=self._action)

    def _report_unreadable(self, message: StoredRecord, error: BadInput) -> None:
        self.telemetry.drop("receive", DropReason.UNREADABLE_MESSAGE)
        self.on_unreadable(message, error)


class SourceFold(UntimedFold):
    """One partition of a source topic. It has no state: delivered records are in the spans, turns or labels log."""

    finishes_delivery = True

    def __init__(self, receiver: KafkaReceiver, read: Read) -> None:
        self._receiver = receiver
        self._read = read

    @property
    def low_watermark(self) -> int | None:
        """Nothing that was delivered is needed again."""
        return None

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Nothing: delivered records are in the log."""

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Ingest messages, all of a delivery together."""
        if records and (await_older := self._receiver.topic.await_older):  # none if nothing of a delivery can be read
            await await_older(records[0].timestamp)
        await self._receiver.ingest(records, self)

    def reader(self) -> Read:
        """Reads messages that are appended together."""
        return self._read

    def on_ingested(self, message: StoredRecord, parsed: ParsedMessage) -> None:
        """The content of a message is durable."""


class TurnsFold(SourceFold):
    """One partition with ready-made turns. Its state is the recent turns of chats that may be published again."""

    def __init__(self, receiver: KafkaReceiver, arrival_times: ArrivalTimes) -> None:
        super().__init__(receiver, self._read_ids)
        self._arrival_times = arrival_times
        self._recent_turns = RecentTurns()

    @property
    def low_watermark(self) -> int | None:
        """The oldest message with a turn that is remembered: a restart replays from there."""
        return self._recent_turns.oldest

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Remember the turns again."""
        for record in records:
            if record.value and not record.is_tick:
                with suppress(BadInput):  # it was reported when it arrived
                    self.on_ingested(record, self._read_ids(record))
            await asyncio.sleep(0)

    def _read_ids(self, message: StoredRecord) -> ParsedTurns:
        return self._receiver.read_turns(message, lambda _turn_id: True, self._arrival_times)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Ingest messages, all of a delivery together."""
        await super().deliver(records)
        if records:
            self._recent_turns.forget(records[-1].offset)

    def reader(self) -> Read:
        """Reads messages that are appended together; a turn that an earlier one of them has is left out of the later
        ones.
        """
        fresh: set[str] = set()

        def known(turn_id: str) -> bool:
            return turn_id in fresh or turn_id in self._recent_turns

        def read(message: StoredRecord) -> ParsedTurns:
            turns = self._receiver.read_turns(message, known, self._arrival_times)
            fresh.update(turns.repeatable)
            return turns

        return read

    def on_ingested(self, message: StoredRecord, parsed: ParsedMessage) -> None:
        """Remember what may be published again."""
        if isinstance(parsed, ParsedTurns):
            self._recent_turns.add(parsed.repeatable, message.offset)
