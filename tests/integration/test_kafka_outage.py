"""A broker that is away for longer than a session: what was delivered meanwhile, and what a replay sees afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from broker import Broker
from folds import following
from kafka_logs import fresh, numbered, open_log

from collector.logs.log import Committed, StoredRecord

SESSION = 3.0


class Appending:
    """A fold that needs all of its records, and can end a delivery late."""

    due_at = None
    low_watermark = 0
    metadata = ""
    finishes_delivery = True

    def __init__(self) -> None:
        self.opened = 0
        self.delivered: list[tuple[int, float]] = []
        self.replayed: list[tuple[int, float]] = []
        self.may_end = asyncio.Event()
        self.may_end.set()

    @asynccontextmanager
    async def open_fold(self, _partition: int, _committed: Committed | None) -> AsyncIterator[Appending]:
        self.opened += 1
        yield self

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        self.replayed += [(record.offset, record.timestamp) for record in records]

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        self.delivered += [(record.offset, record.timestamp) for record in records]
        await self.may_end.wait()


async def until(done: Callable[[], bool], within: float = 60.0) -> None:
    async with asyncio.timeout(within):
        while not done():
            await asyncio.sleep(0.05)


@pytest.mark.kafka
@pytest.mark.timeout(300)
async def test_nothing_is_delivered_again_and_a_replay_sees_the_same_times(own_broker: Broker) -> None:
    fold, group = Appending(), fresh("g")
    async with open_log(own_broker, session_timeout=SESSION) as log, following(log, group, fold.open_fold):
        for number in range(3):
            await log.append(numbered(number, number + 1))
            await until(lambda number=number: len(fold.delivered) == number + 1)
            await asyncio.sleep(0.2)  # each has a time of its own, and is committed
        count = 3
        while fold.opened < 2:  # a heartbeat that waited in a socket may save the session
            fold.may_end.clear()
            await log.append(numbered(count, count + 1))
            count += 1
            await until(lambda count=count: len(fold.delivered) == count)
            own_broker.pause()
            fold.may_end.set()
            await asyncio.sleep(4 * SESSION)
            own_broker.go_on()
            with suppress(TimeoutError):
                await until(lambda: fold.opened == 2, within=10)
        await log.append(numbered(count, count + 1))
        await until(lambda: fold.delivered[-1][0] == count)
    assert [offset for offset, _ in fold.delivered] == [*range(count + 1)]
    assert fold.replayed == fold.delivered[:count]


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.timeout(180)
@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_an_idle_consumer_says_once_that_no_broker_answers(
    own_broker: Broker, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """It wrote nothing for the 20 s until its group could not be joined for long."""
    caplog.set_level("INFO", logger="collector.backoff")
    fold, group = Appending(), fresh("g")

    def lines() -> list[str]:
        return [text for text in caplog.messages if text.startswith(f"reading for group {group} ")]

    async with open_log(own_broker) as log, following(log, group, fold.open_fold):
        await log.append(numbered(0, 1))
        await until(lambda: len(fold.delivered) == 1)
        await asyncio.sleep(6.0)  # of idleness
        assert not lines()
        (own_broker.kill if how == "killed" else own_broker.pause)()
        await until(lambda: bool(lines()))
        assert "failed (no Kafka broker answers at " in lines()[0] or how == "paused"
        await asyncio.sleep(8.0)
        assert len(lines()) == 1
        await asyncio.to_thread(own_broker.start if how == "killed" else own_broker.go_on)
        await until(lambda: len(lines()) == 2)
        assert " succeeded after " in lines()[1]
        await log.append(numbered(1, 2))
        await until(lambda: fold.delivered[-1][0] == 1)
