from collections.abc import AsyncIterator, Sequence

import pytest

from collector.backoff import Backoff
from collector.evaluate.budget.rates import Rates
from collector.evaluate.recovery.control_records import ControlRecord
from collector.evaluate.recovery.ledger import Ledger, append_with_retry, end_offset
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import LogUnavailable, Record, StoredRecord
from collector.logs.memory import MemoryLog

SOON = Backoff(cap=0.001)


async def append(log: MemoryLog, *ids: str) -> None:
    await log.append([Record(each.encode(), b"{}", partition=0) for each in ids])


async def test_knows_what_the_log_holds_and_what_was_added() -> None:
    log = MemoryLog("evaluations", partitions=1)
    await append(log, "a", "b")
    ledger = Ledger(log, 0)
    await ledger.read_back(0)
    ledger.add("c")
    assert [each in ledger for each in "abcd"] == [True, True, True, False]


async def test_reads_back_from_the_mark_only() -> None:
    log = MemoryLog("evaluations", partitions=1)
    await append(log, "a", "b", "c")
    ledger = Ledger(log, 0)
    await ledger.read_back(2)
    assert [each in ledger for each in "abc"] == [False, False, True]
    assert ledger.start_offset == 2


async def test_the_mark_waits_for_the_low_watermark_and_the_horizon() -> None:
    log = MemoryLog("evaluations", partitions=1)
    ledger = Ledger(log, 0, horizon=100.0)
    await ledger.read_back(0)
    await append(log, "a")
    ledger.add("a")
    await ledger.checkpoint(turns=10, low_watermark=10, time=1000.0)  # position 1 covers turns from 10 on
    await append(log, "b")
    ledger.add("b")
    await ledger.checkpoint(turns=20, low_watermark=10, time=1020.0)  # position 2 covers turns from 20 on
    assert ledger.start_offset == 0, "within the horizon"
    await ledger.checkpoint(turns=30, low_watermark=12, time=1130.0)
    assert ledger.start_offset == 1, "turn 12 is still in play: what was judged of it lies behind position 1"
    assert [each in ledger for each in "ab"] == [False, True]
    await ledger.checkpoint(turns=40, low_watermark=40, time=1140.0)
    assert ledger.start_offset == 2
    assert len(ledger) == 0


async def test_a_restart_at_any_mark_knows_every_evaluation_of_turns_in_play() -> None:
    """Turn n leads to evaluation n. Whatever the low watermark is, evaluations of later turns are read back."""
    log = MemoryLog("evaluations", partitions=1)
    ledger = Ledger(log, 0, horizon=30.0)
    await ledger.read_back(0)
    for turn in range(200):
        await append(log, f"e{turn}")
        ledger.add(f"e{turn}")
        low = max(0, turn - 17)
        await ledger.checkpoint(turns=turn + 1, low_watermark=low, time=1000.0 + 3.0 * turn)
        restarted = Ledger(log, 0)
        await restarted.read_back(ledger.start_offset)
        assert all(f"e{each}" in restarted for each in range(low, turn + 1))
        assert all(f"e{each}" in ledger for each in range(low, turn + 1))
    assert len(ledger) < 60


async def test_nothing_is_forgotten_of_turns_that_an_earlier_owner_took_and_did_not_commit() -> None:
    """It had judged turns up to 50; its successor takes them all again, from 10 on, and long ago they are."""
    log = MemoryLog("evaluations", partitions=1)
    await append(log, *(f"e{turn}" for turn in range(50)))
    ledger = Ledger(log, 0, horizon=10.0, previous_end=50)
    await ledger.read_back(0)
    for turn in range(10, 50):
        assert f"e{turn}" in ledger
        await ledger.checkpoint(turns=turn + 1, low_watermark=turn + 1, time=1000.0 * turn)
    assert ledger.start_offset == 0
    for turn in range(50, 55):
        await ledger.checkpoint(turns=turn + 1, low_watermark=turn + 1, time=1000.0 * turn)
    assert (len(ledger), ledger.start_offset) == (0, 50)


class Unsteady(MemoryLog):
    """A log that is away for the next few questions."""

    away = 0

    async def end_offset(self, partition: int) -> int:
        if self.away:
            self.away -= 1
            raise LogUnavailable("away")
        return await super().end_offset(partition)

    async def read(self, partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        batches = super().read(partition, start)
        async for batch in batches:
            yield batch
            await self.end_offset(partition)


async def test_a_log_that_is_away_delays_reading_back_and_marks() -> None:
    log = Unsteady("evaluations", partitions=1, timing=ConsumerTiming(batch_records=2))
    await append(log, *"abc")
    await log.append([ControlRecord(offset=0).to_record(0)])
    assert await end_offset(log, 0) == 4
    log.away = 3
    assert await end_offset(log, 0, backoff=SOON) == 4
    log.away = 2
    ledger = Ledger(log, 0, horizon=0.0)
    await ledger.read_back(0, backoff=SOON)
    assert (len(ledger), len(ledger.control_records), log.away) == (3, 1, 0)
    log.away = 1
    await ledger.checkpoint(turns=10, low_watermark=10, time=1000.0)
    assert ledger.start_offset == 0, "nothing is marked, nothing forgotten"
    await ledger.checkpoint(turns=10, low_watermark=10, time=1001.0)
    await ledger.checkpoint(turns=20, low_watermark=20, time=1020.0)
    assert (ledger.start_offset, len(ledger)) == (4, 0)
    await append(log, "d")
    log.away = 2
    await ledger.retain_from_end(backoff=SOON)
    await ledger.checkpoint(turns=30, low_watermark=30, time=1040.0)
    await append(log, "e")
    await ledger.checkpoint(turns=40, low_watermark=40, time=1060.0)
    assert (ledger.start_offset, log.away) == (5, 0)


class Unanswering(MemoryLog):
    """A log whose first append is not acknowledged; `takes` says whether it was made all the same."""

    takes = True
    asked = 0

    async def append(self, records: Sequence[Record]) -> None:
        self.asked += 1
        if self.takes or self.asked > 1:
            await super().append(records)
        if self.asked == 1:
            raise LogUnavailable("no answer")


@pytest.mark.parametrize("takes", [True, False])
async def test_an_append_without_an_answer_is_made_once(takes: bool) -> None:
    log = Unanswering("evaluations", partitions=1)
    await MemoryLog.append(log, [Record(b"before", b"{}", partition=0)])
    log.takes = takes
    await append_with_retry(log, Record(b"new", b"{}", partition=0), backoff=SOON, since=1)
    stored = [record.key async for batch in log.read(0, 0) for record in batch if not record.is_tick]
    assert stored == [b"before", b"new"]
    assert log.asked == (2 if takes else 3), "with the mark behind which nothing can be hidden"


class Hiding(MemoryLog):
    """A leader without its replicas: it keeps what it is given, acknowledges nothing and lets nobody read it."""

    alone = True

    def __init__(self, name: str, partitions: int) -> None:
        super().__init__(name, partitions)
        self.hidden: list[Record] = []
        self.refused = 0

    async def append(self, records: Sequence[Record]) -> None:
        if not self.alone:
            await super().append([*self.hidden, *records])
            self.hidden.clear()
            return
        self.hidden += records
        self.refused += 1
        self.alone = self.refused < 4
        raise LogUnavailable("not enough replicas")


async def test_what_a_leader_holds_alone_is_not_appended_again() -> None:
    """Until an append is acknowledged nothing says that the evaluation is not there."""
    log = Hiding("evaluations", partitions=1)
    await append_with_retry(log, Record(b"new", b"{}", partition=0), backoff=SOON, since=0)
    stored = [record.key async for batch in log.read(0, 0) for record in batch if not record.is_tick]
    assert stored == [b"new"]


async def test_it_is_looked_for_only_behind_what_was_there_before() -> None:
    """The same id may stand there from long ago: an evaluation that a replay makes again."""
    log = Unanswering("evaluations", partitions=1)
    await MemoryLog.append(log, [Record(b"new", b"{}", partition=0)])
    log.takes = False
    await append_with_retry(log, Record(b"new", b"{}", partition=0), backoff=SOON, since=1)
    assert await log.end_offset(0) == 3


async def test_without_a_position_it_is_appended_again() -> None:
    log = Unanswering("evaluations", partitions=1)
    await append_with_retry(log, Record(b"decision", b"{}", partition=0), backoff=SOON)
    assert (log.asked, await log.end_offset(0)) == (2, 2)


async def test_a_restart_reads_back_the_last_account_however_far_the_mark_has_come() -> None:
    log = MemoryLog("evaluations", partitions=1)
    ledger = Ledger(log, 0, horizon=0.0)
    await ledger.read_back(0)
    await append(log, "a", "b")
    await ledger.retain_from_end()
    await ledger.append(ControlRecord(offset=7, rates=Rates(), budget={"spent": 3}).to_record(0))
    await ledger.append(ControlRecord(offset=8, evictions={"all": ["c"]}).to_record(0))
    for turn in range(1, 4):
        await ledger.checkpoint(turns=turn, low_watermark=turn, time=1000.0 * turn)
    assert ledger.start_offset == 2, "where the account stands, before the mark"
    restarted = Ledger(log, 0)
    await restarted.read_back(ledger.start_offset)
    assert restarted.saved_budget == {"spent": 3}


async def test_a_checkpoint_replaces_the_one_before_as_soon_as_all_below_it_is_done() -> None:
    log = MemoryLog("evaluations", partitions=1)
    ledger = Ledger(log, 0, horizon=0.0)
    assert (ledger.start_offset, ledger.end_offset, len(ledger)) == (0, 0, 0)
    await ledger.read_back(0)
    await append(log, "a", "b")
    ledger.add("a")
    await ledger.checkpoint(turns=5, low_watermark=5, time=1000.0)
    assert (ledger.start_offset, ledger.end_offset, len(ledger)) == (2, 2, 0)
    await append(log, "c")
    for later, offset in ((9.9, 2), (10.0, 3)):
        await ledger.checkpoint(turns=6, low_watermark=6, time=1000.0 + later)
        assert ledger.start_offset == offset, "every ten seconds"
