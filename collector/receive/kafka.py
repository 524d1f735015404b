"""OTLP from Kafka: topics that the OpenTelemetry Collector, or any other producer of OTLP, writes.

Nothing is expected of keys or of what a message holds: one trace, a part of one, or many. Every message is cut up by
trace on its way into the spans log, so that the pieces of a trace meet in one partition there. Deliveries made twice
are harmless: the assembly knows a span again.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from collector.backoff import Backoff
from collector.errors import BadInput
from collector.logs.log import Committed, Log, LogUnavailable, Record, RecordTooLarge, Stored
from collector.otlp import Signal
from collector.receive.intake import Form, Intake, take_in
from collector.redact.redactor import Redactor
from collector.telemetry import Telemetry

Encoding = Literal["auto", "otlp_proto", "otlp_json"]
OnPoison = Callable[[Stored, BadInput], Awaitable[None]]
"""Takes a message that cannot be read; the topic goes on when it returns."""

_FORMS: dict[Encoding, Form | None] = {"auto": None, "otlp_proto": "protobuf", "otlp_json": "json"}


async def _pass(_message: Stored, _error: BadInput) -> None: ...


class KafkaReceiver:
    """Opens the folds of a source topic's partitions. `topic` names it in what is said about it.

    `max_items` bounds the spans or log records of one message: more are poison, like what cannot be read.
    """

    def __init__(
        self,
        topic: str,
        signal: Signal,
        spans: Log,
        telemetry: Telemetry,
        *,
        encoding: Encoding = "auto",
        max_items: int = 200_000,
        backoff: Backoff | None = None,
        on_poison: OnPoison = _pass,
        redactor: Redactor | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._what = f"the spans log, for topic {topic},"
        self._signal: Signal = signal
        self._spans = spans
        self._telemetry = telemetry
        self._form: Form | None = _FORMS[encoding]
        self._max_items = max_items
        self._backoff = backoff or Backoff()
        self._on_poison = on_poison
        self._redactor = redactor
        self._wall = wall

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[SourceFold]:
        """Open the fold of a partition; it needs nothing of what was committed."""
        del partition, committed
        yield SourceFold(self)

    async def take(self, messages: Sequence[Stored]) -> None:
        """Append what the messages hold to the spans log; returns when it is durable, however long that takes."""
        read: list[tuple[Stored, Intake]] = []
        for message in messages:
            if message.value and not message.is_tick:  # no value: a tombstone
                intake = await self._read(message)
                if intake is not None:
                    read.append((message, intake))
        try:
            await self._append([record for _, intake in read for record in intake.records])
        except RecordTooLarge:
            read = [each for each in read if await self._fits(*each)]
        now = self._wall()
        for message, intake in read:
            intake.count(self._telemetry, "kafka", len(message.value), now)

    async def _read(self, message: Stored) -> Intake | None:
        try:
            return take_in(message.value, self._signal, self._form, max_items=self._max_items, redactor=self._redactor)
        except BadInput as error:
            await self._poison(message, error)
            return None

    async def _fits(self, message: Stored, intake: Intake) -> bool:
        """Append one message by itself, after the batch it was in had a record that is too large."""
        try:
            await self._append(intake.records)
        except RecordTooLarge:
            await self._poison(message, BadInput("a trace in the message is larger than the spans log takes"))
            return False
        return True

    async def _append(self, records: list[Record]) -> None:
        if records:
            await self._backoff.repeat(lambda: self._spans.append(records), LogUnavailable, what=self._what)

    async def _poison(self, message: Stored, error: BadInput) -> None:
        self._telemetry.drop("receive", "unreadable_message")
        await self._on_poison(message, error)


class SourceFold:
    """One partition of a source topic. It has no state: what was delivered is in the spans log."""

    due_at = None
    low_watermark = None
    note = ""

    def __init__(self, receiver: KafkaReceiver) -> None:
        self._receiver = receiver

    async def replay(self, records: Sequence[Stored]) -> None:
        """Nothing: what was delivered is in the spans log."""

    async def deliver(self, records: Sequence[Stored]) -> None:
        """Take messages in, all of a delivery in one append."""
        await self._receiver.take(records)
