"""What others write into Kafka topics: OTLP, as the OpenTelemetry Collector does, or turns that they made themselves.

Nothing is expected of keys or of what a message holds: one trace, a part of one, or many. Every message of OTLP is cut
up by trace on its way into the spans log, so that the pieces of a trace meet in one partition there; turns go straight
into the turns log, by conversation. Deliveries made twice are harmless: the assembly knows a span again, and a turn has
the same id again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Literal, Protocol

from collector.backoff import Backoff
from collector.errors import BadInput
from collector.logs.log import Committed, Log, LogUnavailable, Record, RecordTooLarge, Stored
from collector.otlp import Signal
from collector.readymade import Incoming
from collector.receive.intake import Form, Intake, take_in
from collector.receive.turns import Known, Moments, TurnIntake, place_of, take_in_turns
from collector.redact.redactor import Redactor
from collector.telemetry import RECEIVED_ITEMS, Telemetry

Encoding = Literal["auto", "otlp_proto", "otlp_json"]
OnPoison = Callable[[Stored, BadInput], Awaitable[None]]
"""Takes a message that cannot be read; the topic goes on when it returns."""

_FORMS: dict[Encoding, Form | None] = {"auto": None, "otlp_proto": "protobuf", "otlp_json": "json"}


async def _pass(_message: Stored, _error: BadInput) -> None: ...


class Taken(Protocol):
    """What a message comes to."""

    @property
    def records(self) -> list[Record]:
        """To be appended."""
        ...

    def count(self, telemetry: Telemetry, source: str, size: int, now: float | None = None) -> None:
        """Count a message of `size` bytes that is durable, at a time (s since the epoch)."""
        ...


Read = Callable[[Stored], Taken]
"""Reads a message. Raises BadInput."""


class KafkaReceiver:
    """Opens the folds of a source topic's partitions. `topic` names it in what is said about it.

    `log` is the spans log, or for `turns` the turns log. `max_items` bounds the spans, log records or turns of one
    message: more are poison, like what cannot be read. `where` tells topic and partition of the number that a
    record has for its partition.
    """

    def __init__(
        self,
        topic: str,
        signal: Incoming,
        log: Log,
        telemetry: Telemetry,
        *,
        encoding: Encoding = "auto",
        max_items: int = 200_000,
        backoff: Backoff | None = None,
        on_poison: OnPoison = _pass,
        redactor: Redactor | None = None,
        where: Callable[[int], tuple[str, int]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        kept, held = ("turns", "turn") if signal == "turns" else ("spans", "trace")
        self._what = f"the {kept} log, for topic {topic},"
        self._too_large = f"a {held} in the message is larger than the {kept} log takes"
        self._signal: Incoming = signal
        self._log = log
        self._telemetry = telemetry
        self._form: Form | None = _FORMS[encoding]
        self._max_items = max_items
        self._backoff = backoff or Backoff()
        self._on_poison = on_poison
        self._redactor = redactor
        self._where = where
        self._topic = topic
        self._clock = clock
        telemetry.counter(RECEIVED_ITEMS, "kafka", signal, "accepted")  # a rise from nothing to 1 is one nobody sees

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[SourceFold]:
        """Open the fold of a partition; it needs nothing of what was committed."""
        del partition, committed
        if self._signal == "turns":
            yield TurnsFold(self, Moments(self._clock))
        else:
            yield SourceFold(self, partial(self._read_otlp, self._signal))

    async def take(self, messages: Sequence[Stored], fold: SourceFold) -> None:
        """Append what the messages hold to the log; returns when it is durable, however long that takes."""
        read = fold.reader()
        taken: list[tuple[Stored, Taken]] = []
        for message in messages:
            if message.value and not message.is_tick:  # no value: a tombstone
                try:
                    taken.append((message, read(message)))
                except BadInput as error:
                    await self._poison(message, error)
        try:
            await self._append([record for _, each in taken for record in each.records])
        except RecordTooLarge:
            await self._take_singly([message for message, _ in taken], fold)
            return
        now = self._clock()
        for message, each in taken:
            each.count(self._telemetry, "kafka", len(message.value), now)
            fold.took(message, each)

    async def _take_singly(self, messages: Sequence[Stored], fold: SourceFold) -> None:
        """Find the one that is too large."""
        if len(messages) == 1:
            await self._poison(messages[0], BadInput(self._too_large))
            return
        for message in messages:
            await self.take([message], fold)

    def read_turns(self, message: Stored, known: Callable[[str], bool], moments: Moments) -> TurnIntake:
        """Read a message of ready-made turns, but for those that are known. Raises BadInput."""
        where = self._where(message.partition) if self._where else (self._topic, message.partition)
        return take_in_turns(
            message.value,
            place_of(*where, message.position),
            at=partial(moments.next, message.timestamp),
            known=known,
            max_items=self._max_items,
            redactor=self._redactor,
        )

    def _read_otlp(self, signal: Signal, message: Stored) -> Intake:
        return take_in(message.value, signal, self._form, max_items=self._max_items, redactor=self._redactor)

    async def _append(self, records: list[Record]) -> None:
        if records:
            await self._backoff.repeat(lambda: self._log.append(records), LogUnavailable, what=self._what)

    async def _poison(self, message: Stored, error: BadInput) -> None:
        self._telemetry.drop("receive", "unreadable_message")
        await self._on_poison(message, error)


class SourceFold:
    """One partition of a source topic. It has no state: what was delivered is in the spans log."""

    due_at = None
    note = ""

    def __init__(self, receiver: KafkaReceiver, read: Read) -> None:
        self._receiver = receiver
        self._read = read

    @property
    def low_watermark(self) -> int | None:
        """Nothing that was delivered is needed again."""
        return None

    async def replay(self, records: Sequence[Stored]) -> None:
        """Nothing: what was delivered is in the log."""

    async def deliver(self, records: Sequence[Stored]) -> None:
        """Take messages in, all of a delivery in one append."""
        await self._receiver.take(records, self)

    def reader(self) -> Read:
        """Reads messages that shall be appended together."""
        return self._read

    def took(self, message: Stored, taken: Taken) -> None:
        """What a message comes to is durable."""


class TurnsFold(SourceFold):
    """One partition with ready-made turns. Its state are the turns of chats that may come again, grown."""

    def __init__(self, receiver: KafkaReceiver, moments: Moments) -> None:
        super().__init__(receiver, self._ids_alone)
        self._moments = moments
        self._known = Known()

    @property
    def low_watermark(self) -> int | None:
        """The oldest message that brought a turn that is remembered: a restart reads them from there."""
        return self._known.oldest

    async def replay(self, records: Sequence[Stored]) -> None:
        """Find out again what came before."""
        for record in records:
            if record.value and not record.is_tick:
                with suppress(BadInput):  # it was reported when it came
                    self.took(record, self._ids_alone(record))
            await asyncio.sleep(0)

    def _ids_alone(self, message: Stored) -> TurnIntake:
        return self._receiver.read_turns(message, lambda _turn_id: True, self._moments)

    async def deliver(self, records: Sequence[Stored]) -> None:
        """Take messages in, all of a delivery in one append."""
        await super().deliver(records)
        if records:  # none is left of a delivery of which nothing can be read
            self._known.forget(records[-1].position)

    def reader(self) -> Read:
        """Reads messages that shall be appended together: what one brings, the next need not."""
        fresh: set[str] = set()

        def known(turn_id: str) -> bool:
            return turn_id in fresh or turn_id in self._known

        def read(message: Stored) -> TurnIntake:
            intake = self._receiver.read_turns(message, known, self._moments)
            fresh.update(intake.again)
            return intake

        return read

    def took(self, message: Stored, taken: Taken) -> None:
        """Remember what may come again."""
        if isinstance(taken, TurnIntake):
            self._known.add(taken.again, message.position)
