"""Reads of an offset range of a partition, without a group: a small pool of consumers, one read at a time each.

A read may be cancelled while a thread polls for it. That consumer does not return to the pool: the thread would
consume records of the next read.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from kafka.consumer.group import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from collector.logs.kafka.connections import connect
from collector.logs.kafka.records import OnUnreadable, RecordDecoder
from collector.logs.kafka.settings import KafkaSettings, milliseconds, translated
from collector.logs.log import LogUnavailable, StoredRecord

T = TypeVar("T")

MAX_CONSUMERS = 4


class _RangeConsumer:
    """A consumer without a group. All its methods but `stop` block; one works at a time."""

    def __init__(self, settings: KafkaSettings, on_unreadable: OnUnreadable) -> None:
        self._settings = settings
        self._timeout = milliseconds(settings.request_timeout)
        self._on_unreadable = on_unreadable
        self._working = threading.Lock()
        self._stopped = threading.Event()
        self._decoding = RecordDecoder(settings.max_batch_bytes, lambda where: where.partition)
        options = {**settings.fetch_options(), "auto_offset_reset": "earliest"}
        self._consumer: Any = connect(KafkaConsumer, settings, options)
        self._decoding.install(self._consumer)

    def offsets(self, wanted: Sequence[TopicPartition], *, of_starts: bool = False) -> dict[TopicPartition, int]:
        ask = self._consumer.beginning_offsets if of_starts else self._consumer.end_offsets
        with self._working, translated(self._settings, reads=True):
            return ask(wanted, timeout_ms=self._timeout)

    def begin(self, where: TopicPartition, start: int) -> None:
        with self._working, translated(self._settings, reads=True):
            self._consumer.assign([where])
            self._consumer.seek(where, start)
            self._decoding.times.clear()

    def next(self, where: TopicPartition, end: int, limit: int, patience: float) -> list[StoredRecord]:
        """The next records before `end`; none when it is reached."""
        with self._working:
            return self._next(where, end, limit, patience)

    def _next(self, where: TopicPartition, end: int, limit: int, patience: float) -> list[StoredRecord]:
        give_up_at = time.monotonic() + patience
        while time.monotonic() < give_up_at and not self._stopped.is_set():
            with translated(self._settings, reads=True):
                records = self._consumer.poll(timeout_ms=200, max_records=limit).get(where, [])
            for unreadable in self._decoding.drain_unreadable():
                self._on_unreadable(unreadable)
            if records:
                return [record for record in records if record.offset < end] if records[-1].offset >= end else records
            with translated(self._settings, reads=True):
                offset = self._consumer.position(where, timeout_ms=self._timeout)
            if offset is not None and offset >= end:
                return []
        raise LogUnavailable(f"{where.topic}[{where.partition}] could not be read for {patience:g} s")

    def stop(self) -> None:
        """End a read whose result is no longer waited for. Does not block."""
        self._stopped.set()

    def close(self) -> None:
        with self._working, suppress(KafkaError):
            self._consumer.close(autocommit=False, timeout_ms=1000)


class RangeReader:
    """Reads ranges, each with a consumer of the pool; consumers are created when needed, at most four."""

    def __init__(self, settings: KafkaSettings, on_unreadable: OnUnreadable) -> None:
        self._settings = settings
        self._on_unreadable = on_unreadable
        self._threads = ThreadPoolExecutor(MAX_CONSUMERS, "kafka-reader")
        self._free = asyncio.Semaphore(MAX_CONSUMERS)
        self._idle: list[_RangeConsumer] = []
        self._closed = False

    async def offsets(self, wanted: Sequence[TopicPartition], *, of_starts: bool = False) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition will get, or of the oldest record: one request to a broker.

        Raises:
            LogUnavailable: no broker answers now.
        """
        async with self._consumer() as consumer:
            return await self._in_thread(partial(consumer.offsets, wanted, of_starts=of_starts))

    async def read(
        self, where: TopicPartition, start: int, *, limit: int, patience: float
    ) -> AsyncGenerator[Sequence[StoredRecord]]:
        """Batches of at most `limit` records from `start` to where the log ends as this begins."""
        async with self._consumer() as consumer:
            end = (await self._in_thread(consumer.offsets, [where]))[where]
            if start >= end:
                return
            await self._in_thread(consumer.begin, where, start)
            while records := await self._in_thread(consumer.next, where, end, limit, patience):
                yield records
                if records[-1].offset + 1 >= end:
                    break

    async def close(self) -> None:
        """Close the consumers that are idle."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(self._in_thread(consumer.close) for consumer in idle))
        self._closed = True
        self._threads.shutdown(wait=False)

    @asynccontextmanager
    async def _consumer(self) -> AsyncGenerator[_RangeConsumer]:
        async with self._free:
            consumer = self._idle.pop() if self._idle else await self._new()
            try:
                yield consumer
            except (LogUnavailable, asyncio.CancelledError):
                consumer.stop()
                with suppress(LogUnavailable):  # its process ends, and with it the connection
                    self._submit(consumer.close)
                raise
            except BaseException:
                self._idle.append(consumer)
                raise
            self._idle.append(consumer)

    async def _new(self) -> _RangeConsumer:
        creation = self._submit(_RangeConsumer, self._settings, self._on_unreadable)
        try:
            return await asyncio.wrap_future(creation)
        except asyncio.CancelledError:
            creation.add_done_callback(_close_unused)
            raise

    async def _in_thread(self, operation: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.wrap_future(self._submit(operation, *arguments))

    def _submit(self, operation: Callable[..., T], *arguments: Any) -> Future[T]:
        if self._closed:
            raise LogUnavailable("nothing is read any more: the process stops")
        return self._threads.submit(operation, *arguments)


def _close_unused(creation: Future[_RangeConsumer]) -> None:
    """Close a consumer whose creation is no longer waited for."""
    if not creation.cancelled() and creation.exception() is None:
        creation.result().close()
