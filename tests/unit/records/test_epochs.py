"""What a former owner writes is void, for every reader, wherever it begins to read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collector.evaluate.recovery.control_records import ControlRecord, parse_control_record
from collector.evaluate.recovery.ledger import Ledger
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import Committed, Log, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.epochs import (
    LOOK_BACK,
    Fence,
    claim_record,
    epoch_of,
    fence_at,
    fenced,
    owner_of,
    stamped,
    valid_evaluations,
)


def evaluation(name: str, epoch: int | None) -> Record:
    return Record(name.encode(), stamped(b'{"evaluation_id":"%s"}' % name.encode(), epoch), partition=0)


async def log_of(*records: Record) -> MemoryLog:
    log = MemoryLog("evaluations", 1, timing=ConsumerTiming(batch_records=3))
    await log.append(records)
    return log


async def names(log: Log, start: int = 0) -> list[str]:
    return [(record.key or b"").decode() async for record in valid_evaluations(log, 0, start)]


@pytest.mark.parametrize(
    ("value", "epoch", "result"),
    [
        (b'{"a":1}', 7, b'{"epoch":7,"a":1}'),
        (b"{}", 7, b'{"epoch":7}'),
        (b'{"a":1}', None, b'{"a":1}'),
    ],
)
def test_a_stamp_is_the_first_field(value: bytes, epoch: int | None, result: bytes) -> None:
    assert stamped(value, epoch) == result
    assert epoch_of(result) == epoch


@pytest.mark.parametrize("value", [b"", b'{"epoch":-1}', b'{"epoch":"7"}', b'{"a":{"epoch":7}}', b'{"epoch":7.5}'])
def test_what_is_no_stamp(value: bytes) -> None:
    assert epoch_of(value) is None


async def test_a_former_owner_is_void_from_the_next_claim_on() -> None:
    log = await log_of(
        evaluation("old release", None),
        claim_record("one", 1, 0, turns=0),
        evaluation("of one", 1),
        claim_record("two", 2, 0, turns=0),
        evaluation("late", 1),
        evaluation("of two", 2),
        evaluation("of a command", None),
        evaluation("late, too", 1),
    )
    assert await names(log) == ["old release", "of one", "of two", "of a command"]
    assert await names(log, 4) == ["of two", "of a command"], "it begins with a record of the former owner"
    assert await names(log, 7) == []


async def test_a_reader_that_begins_far_behind_the_claim_learns_the_epoch_from_the_records_before() -> None:
    written = [evaluation(f"{number}", 2) for number in range(LOOK_BACK[0] + 10)]
    log = await log_of(claim_record("two", 2, 0, turns=0), *written, evaluation("late", 1), evaluation("next", 2))
    start = await log.end_offset(0) - 2
    assert (await fence_at(log, 0, start)).epoch == 2
    assert await names(log, start) == ["next"]


async def test_a_long_stretch_without_epochs_hides_none() -> None:
    commands = [evaluation(f"{number}", None) for number in range(LOOK_BACK[0] + 10)]
    log = await log_of(claim_record("two", 2, 0, turns=0), *commands, evaluation("late", 1))
    assert await names(log, len(commands) + 1) == []


class Taken:
    due_at = low_watermark = None
    metadata = ""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        self.values += [each.key for each in records]

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        self.values += [each.key for each in records]


async def test_a_fold_is_not_given_what_is_void() -> None:
    from contextlib import asynccontextmanager

    log = await log_of(claim_record("two", 2, 0, turns=0), evaluation("late", 1), evaluation("of two", 2))
    taken, void = Taken(), list[int]()

    @asynccontextmanager
    async def open_fold(_partition: int, _committed: Committed | None):
        yield taken

    records = [record async for batch in log.read(0, 1) for record in batch]
    async with fenced(log, open_fold, void.append)(0, Committed(1, 1)) as fold:
        await fold.replay(records[:1])
        await fold.deliver(records)
    assert (taken.values, void) == ([b"of two"], [1])


def test_an_older_release_reads_a_claim_as_a_decision_that_changes_nothing() -> None:
    record = claim_record("one", 3, 0, turns=17)
    assert parse_control_record(record.value) == ControlRecord(offset=17)
    assert owner_of(StoredRecord(0, 0, 0.0, None, record.value, record.headers)) == "one"
    assert owner_of(StoredRecord(0, 0, 0.0, None, stamped(b'{"at":1}', 3), record.headers)) is None


async def certain() -> None:
    """It owns the partition."""


async def test_an_owner_reads_the_ledger_as_it_is_at_its_claim() -> None:
    log = await log_of(evaluation("before", None))
    ledger = Ledger(log, 0)
    await ledger.read_back(0)
    await log.append([evaluation("meanwhile", None)])
    await ledger.claim(certain, turns=0)
    assert ledger.epoch == 1
    assert "before" in ledger
    assert "meanwhile" in ledger


async def test_a_former_owner_that_wakes_up_before_its_claim_does_not_void_the_owner() -> None:
    """It stood still between its look at the log and its claim; another one has claimed the partition meanwhile."""
    log = await log_of()
    frozen, owner = Ledger(log, 0), Ledger(log, 0)
    await frozen.read_back(0)
    asked = 0

    async def stands_still() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            await owner.read_back(0)
            await owner.claim(certain, turns=0)
        else:
            raise TimeoutError  # it is the owner no more

    with pytest.raises(TimeoutError):
        await frozen.claim(stands_still, turns=0)
    assert (owner.epoch, frozen.epoch) == (1, None)
    await log.append([evaluation("of the owner", owner.epoch)])
    assert await names(log) == ["of the owner"]


async def test_decisions_of_a_former_owner_are_not_applied_again() -> None:
    log = await log_of()
    former, owner = Ledger(log, 0), Ledger(log, 0)
    for each in (former, owner):
        await each.read_back(0)
        await each.claim(certain, turns=0)
    await former.append(ControlRecord(offset=5, evictions={"m": ["a"]}).to_record(0))
    await owner.append(ControlRecord(offset=6, evictions={"m": ["b"]}).to_record(0))
    await log.append([evaluation("late", former.epoch)])
    following = Ledger(log, 0)
    await following.read_back(0)
    assert [each.offset for each in following.control_records] == [6]
    assert "late" not in following
    assert (former.epoch, owner.epoch) == (1, 2)


def test_an_epoch_that_two_claim_is_its_first_claimants() -> None:
    fence = Fence()
    for number, owner in enumerate(("one", "two")):
        record = claim_record(owner, 4, 0, turns=0)
        assert fence.observe(StoredRecord(0, number, 0.0, None, record.value, record.headers))
    assert fence.epoch == 4
