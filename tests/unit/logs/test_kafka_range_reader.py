"""Reading apart from a group, with a consumer that needs no broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.structs import TopicPartition

from collector.logs.kafka import range_reader as reading
from collector.logs.kafka.range_reader import RangeReader
from collector.logs.kafka.records import RecordDecoder, log_unreadable
from collector.logs.kafka.settings import KafkaSettings
from collector.logs.log import LogUnavailable, StoredRecord

END = 3
A, B = TopicPartition("evaluations", 0), TopicPartition("evaluations", 1)


class Consumer:
    """Gives one record per poll of what is assigned when the poll ends. Polls of `A` wait for `go`."""

    def __init__(self, go: threading.Event) -> None:
        self.polling = threading.Event()
        self.closed = threading.Event()
        self._go = go
        self._where = A
        self._at = 0

    def end_offsets(self, wanted: list[TopicPartition], **_: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(wanted, END)

    def assign(self, wanted: list[TopicPartition]) -> None:
        self._where = wanted[0]

    def seek(self, _where: TopicPartition, position: int) -> None:
        self._at = position

    def position(self, *_: Any, **__: Any) -> int:
        return self._at

    def poll(self, **_: Any) -> dict[TopicPartition, list[StoredRecord]]:
        if self._where == A:
            self.polling.set()
            assert self._go.wait(10)
        if self._at >= END:
            return {}
        self._at += 1
        return {self._where: [StoredRecord(self._where.partition, self._at - 1, 0.0, b"key", b"")]}

    def close(self, **_: Any) -> None:
        self.closed.set()


@pytest.fixture
def consumers(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[Consumer], threading.Event]]:
    made: list[Consumer] = []
    go = threading.Event()

    def connect(*_: Any) -> Consumer:
        made.append(Consumer(go))
        return made[-1]

    monkeypatch.setattr(reading, "connect", connect)
    monkeypatch.setattr(RecordDecoder, "install", lambda *_: None)
    yield made, go
    go.set()


async def positions(source: RangeReader, where: TopicPartition) -> list[int]:
    async with aclosing(source.read(where, 0, limit=10, patience=30)) as batches:
        return [record.offset async for batch in batches for record in batch]


async def test_a_read_that_is_given_up_takes_nothing_from_the_next(consumers):
    made, go = consumers
    source = RangeReader(KafkaSettings(bootstrap_servers=["nowhere:1"]), log_unreadable)
    given_up = asyncio.create_task(positions(source, A))
    while not (made and made[0].polling.is_set()):
        await asyncio.sleep(0.001)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert await positions(source, B) == list(range(END))
    assert len(made) == 2, "a thread still polls the first"
    go.set()
    assert await asyncio.to_thread(made[0].closed.wait, 10), "nobody else would close it"
    await source.close()
    assert made[1].closed.is_set()


async def test_a_reader_is_lent_out_again(consumers):
    made, _ = consumers
    source = RangeReader(KafkaSettings(bootstrap_servers=["nowhere:1"]), log_unreadable)
    assert await positions(source, B) == list(range(END))
    assert await positions(source, B) == list(range(END))
    assert await source.offsets([A, B]) == {A: END, B: END}
    assert len(made) == 1
    await source.close()


async def test_a_reader_that_nobody_waits_for_any_more_is_closed(consumers, monkeypatch):
    made, go = consumers
    connect, connecting = reading.connect, threading.Event()

    def slowly(*arguments: Any) -> Any:
        connecting.set()
        assert go.wait(10)
        return connect(*arguments)

    monkeypatch.setattr(reading, "connect", slowly)
    source = RangeReader(KafkaSettings(bootstrap_servers=["nowhere:1"]), log_unreadable)
    given_up = asyncio.create_task(source.offsets([B]))
    assert await asyncio.to_thread(connecting.wait, 10)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    go.set()
    assert await source.offsets([B]) == {B: END}
    async with asyncio.timeout(60):
        while sum(each.closed.is_set() for each in made) < 1:
            await asyncio.sleep(0.001)
    assert len(made) == 2
    await source.close()
    assert all(each.closed.is_set() for each in made)


async def test_a_read_that_is_given_up_after_the_end_is_no_failure(consumers):
    """A process that stops closed the reader while the other topic of its source still asked it, and ended with a traceback."""
    made, go = consumers
    source = RangeReader(KafkaSettings(bootstrap_servers=["nowhere:1"]), log_unreadable)
    given_up = asyncio.create_task(positions(source, A))
    while not (made and made[0].polling.is_set()):
        await asyncio.sleep(0.001)
    await source.close()
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    go.set()


async def test_what_is_asked_for_after_the_end_is_no_failure(consumers):
    """A process that stopped warned that the lag of a source could not be measured: the executor had ended."""
    del consumers
    reader = RangeReader(KafkaSettings(bootstrap_servers=["nowhere:1"]), log_unreadable)
    await reader.close()
    with pytest.raises(LogUnavailable, match="the process stops"):
        await reader.offsets([B])


async def test_what_fails_after_the_end_is_no_other_failure(consumers, monkeypatch):
    """The reader ends while a broker is asked, which does not answer in time: its consumer is closed in the executor."""
    _, go = consumers
    asked = threading.Event()

    def end_offsets(*_: Any, **__: Any) -> None:
        asked.set()
        assert go.wait(10)
        raise KafkaTimeoutError

    monkeypatch.setattr(Consumer, "end_offsets", end_offsets)
    reader = RangeReader(KafkaSettings(bootstrap_servers=["nowhere:1"]), log_unreadable)
    asking = asyncio.create_task(reader.offsets([B]))
    assert await asyncio.to_thread(asked.wait, 10)
    await reader.close()
    go.set()
    with pytest.raises(LogUnavailable):
        await asking
