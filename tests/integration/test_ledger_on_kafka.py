"""The ledger on a broker that takes an append and cannot say so in time."""

from __future__ import annotations

import asyncio

import pytest
from kafka_logs import open_log

from collector.backoff import Backoff
from collector.evaluate.recovery.ledger import Ledger, append_with_retry
from collector.logs.log import Record


@pytest.mark.long
@pytest.mark.kafka
async def test_what_was_appended_without_an_answer_is_not_appended_again(own_broker, caplog) -> None:
    async with open_log(own_broker, delivery_timeout=2.0, request_timeout=1.0) as log:
        ledger = Ledger(log, 0)
        await ledger.read_back(0)
        await log.append([Record(b"before", b"{}", partition=0)])
        own_broker.pause()
        again = Record(b"evaluation", b"{}", partition=0)
        writing = asyncio.create_task(append_with_retry(log, again, backoff=Backoff(cap=0.5), since=ledger.end_offset))
        async with asyncio.timeout(60):
            while not any("writing to" in each.message for each in caplog.records):
                await asyncio.sleep(0.05)
        own_broker.go_on()
        async with asyncio.timeout(60):
            await writing
        keys = [each.key async for batch in log.read(0, 0) for each in batch if not each.is_tick]
        assert keys == [b"before", b"evaluation"], "the broker had it before the wait was over"
        end = await log.end_offset(0)
        await append_with_retry(log, Record(b"evaluation", b"{}", partition=0), since=end)
        assert await log.end_offset(0) == end + 1, "an append that succeeds is not looked for"
