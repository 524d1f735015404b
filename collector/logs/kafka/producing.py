"""Appending to topics: one producer for all logs of a process, bounded in what it has on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaError
from kafka.producer.kafka import KafkaProducer

from collector.logs.in_flight import InFlight
from collector.logs.kafka.settings import KafkaSettings, connect, milliseconds, translate
from collector.logs.kafka.workarounds import abandon, is_broken
from collector.logs.log import LogError, LogUnavailable, Record, RecordTooLarge

OVERDUE = 5.0
"""Seconds after which, beyond the delivery timeout, a producer that has not even said that it failed is stuck.

kafka-python 3.0.12 waits for ever for a producer id that it has asked a broker for which then stood still.
"""

CLOSE_WITHIN = 5.0
"""Seconds that what is on its way may take when the producer is closed."""


class _Acknowledgements:
    """Collects the acknowledgements of one append; in kafka-python's thread until all are there."""

    def __init__(self, loop: asyncio.AbstractEventLoop, expected: int) -> None:
        self.all: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._expected = expected
        self._answers: list[Exception | None] = []

    def acknowledged(self, _metadata: object) -> None:
        self._answer(None)

    def failed(self, error: Exception) -> None:
        self._answer(error)

    def _answer(self, error: Exception | None) -> None:
        self._answers.append(error)  # from two threads, perhaps: the count is right all the same
        if len(self._answers) == self._expected:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        if self.all.done():
            return
        errors = [error for error in self._answers if error is not None]
        if errors:
            self.all.set_exception(_unacknowledged(errors[0]))
        else:
            self.all.set_result(None)


def _unacknowledged(error: Exception) -> LogError:
    """A broker that finds a record too large fails the appends of others with it, so that does not tell whose it was.

    Whether a broker takes the records that we take is seen to when the topics are opened.
    """
    translated = translate(error)
    return LogUnavailable(str(translated)) if isinstance(translated, RecordTooLarge) else translated


class Producing:
    """A producer with its own thread, because `send` can block when it does not know the topic yet.

    kafka-python bounds nothing by itself, so `in_flight` does.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.in_flight = InFlight(*settings.max_in_flight)
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "kafka-producer")
        self._producer: Any = None
        self._closed = False

    async def append(self, topic: str, placed: Mapping[int, Sequence[Record]], size: int) -> None:
        """Append records by partition; all brokers in sync have them on return.

        Raises:
            LogUnavailable: not all were acknowledged in time.
        """
        count = sum(map(len, placed.values()))
        await self.in_flight.acquire(count, size)
        loop = asyncio.get_running_loop()
        answers = _Acknowledgements(loop, count)

        def done(all_answers: asyncio.Future[None]) -> None:
            self.in_flight.release(count, size)
            if not all_answers.cancelled():
                all_answers.exception()  # who appended may have gone; then nobody else asks

        answers.all.add_done_callback(done)
        try:
            producer = await loop.run_in_executor(self._thread, self._send, topic, placed, answers)
        except BaseException:
            answers.all.cancel()
            raise
        try:
            async with asyncio.timeout(self._settings.delivery_timeout + OVERDUE):
                await asyncio.shield(answers.all)
        except TimeoutError:
            await loop.run_in_executor(self._thread, self._discard, producer)
            answers.all.cancel()
            raise LogUnavailable("the producer is stuck, and replaced by another") from None

    async def close(self) -> None:
        """Wait a little for what is on its way."""
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown(wait=False)

    def _send(self, topic: str, placed: Mapping[int, Sequence[Record]], answers: _Acknowledgements) -> Any:
        """Hand the records to a producer; returns which."""
        producer = self._connected()
        send = producer.send
        try:
            for partition, records in placed.items():
                for record in records:
                    sent = send(topic, record.value, record.key, list(record.headers), partition)
                    sent.add_callback(answers.acknowledged)
                    sent.add_errback(answers.failed)
        except KafkaError as error:
            raise translate(error) from error
        except ValueError as error:  # what it knows of the topic is older than the partition
            self._discard(producer)
            raise LogUnavailable(str(error)) from error
        return producer

    def _connected(self) -> Any:
        if self._closed:
            raise LogUnavailable("the producer is closed")
        if self._producer is not None and is_broken(self._producer):
            self._discard(self._producer)
        if self._producer is None:
            self._producer = connect(KafkaProducer, self._settings, self._options())
        return self._producer

    def _discard(self, producer: Any) -> None:
        if producer is not self._producer:
            return  # somebody else has seen to it
        self._producer = None
        abandon(producer)

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        return {
            **settings.client_options(),
            "acks": "all",
            "enable_idempotence": True,
            "compression_type": settings.compression,
            "linger_ms": milliseconds(settings.linger),
            "batch_size": 128 << 10,
            "max_request_size": settings.max_record_bytes + (1 << 20),
            "max_block_ms": milliseconds(settings.request_timeout),
            "delivery_timeout_ms": milliseconds(settings.delivery_timeout),
            "request_timeout_ms": milliseconds(min(settings.request_timeout, settings.delivery_timeout / 2)),
            "metrics_enabled": False,
        }

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(timeout=CLOSE_WITHIN)
        except KafkaError:  # what was not delivered fails at its append
            abandon(producer)
