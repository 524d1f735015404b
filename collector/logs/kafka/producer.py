"""The producer that all logs of a process share, with a limit on what is in flight."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

from kafka.errors import IllegalStateError, KafkaError
from kafka.producer.kafka import KafkaProducer

from collector.admission.bounded_gate import BoundedGate
from collector.logs.kafka.connections import connect
from collector.logs.kafka.settings import KafkaSettings, milliseconds, translate
from collector.logs.kafka.workarounds import abandon, is_broken, woken_once
from collector.logs.log import LogError, LogRefused, LogUnavailable, Record, RecordTooLarge

OVERDUE = 5.0
"""Seconds beyond the delivery timeout after which a producer that has not even failed is stuck, and replaced.

kafka-python 3.0.12 waits indefinitely for a producer id that it requested from a broker that then hung. When a release
applies the request timeout to that request as well, this can go.
"""

ANSWERS_WITHIN = 10.0
"""Seconds after which an append that is not acknowledged says that the brokers do not take appends now."""

REFUSED_FOR = 20.0
"""A refused append means for this many seconds that the brokers take no appends."""

GATHERED_BYTES = 1 << 20
"""Bytes of appends that are handed over at once, without waiting for more."""

CLOSE_WITHIN = 5.0
"""Seconds that appends in flight may take when the producer is closed."""


class _ProducerClosed(LogUnavailable):
    """Another append has ended the producer: brokers may have refused that one."""


class _Append:
    """One append: collects its acknowledgements, in kafka-python's thread until all are there.

    It ends with `done`, whether or not a task still waits for that.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, topic: str, by_partition: Mapping[int, Sequence[Record]], count: int
    ) -> None:
        self.topic, self.by_partition = topic, by_partition
        self.done: asyncio.Future[None] = loop.create_future()
        self.producer: Any = None
        """The producer that it was given to; None until then."""
        self._loop = loop
        self._expected = count
        self._answers: list[Exception | None] = []
        self._begun = threading.Lock()

    def begin(self) -> bool:
        """Whether it has not begun: then the caller has, be it to send it or to withdraw it. From any thread."""
        return self._begun.acquire(blocking=False)

    def acknowledged(self, _metadata: object) -> None:
        self.answered(None)

    def reject(self, error: LogError) -> None:
        """End it: not all of it was given to a producer. From any thread."""
        self._call(self._finish, error)

    def answered(self, error: Exception | None) -> None:
        """A record was acknowledged, or failed."""
        self._answers.append(error)  # perhaps from two threads: list.append is atomic, so the count is right
        if len(self._answers) == self._expected:
            errors = [error for error in self._answers if error is not None]
            self._call(self._finish, _unacknowledged(errors[0], self.topic) if errors else None)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: no task waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _finish(self, error: LogError | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


def _unacknowledged(error: Exception, topic: str) -> LogError:
    """The error of one append, never RecordTooLarge: for one such record a broker fails the batches of others with it.

    That a broker accepts every record that we accept is checked when the topics are opened: who lowers the limit
    meanwhile makes them wait.
    """
    if isinstance(error, IllegalStateError):
        return _ProducerClosed("its producer was closed before brokers acknowledged the write; a new producer is made")
    translated = translate(error, topic=topic)
    if isinstance(translated, RecordTooLarge):
        return LogUnavailable(f"the topic takes no batch as large as this one; raise its max.message.bytes ({error!r})")
    return translated


class SharedProducer:
    """A producer with its own thread, because `send` blocks until it knows the topic.

    kafka-python does not limit what is in flight, so the gate `in_flight` does.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.in_flight = BoundedGate(*settings.max_in_flight)
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, "kafka-producer")
        self._producer: Any = None
        self._closed = False
        self._unacknowledged: dict[_Append, float] = {}
        """The appends in progress, the oldest first, with the event loop's time of their start."""
        self._acknowledged_at = 0.0
        self._gathered: list[_Append] = []
        """The appends that wait for others, to be handed over together."""
        self._gathered_bytes = 0
        self._handing_over: asyncio.TimerHandle | None = None
        self._refused: tuple[float, LogRefused] | None = None
        """When brokers have refused an append, and why; none since was acknowledged."""
        self._closed_for = self._refused
        """The same when the last producer was given up."""

    def require_answers(self) -> None:
        """See that brokers acknowledge what is appended.

        Raises:
            LogUnavailable: one has waited for long, and none was acknowledged meanwhile.
            LogRefused: one was refused a moment ago. Not for longer: who is unready gets nothing to append.
        """
        if self._refused is not None and asyncio.get_running_loop().time() - self._refused[0] < REFUSED_FOR:
            raise self._refused[1]
        oldest = next(iter(self._unacknowledged.values()), None)
        if oldest is None:
            return
        # A request that an earlier producer swallowed waits for its time-out while later ones are acknowledged already.
        waited = asyncio.get_running_loop().time() - max(oldest, self._acknowledged_at)
        if waited > ANSWERS_WITHIN:
            raise LogUnavailable(f"no append has been acknowledged for {waited:.0f} s")

    async def append(self, topic: str, by_partition: Mapping[int, Sequence[Record]], size: int) -> None:
        """Append records by partition; all brokers in sync have them on return.

        The append continues when its caller is cancelled: it holds its place in `in_flight` until it ends, and a
        producer that does not end it in time is replaced.

        Raises:
            LogUnavailable: not all were acknowledged in time.
        """
        if self._closed:
            raise LogUnavailable("the producer is closed")
        count = sum(map(len, by_partition.values()))
        reservation = await self.in_flight.wait(count, size)
        if self._closed:  # meanwhile
            reservation.release()
            raise LogUnavailable("the producer is closed")
        loop = asyncio.get_running_loop()
        append = _Append(loop, topic, by_partition, count)
        self._unacknowledged[append] = loop.time()
        overdue = loop.call_later(self._settings.delivery_timeout + OVERDUE, self._replace, append)

        def done(ended: asyncio.Future[None]) -> None:
            overdue.cancel()
            del self._unacknowledged[append]
            reservation.release()
            problem = None if ended.cancelled() else ended.exception()  # asking keeps asyncio from logging the error
            if isinstance(problem, LogRefused):
                self._refused = loop.time(), problem
            elif problem is None and not ended.cancelled():
                self._acknowledged_at, self._refused = loop.time(), None

        append.done.add_done_callback(done)
        self._gather(append, size)
        try:
            await asyncio.shield(append.done)
        except _ProducerClosed as closed:
            cause = f"; it was closed because of: {self._closed_for[1]}" if self._closed_for else ""
            raise LogUnavailable(f"{closed}{cause}") from closed
        except asyncio.CancelledError:
            if append.begin():  # nothing of it was sent, and nothing will be
                append.done.cancel()
            raise

    async def close(self) -> None:
        """Wait a little for what is in flight."""
        if not self._closed:
            self._hand_over_gathered()
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown(wait=False)

    def _gather(self, append: _Append, size: int) -> None:
        """Wait for other appends, so that simultaneous ones are one request and wake the threads once."""
        self._gathered.append(append)
        self._gathered_bytes += size
        if self._gathered_bytes >= GATHERED_BYTES:
            self._hand_over_gathered()
        elif self._handing_over is None:
            self._handing_over = asyncio.get_running_loop().call_later(self._settings.linger, self._hand_over_gathered)

    def _hand_over_gathered(self) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if self._handing_over is not None:
            self._handing_over.cancel()
            self._handing_over = None
        if gathered:
            self._thread.submit(self._send, gathered)

    def _replace(self, append: _Append) -> None:
        """Give up an append that is overdue, and the producer with it. The next append makes another."""
        append.reject(LogUnavailable("the producer is stuck, and replaced by another"))
        if not self._closed:
            self._thread.submit(self._discard, append.producer)

    def _send(self, appends: Sequence[_Append]) -> None:
        """Hand the records of some appends to a producer."""
        with nullcontext() if self._producer is None else woken_once(self._producer):
            for append in appends:
                if append.begin():
                    self._send_one(append)

    def _send_one(self, append: _Append) -> None:
        try:
            append.producer = producer = self._connected()
            self._hand_over(producer, append)
        except Exception as error:  # noqa: BLE001 - whatever it is, a task waits for the append
            append.reject(translate(error, self._settings, append.topic))

    def _hand_over(self, producer: Any, append: _Append) -> None:
        send, topic = producer.send, append.topic
        try:
            for partition, records in append.by_partition.items():
                for record in records:
                    at = None if record.timestamp is None else milliseconds(record.timestamp)
                    sent = send(topic, record.value, record.key, list(record.headers), partition, at)
                    sent.add_callback(append.acknowledged)
                    sent.add_errback(append.answered)
        except ValueError as error:  # its metadata of the topic is older than the partition
            self._discard(producer)
            raise LogUnavailable(str(error)) from error

    def _connected(self) -> Any:
        if self._closed:
            raise LogUnavailable("the producer is closed")
        if self._producer is not None and is_broken(self._producer):
            self._discard(self._producer)
        if self._producer is None:
            self._producer = connect(KafkaProducer, self._settings, self._options())
        return self._producer

    def _discard(self, producer: Any) -> None:
        if producer is not None and producer is self._producer:  # else another append has replaced it already
            self._producer, self._closed_for = None, self._refused
            abandon(producer)

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        return {
            **settings.client_options(),
            "acks": "all",
            "enable_idempotence": True,
            "compression_type": settings.compression,
            "linger_ms": 0,  # appends within `linger` are handed over together
            "batch_size": 512 << 10,  # of a partition one is on its way at a time: what does not fit waits for it
            "max_request_size": settings.max_record_bytes + (1 << 20),
            "max_block_ms": milliseconds(settings.request_timeout),
            "delivery_timeout_ms": milliseconds(settings.delivery_timeout),
            "request_timeout_ms": milliseconds(min(settings.request_timeout, settings.delivery_timeout / 2)),
            "metrics_enabled": False,
        }

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            try:
                producer.close(timeout=CLOSE_WITHIN)
            except KafkaError:  # what was not delivered fails at its append
                abandon(producer)
