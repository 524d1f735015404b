"""What happens to an OTLP request once its bytes are there, by whichever protocol they came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from collector.logs.log import Log, Record
from collector.otlp import Signal
from collector.receive.admission import Admission, Place
from collector.receive.intake import Form, Intake, take_in
from collector.receive.refusal import Refused
from collector.receive.settings import OtlpSettings
from collector.redact.redactor import Redactor
from collector.telemetry import (
    RECEIVE_DURATION,
    RECEIVE_PENDING_BYTES,
    RECEIVED_BYTES,
    RECEIVED_ITEMS,
    RECEIVED_REQUESTS,
    Telemetry,
)


class Reception:
    """Takes requests into the spans log within a receiver's limits, and counts them.

    `source` is what the receiver is called in counters, `done` the status of a request that was taken.
    """

    def __init__(
        self,
        source: str,
        done: str,
        settings: OtlpSettings,
        spans: Log,
        telemetry: Telemetry,
        *,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._settings = settings
        self._spans = spans
        self._telemetry = telemetry
        self._redactor = redactor
        self._clock = clock
        self._wall = wall
        self._stopping = False
        self._admission = Admission(
            max_requests=settings.max_requests,
            max_bytes=settings.max_pending_bytes,
            retry_after=settings.retry_after,
            pending=telemetry.gauge(RECEIVE_PENDING_BYTES),
        )
        for signal in ("traces", "logs"):  # an increase from nothing to 1 is one that Prometheus does not see
            telemetry.counter(RECEIVED_REQUESTS, signal, done)
            telemetry.counter(RECEIVED_ITEMS, source, signal, "accepted")
            telemetry.counter(RECEIVED_BYTES, source, signal)

    def now(self) -> float:
        """The time from which a request's duration is counted, in seconds."""
        return self._clock()

    def refuse(self) -> None:
        """Let nothing in from now on; what runs goes on."""
        self._stopping = True

    def check_open(self) -> None:
        """See whether requests are taken at all.

        Raises:
            Refused: 503, the receiver is stopping.
        """
        if self._stopping:
            raise Refused(503, "the receiver is stopping", retry_after=self._settings.retry_after)

    def place(self) -> AbstractContextManager[Place]:
        """A place for one request, given back at the end.

        Raises:
            Overloaded: all are taken.
        """
        return self._admission.place()

    async def take(self, body: bytes, signal: Signal, form: Form) -> Intake:
        """Take a whole request; it is durable on return.

        Raises:
            BadInput: it cannot be read, or holds too much.
            LogError: the spans log did not take it.
            TimeoutError: nor did it say so in time.
        """
        intake = take_in(body, signal, form, max_items=self._settings.max_items, redactor=self._redactor)
        await self._append(intake.records)
        intake.count(self._telemetry, self._source, len(body), self._wall())
        return intake

    async def _append(self, records: list[Record]) -> None:
        if records:
            async with asyncio.timeout(self._settings.log_deadline):
                await self._spans.append(records)

    def count(self, signal: Signal, status: str, started: float) -> None:
        """Count an answer to a request that came at `started`."""
        self._telemetry.counter(RECEIVED_REQUESTS, signal, status).inc()
        self._telemetry.histogram(RECEIVE_DURATION, signal).observe(self._clock() - started)
