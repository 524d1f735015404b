"""Reading a stretch of a partition, apart from any group: a few consumers, lent out one read at a time.

Who reads may be cancelled while a thread polls for it. That consumer is not lent out again: the thread would take
what the next one reads.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from kafka.consumer.group import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from collector.logs.kafka.records import Decoding, OnPoison
from collector.logs.kafka.settings import KafkaSettings, connect, milliseconds, translated
from collector.logs.log import LogUnavailable, Stored

T = TypeVar("T")

READERS = 4


class _Reader:
    """A consumer without a group. All its methods but `stop` block; one works at a time."""

    def __init__(self, settings: KafkaSettings, on_poison: OnPoison) -> None:
        self._timeout = milliseconds(settings.request_timeout)
        self._on_poison = on_poison
        self._working = threading.Lock()
        self._stopped = threading.Event()
        self._decoding = Decoding(settings.max_batch_bytes, lambda where: where.partition)
        options = {**settings.fetch_options(), "auto_offset_reset": "earliest"}
        self._consumer: Any = connect(KafkaConsumer, settings, options)
        self._decoding.install(self._consumer)

    def end(self, where: TopicPartition) -> int:
        with self._working, translated():
            return self._consumer.end_offsets([where], timeout_ms=self._timeout)[where]

    def begin(self, where: TopicPartition, start: int) -> None:
        with self._working, translated():
            self._consumer.assign([where])
            self._consumer.seek(where, start)
            self._decoding.times.clear()

    def next(self, where: TopicPartition, end: int, limit: int, patience: float) -> list[Stored]:
        """The next records before `end`; none when it is reached."""
        with self._working:
            return self._next(where, end, limit, patience)

    def _next(self, where: TopicPartition, end: int, limit: int, patience: float) -> list[Stored]:
        give_up_at = time.monotonic() + patience
        while time.monotonic() < give_up_at and not self._stopped.is_set():
            with translated():
                found = self._consumer.poll(timeout_ms=200, max_records=limit).get(where, [])
            for poison in self._decoding.drain_poison():
                self._on_poison(poison)
            if found:
                return [record for record in found if record.position < end] if found[-1].position >= end else found
            with translated():
                position = self._consumer.position(where, timeout_ms=self._timeout)
            if position is not None and position >= end:
                return []
        raise LogUnavailable(f"{where.topic}[{where.partition}] could not be read for {patience:g} s")

    def stop(self) -> None:
        """Nobody waits for its work any more. Does not block."""
        self._stopped.set()

    def close(self) -> None:
        with self._working, suppress(KafkaError):
            self._consumer.close(autocommit=False, timeout_ms=1000)


class Reading:
    """Lends readers out; makes them when needed, at most a few."""

    def __init__(self, settings: KafkaSettings, on_poison: OnPoison) -> None:
        self._settings = settings
        self._on_poison = on_poison
        self._threads = ThreadPoolExecutor(READERS, "kafka-reader")
        self._places = asyncio.Semaphore(READERS)
        self._idle: list[_Reader] = []

    async def end(self, where: TopicPartition) -> int:
        """The position that the next record will get.

        Raises:
            LogUnavailable: no broker says so now.
        """
        async with self._reader() as reader:
            return await self._in_thread(reader.end, where)

    async def read(
        self, where: TopicPartition, start: int, *, limit: int, patience: float
    ) -> AsyncGenerator[Sequence[Stored]]:
        """Batches of at most `limit` records from `start` up to the end as it is at the first step."""
        async with self._reader() as reader:
            end = await self._in_thread(reader.end, where)
            if start >= end:
                return
            await self._in_thread(reader.begin, where, start)
            while records := await self._in_thread(reader.next, where, end, limit, patience):
                yield records
                if records[-1].position + 1 >= end:
                    break

    async def close(self) -> None:
        """Close the readers that are not lent out."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(self._in_thread(reader.close) for reader in idle))
        self._threads.shutdown(wait=False)

    @asynccontextmanager
    async def _reader(self) -> AsyncGenerator[_Reader]:
        async with self._places:
            reader = self._idle.pop() if self._idle else await self._new()
            try:
                yield reader
            except LogUnavailable:
                await self._in_thread(reader.close)
                raise
            except asyncio.CancelledError:
                reader.stop()
                self._threads.submit(reader.close)
                raise
            except BaseException:
                self._idle.append(reader)
                raise
            self._idle.append(reader)

    async def _new(self) -> _Reader:
        making = self._threads.submit(_Reader, self._settings, self._on_poison)
        try:
            return await asyncio.wrap_future(making)
        except asyncio.CancelledError:
            making.add_done_callback(_close_unused)
            raise

    async def _in_thread(self, operation: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, operation, *arguments)


def _close_unused(making: Future[_Reader]) -> None:
    """A reader was made that nobody waits for any more."""
    if not making.cancelled() and making.exception() is None:
        making.result().close()
