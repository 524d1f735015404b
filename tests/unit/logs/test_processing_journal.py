"""The processing journal: whose step it was when a process ended, how that is counted, and what is left out of it."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collector.errors import BadInput
from collector.logs.journal.guard import KEY, FatalUnits, Guard
from collector.logs.journal.journal_file import JournalFile
from collector.logs.journal.processing_journal import ProcessingJournal, Unit
from collector.logs.log import Committed, LogUnavailable, Record, StoredRecord, place_of_number
from collector.logs.memory import MemoryLog

PLACE = "assemble spans 0"


class KilledError(Exception):
    """Stands for a kill: the journal is read at that moment."""


class Life:
    """One life of a process: a fold that dies at some records, behind a guard."""

    def __init__(self, log: MemoryLog, fatal: Sequence[int], limit: int = 3) -> None:
        self.units = FatalUnits(log, limit)
        self.journal = ProcessingJournal()
        self.journal.begin()
        self.fatal = fatal
        self.delivered: list[int] = []
        self.replayed: list[int] = []
        self.letters: list[int] = []
        self.last: Unit | None = None

    due_at = low_watermark = None
    metadata = ""

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        await self._process(records, self.replayed)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        await self._process(records, self.delivered)

    async def _process(self, records: Sequence[StoredRecord], into: list[int]) -> None:
        for record in records:
            await asyncio.sleep(0)
            if record.number in self.fatal:
                self.last = self.journal.last
                raise KilledError
            into.append(record.number)

    @asynccontextmanager
    async def open(self, _partition: int, _committed: Committed | None) -> AsyncGenerator[Life]:
        yield self

    def dead_letter(self, record: StoredRecord, error: BadInput) -> None:
        assert "in a row" in str(error)
        self.letters.append(record.number)

    async def run(self, *deliveries: Sequence[int], replay: Sequence[int] = (), timestamp: float = 5.0) -> bool:
        """Whether it survives the deliveries; if not, the next life knows."""
        guard = Guard(self.journal, self.units)
        guarded = guard.guarding("assemble", "spans", self.open, self.dead_letter)
        try:
            async with guarded(0, None) as fold:
                if replay:
                    await fold.replay(records(replay, timestamp))
                for each in deliveries:
                    await fold.deliver(records(each, timestamp))
        except KilledError:
            assert self.last is not None
            await self.units.record_ends([self.last])
            return False
        return True


def records(numbers: Sequence[int], timestamp: float) -> list[StoredRecord]:
    places = [place_of_number(number) for number in numbers]
    return [StoredRecord(0, offset, timestamp, None, b"x", (), piece) for offset, piece in places]


def number(offset: int, piece: int) -> int:
    return StoredRecord(0, offset, 0.0, None, b"", (), piece).number


async def test_a_record_that_kills_three_times_is_left_out_at_the_fourth_start() -> None:
    log = MemoryLog("definitions", 1)
    for _ in range(3):
        assert not await (life := Life(log, [3])).run(range(6))
        assert life.letters == []
    assert await (life := Life(log, [3])).run(range(6), [6])
    assert life.delivered == [0, 1, 2, 4, 5, 6]
    assert life.letters == [3]


async def test_it_is_left_out_of_replays_and_not_reported_again() -> None:
    log = MemoryLog("definitions", 1)
    for _ in range(3):
        await Life(log, [3]).run(range(6))
    await Life(log, [3]).run(range(6), [6])
    assert await (life := Life(log, [3])).run([7], replay=range(6))
    assert (life.replayed, life.delivered, life.letters) == ([0, 1, 2, 4, 5], [7], [])


async def test_another_record_at_the_same_offset_is_processed() -> None:
    """The topic was deleted and made again."""
    log = MemoryLog("definitions", 1)
    for _ in range(3):
        await Life(log, [3]).run(range(6))
    await Life(log, [3]).run(range(6), [6])
    assert await (life := Life(log, [])).run(range(6), timestamp=77.0)
    assert (life.delivered, life.letters) == (list(range(6)), [])


async def test_one_that_kills_in_the_replay_is_reported_with_the_next_delivery() -> None:
    log = MemoryLog("definitions", 1)
    for _ in range(3):
        assert not await Life(log, [1]).run([6], replay=range(3))
    assert await (life := Life(log, [1])).run([6], [7], replay=range(3))
    assert (life.replayed, life.delivered, life.letters) == ([0, 2], [6, 7], [1])


async def test_two_that_kill_are_both_left_out() -> None:
    log = MemoryLog("definitions", 1)
    lives = 0
    while not await (life := Life(log, [1, 4])).run(range(6), [6]):
        lives += 1
    assert lives == 3 + 3
    assert life.delivered == [0, 2, 3, 5, 6]


@pytest.mark.parametrize("at", [number(1, 0), number(1, 2), number(2, 0), number(2, 2)])
async def test_of_the_pieces_of_a_record_only_the_one_that_kills_is_left_out(at: int) -> None:
    log = MemoryLog("definitions", 1)
    every = [0, *(number(offset, piece) for offset in (1, 2) for piece in range(3)), 3]
    for _ in range(3):
        assert not await Life(log, [at]).run(every)
    assert await (life := Life(log, [at])).run(every, [4])
    assert (life.delivered, life.letters) == ([*(each for each in every if each != at), 4], [at])
    assert await (life := Life(log, [at])).run([5], replay=every)
    assert life.replayed == [each for each in every if each != at]


async def test_a_delivery_of_one_record_that_several_share_is_a_range() -> None:
    log = MemoryLog("definitions", 1)
    every = [number(7, piece) for piece in range(4)]
    lives = 0
    while not await (life := Life(log, [every[1], every[3]])).run(every, [8]):
        lives += 1
    assert (lives, life.delivered) == (3 + 3, [every[0], every[2], 8])


async def test_only_ends_in_a_row_count() -> None:
    log = MemoryLog("definitions", 1)
    for _ in range(4):
        assert not await Life(log, [3]).run([3])
        assert not await Life(log, [3]).run([3])
        assert await (life := Life(log, [])).run([3])
        assert life.letters == []


async def test_a_range_alone_makes_no_record_fatal() -> None:
    units = FatalUnits(MemoryLog("definitions", 1), 3)
    for _ in range(10):
        units.happened("ended", Unit(PLACE, 0, 9))
    assert not units.places[PLACE].ends


async def test_what_was_survived_is_forgotten_when_the_range_has_passed() -> None:
    log = MemoryLog("definitions", 1)
    await Life(log, [3]).run(range(6))
    assert await (life := Life(log, [])).run(range(4), range(4, 8))
    assert life.units.places.get(PLACE) is None
    fresh = FatalUnits(log, 3)
    await fresh.catch_up()
    assert fresh.places.get(PLACE) is None


async def test_nothing_is_current_while_the_fold_waits() -> None:
    journal = ProcessingJournal()
    journal.begin()
    slot = journal.open_slot(PLACE).at(4, 7)
    seen: list[Unit | None] = []

    async def work() -> str:
        seen.append(journal.current)
        await asyncio.sleep(0)
        seen.append(journal.current)
        return "done"

    async def look() -> None:
        seen.append(journal.current)

    looking = asyncio.create_task(look())
    assert await slot.drive(work()) == "done"
    await looking
    assert seen == [Unit(PLACE, 4, 7), None, Unit(PLACE, 4, 7)]
    assert journal.last is None


async def test_an_error_is_remembered_and_a_cancellation_is_not() -> None:
    journal = ProcessingJournal()
    journal.begin()

    async def fail(error: BaseException) -> None:
        await asyncio.sleep(0)
        raise error

    for expected in (LogUnavailable("not now"), asyncio.CancelledError()):
        with pytest.raises(type(expected)):
            await journal.open_slot(PLACE).at(1).drive(fail(expected))
        assert journal.last is None
    with pytest.raises(ZeroDivisionError):
        await journal.open_slot(PLACE).at(2).drive(fail(ZeroDivisionError()))
    assert journal.last == Unit(PLACE, 2, 2)


async def test_a_cancellation_reaches_what_is_driven() -> None:
    journal = ProcessingJournal()
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("yes")

    async def drive() -> None:
        await journal.open_slot(PLACE).at(1).drive(work())

    task = asyncio.create_task(drive())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["yes"]


def test_a_unit_inside_another_is_the_one_that_counts() -> None:
    journal = ProcessingJournal()
    journal.begin()
    outer, inner = journal.open_slot("outer").at(1), journal.open_slot("inner").at(2)
    with outer:
        with inner:
            assert journal.current == Unit("inner", 2, 2)
        assert journal.current == Unit("outer", 1, 1)
    assert journal.current is None


def test_when_all_slots_are_taken_nothing_is_noted_and_nothing_fails() -> None:
    journal = ProcessingJournal()
    slots = [journal.open_slot(str(number)) for number in range(600)]
    with slots[-1].at(1):
        assert journal.current is None
    for slot in slots:
        slot.close()
    with journal.open_slot("again").at(1):
        assert journal.current == Unit("again", 1, 1)


def test_the_file_outlives_the_process(tmp_path: Path) -> None:
    prefix = tmp_path / "evalstream.db-in-process"
    pid = os.fork()
    if pid == 0:
        file = JournalFile.open(prefix)
        assert file is not None
        file.begin()
        with file.journal.open_slot(PLACE).at(17, 19):
            os._exit(0)
    os.waitpid(pid, 0)
    file = JournalFile.open(prefix)
    assert file is not None
    assert file.ended_in() == [Unit(PLACE, 17, 19)]
    assert stat.S_IMODE((tmp_path / "evalstream.db-in-process-0").stat().st_mode) == 0o600
    file.begin()
    assert file.ended_in() == []
    file.close()


def test_processes_beside_each_other_have_files_of_their_own(tmp_path: Path) -> None:
    prefix = tmp_path / "a folder that is not there yet" / "j"
    first, second = JournalFile.open(prefix), JournalFile.open(prefix)
    assert first is not None
    assert second is not None
    for each, place in ((first, "first"), (second, "second")):
        each.begin()
        slot = each.journal.open_slot(place).at(1)
        slot.__enter__()
    for each in (first, second):
        each.close()
    third = JournalFile.open(prefix)
    assert third is not None
    assert {unit.place for unit in third.ended_in()} == {"first", "second"}
    third.begin()
    assert third.ended_in() == []
    third.close()


def test_a_file_that_cannot_be_made_or_is_something_else_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "no folder").touch()
    assert JournalFile.open(tmp_path / "no folder" / "j") is None
    assert "cannot be used" in caplog.text
    (tmp_path / "j-0").write_bytes(os.urandom(70_000))
    file = JournalFile.open(tmp_path / "j")
    assert file is not None
    assert file.ended_in() == []
    file.close()


async def test_records_of_others_and_of_newer_releases_are_passed_over() -> None:
    log = MemoryLog("definitions", 1)
    values = [b"", b"{}", b"[]", b'{"place": 1}', b'{"place": "p", "first": "x", "last": 2, "happened": "ended"}',
              b'{"place": "p", "first": 1, "last": 1, "happened": "danced"}']  # fmt: skip
    await log.append([Record(KEY.encode() + b"p", value, partition=0) for value in values])
    await log.append([Record(b"\xff", b"steps", partition=0), Record(None, b"steps", partition=0)])
    units = FatalUnits(log, 2)
    await units.catch_up()
    assert units.places.get("p") is None
