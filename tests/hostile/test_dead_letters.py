"""Records that cannot be processed: put aside, counted, bounded, and processed again when asked for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from collector.backoff import Backoff
from collector.dead_letters import (
    DeadLetterSettings,
    DeadLetterWriter,
    TooManyDeadLetters,
    append_letters,
    letters_in,
    record_of,
)
from collector.errors import BadInput
from collector.logs.log import LogUnavailable, Record, StoredRecord, UnreadableRecords
from collector.logs.memory import MemoryLog
from collector.receive.kafka import KafkaReceiver, SourceTopic
from collector.receive.rejection import NotRedacted
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DEAD_LETTERS

BAD, GOOD = b"\xff\xff\xff", b""


def stored(position: int, value: bytes = BAD) -> StoredRecord:
    return StoredRecord(0, position, 100.0, b"k", value, (("h", b"v"),))


def letters(log, telemetry=None, *, keep=True, **settings) -> DeadLetterWriter:
    return DeadLetterWriter(
        "receive",
        "otlp_spans",
        log,
        telemetry or Telemetry(),
        DeadLetterSettings(**settings).keeping(keep),
        signal="traces",
    )


@asynccontextmanager
async def fold_of(dead: DeadLetterWriter, spans, signal="traces"):
    receiver = KafkaReceiver(SourceTopic("otlp_spans", signal), spans, Telemetry(), on_unreadable=dead.take)
    async with dead.wrap(receiver.open_fold)(0, None) as fold:
        yield fold


async def test_a_bad_record_is_put_aside_and_the_rest_goes_on():
    log, telemetry = MemoryLog("dead_letters", partitions=1), Telemetry()
    async with fold_of(letters(log, telemetry), MemoryLog("spans", partitions=1)) as fold:
        await fold.deliver([stored(7), stored(8, GOOD)])

    [letter] = [each async for each in letters_in(log)]
    assert (letter.stage, letter.source, letter.partition, letter.position) == ("receive", "otlp_spans", 0, 7)
    assert (letter.attempts, letter.size, letter.state) == (1, 3, "dead")
    assert "OTLP" in letter.reason
    assert telemetry.counter(DEAD_LETTERS, "receive", "BadInput")._value.get() == 1


@pytest.mark.parametrize("signal", ["traces", "logs", "turns"])
async def test_a_delivery_of_which_nothing_can_be_read_stops_no_source(signal):
    log = MemoryLog("dead_letters", partitions=1)
    async with fold_of(letters(log), MemoryLog("there", partitions=1), signal) as fold:
        await fold.deliver([UnreadableRecords(0, 7, 100.0, None, b"", end_offset=12, reason="the checksum is wrong")])
    assert [each.position async for each in letters_in(log)] == [7]


async def test_what_could_not_even_be_read_is_put_aside_with_its_place_and_stops_a_stage_like_the_rest():
    log, telemetry = MemoryLog("dead_letters", partitions=1), Telemetry()
    unreadable = [
        UnreadableRecords(0, at, 100.0, None, b"", end_offset=at + 5, reason="the checksum is wrong") for at in (7, 20)
    ]
    async with fold_of(letters(log, telemetry), MemoryLog("spans", partitions=1)) as fold:
        await fold.replay(unreadable)
        await fold.deliver([unreadable[0], stored(12, GOOD)])
        await fold.deliver([unreadable[1]])

    first, second = [each async for each in letters_in(log)]
    assert (first.position, first.kind, first.value, first.reason) == (
        7, "UnreadableBatch", None, "records 7 to 11 cannot be read: the checksum is wrong",
    )  # fmt: skip
    assert second.position == 20
    assert telemetry.counter(DEAD_LETTERS, "receive", "UnreadableBatch")._value.get() == 2
    async with fold_of(letters(log, max_consecutive=2), MemoryLog("spans", partitions=1)) as fold:
        with pytest.raises(TooManyDeadLetters):
            await fold.deliver(unreadable)


async def test_delivered_twice_it_is_one_letter():
    log = MemoryLog("dead_letters", partitions=1)
    async with fold_of(letters(log), MemoryLog("spans", partitions=1)) as fold:
        await fold.deliver([stored(7)])
        await fold.deliver([stored(7)])

    assert len([each async for each in letters_in(log)]) == 1


async def test_a_letter_gives_its_record_back_with_the_attempts():
    log = MemoryLog("dead_letters", partitions=1)
    async with fold_of(letters(log), MemoryLog("spans", partitions=1)) as fold:
        await fold.deliver([stored(7)])
    [letter] = [each async for each in letters_in(log)]

    assert record_of(letter) == Record(b"k", BAD, (("h", b"v"), ("attempts", b"1")))


async def test_without_leave_no_value_is_kept():
    log = MemoryLog("dead_letters", partitions=1)
    dead = letters(log, keep=False)
    dead.take(stored(1), BadInput("no"))
    async with fold_of(dead, MemoryLog("spans", partitions=1)) as fold:
        await fold.deliver([stored(1)])
    [letter] = [each async for each in letters_in(log)]

    assert letter.value is None
    assert letter.key is None
    assert record_of(letter) is None


async def test_what_could_not_be_redacted_is_never_kept():
    log = MemoryLog("dead_letters", partitions=1)
    dead = letters(log, keep_values=True)
    async with fold_of(dead, MemoryLog("spans", partitions=1)) as fold:
        dead.take(stored(1), NotRedacted("no"))
        await fold.deliver([])
    [letter] = [each async for each in letters_in(log)]

    assert letter.value is None


async def test_where_every_record_is_bad_it_stops_and_says_so():
    log = MemoryLog("dead_letters", partitions=1)
    async with fold_of(letters(log, max_consecutive=5), MemoryLog("spans", partitions=1)) as fold:
        await fold.deliver([stored(n) for n in range(4)])
        with pytest.raises(TooManyDeadLetters, match="5 records in a row"):
            await fold.deliver([stored(4)])

    assert len([each async for each in letters_in(log)]) == 5, "they are put aside before it stops"


async def test_the_share_of_bad_records_is_bounded_too():
    log = MemoryLog("dead_letters", partitions=1)
    async with fold_of(letters(log, max_ratio=0.5, window=10), MemoryLog("spans", partitions=1)) as fold:
        await fold.deliver([stored(n, BAD if n % 2 else GOOD) for n in range(30)])
        with pytest.raises(TooManyDeadLetters, match="of the last 10"):
            await fold.deliver([stored(n, BAD if n % 3 else GOOD) for n in range(30, 60)])


async def test_while_the_dead_letter_log_cannot_be_written_the_delivery_does_not_end():
    log = MemoryLog("dead_letters", partitions=1)
    working, may_work = log.append, asyncio.Event()
    tried = asyncio.Event()

    async def append(records):
        tried.set()
        if not may_work.is_set():
            raise LogUnavailable("the broker is down")
        await working(records)

    log.append = append
    dead = DeadLetterWriter(
        "receive", "t", log, Telemetry(), DeadLetterSettings(keep_values=True),
        backoff=Backoff(sleep=lambda _seconds: may_work.wait()),
    )  # fmt: skip
    async with fold_of(dead, MemoryLog("spans", partitions=1)) as fold:
        delivery = asyncio.create_task(fold.deliver([stored(1)]))
        await tried.wait()
        assert not delivery.done(), "the position is not committed before the letter is durable"
        may_work.set()
        await delivery

    assert len([each async for each in letters_in(log)]) == 1


async def test_what_is_too_large_for_the_log_goes_in_without_its_value():
    from collector.logs.log import RecordTooLarge

    log = MemoryLog("dead_letters", partitions=1)
    working = log.append

    async def append(records):
        if any(len(record.value) > 1000 for record in records):
            raise RecordTooLarge("too large")
        await working(records)

    log.append = append
    dead = letters(log)
    dead.take(stored(1, BAD * 1000), BadInput("no"))
    async with fold_of(dead, MemoryLog("spans", partitions=1)) as fold:
        await fold.deliver([])
    [letter] = [each async for each in letters_in(log)]

    assert letter.value is None
    assert letter.size == 3000
    await append_letters(log, [])


async def test_garbage_is_logged_once_a_minute_with_its_place_and_never_its_content(caplog: pytest.LogCaptureFixture):
    now = [0.0]
    garbage = b"\xff\xffsecret words of a customer"
    dead = DeadLetterWriter(
        "receive", "otlp_spans", MemoryLog("dead_letters", partitions=1), Telemetry(), DeadLetterSettings(keep_values=True),
        signal="traces", clock=lambda: now[0],
    )  # fmt: skip
    with caplog.at_level("WARNING", "collector.dead_letters"):
        async with fold_of(dead, MemoryLog("spans", partitions=1)) as fold:
            await fold.deliver([stored(7, garbage), stored(8, GOOD), stored(9, garbage)])
            await fold.deliver([stored(10, garbage)])
            now[0] = 61.0
            await fold.deliver([stored(11, garbage)])
    first, second = (record.getMessage() for record in caplog.records)
    assert first == (
        "receive dead-lettered 2 records, the first at otlp_spans, partition 0, offset 7: not an OTLP protobuf request "
        "of traces. See: evalstream dead-letters list"
    )
    assert second == first.replace("2 records", "1 record").replace("offset 7", "offset 11") + (
        " (1 more since the line before)"
    )
    assert "secret" not in caplog.text
