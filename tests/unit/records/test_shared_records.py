"""Pieces of several traces in one record: any packing reads back as it was, and one piece is nobody else's matter."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from made_up import Trace

from collector.assemble.open_traces import TraceLimits
from collector.assemble.stage import AssembleStage
from collector.assemble.trace import Assembler
from collector.dead_letters import DeadLetter, DeadLetterSettings, DeadLetterWriter, letters_in, record_of
from collector.dialects.registry import Dialects
from collector.link.turn_router import TurnRouter
from collector.logs.journal.guard import FatalUnits, Guard
from collector.logs.journal.processing_journal import Unit
from collector.logs.log import Record, RecordTooLarge, StoredRecord, UnreadableRecords, partition_of, place_of_number
from collector.logs.memory import MemoryLog
from collector.records.shared_records import (
    HEADERS,
    append_shared,
    divide_records,
    dividing,
    needed_pieces,
    share_records,
)
from collector.service.process import FoldNeeds, layered
from collector.telemetry.registry import Telemetry

ASSEMBLER = Assembler(Dialects.installed())


def piece(number: int, value: bytes = b"x", signal: bytes = b"traces") -> Record:
    return Record(b"%032x" % number, value, (("signal", signal),))


def stored(records: Sequence[Record], partitions: int = 1, first: int = 0) -> list[StoredRecord]:
    """As a log has them, a partition after the other."""
    found: list[StoredRecord] = []
    for partition in range(partitions):
        mine = [each for each in records if where(each, partitions) == partition]
        found += [
            StoredRecord(partition, first + offset, 5.0, each.key, each.value, each.headers)
            for offset, each in enumerate(mine)
        ]
    return found


def where(record: Record, partitions: int) -> int:
    return record.partition if record.partition is not None else partition_of(record.key or b"", partitions)


PIECES = st.builds(
    Record,
    st.one_of(
        st.integers(0, 4).map(lambda number: b"%032x" % number),
        st.integers(0, 4).map(lambda number: b"%032x@acme" % number),
        st.binary(max_size=3),
        st.just(b"k" * 2000),
    ),
    st.binary(max_size=300),
    st.sampled_from(
        [
            (("signal", b"traces"),),
            (("signal", b"logs"),),
            (("signal", b"other"),),
            (("signal", b"traces"), ("attempts", b"1")),
            (("pieces", b"2"),),
            (),
        ]
    ),
)


@given(st.lists(PIECES, max_size=60), st.integers(1, 5), st.integers(1, 600), st.integers(1, 20))
def test_any_packing_reads_back_as_the_same_pieces_in_the_same_order(
    records: list[Record], partitions: int, most_bytes: int, most_pieces: int
) -> None:
    shared = share_records(records, partitions, most_bytes=most_bytes, most_pieces=most_pieces)
    for each in shared:
        assert each in records or (len(each.value) <= most_bytes + 4 and each.headers == HEADERS)
    there = divide_records(stored(shared, partitions))
    for partition in range(partitions):
        mine = [each for each in there if each.partition == partition]
        assert [(each.key, each.value, each.headers) for each in mine] == [
            (each.key, each.value, each.headers) for each in records if where(each, partitions) == partition
        ]
        places = [place_of_number(each.number) for each in mine]
        assert places == [(each.offset, each.piece) for each in mine]
        assert places == sorted(set(places))
        assert max((each.piece for each in mine), default=0) < most_pieces


@given(st.binary(max_size=80), st.lists(PIECES, min_size=2, max_size=4), st.integers(0, 400), st.integers(0, 255))
def test_what_is_no_shared_record_after_all_stays_as_it_is(
    noise: bytes, records: list[Record], at: int, byte: int
) -> None:
    values = [noise]
    for each in share_records(records, 1):
        if each.headers == HEADERS:
            values += [each.value[:at], each.value + noise, each.value[:at] + bytes((byte,)) + each.value[at + 1 :]]
    for value in values:
        record = StoredRecord(0, 7, 5.0, b"k", value, HEADERS)
        divided = divide_records([record])
        assert divided == [record] or sum(len(each.value) for each in divided) < len(value)


def test_a_piece_that_is_alone_or_large_is_a_record_as_it_always_was() -> None:
    large = piece(3, b"x" * (1 << 20))
    assert share_records([piece(1)], 1) == [piece(1)]
    first, alone, last = share_records([piece(1), piece(2), large, piece(4)], 1)
    assert (first.headers, alone, last) == (HEADERS, large, piece(4))


def test_records_with_a_place_or_a_time_of_their_own_share_none() -> None:
    placed = [replace(piece(number), partition=0) for number in range(2)]
    timed = [replace(piece(number), timestamp=3.0) for number in range(2)]
    assert share_records([*placed, *timed], 1) == [*placed, *timed]


async def test_a_log_that_takes_less_than_may_share_a_record_gets_one_for_each() -> None:
    log = MemoryLog("spans", 1, max_record_bytes=500)
    records = [piece(number, b"x" * 300) for number in range(3)]
    await append_shared(log, records)
    assert [each.value for batch in [b async for b in log.read(0, 0)] for each in batch] == [b"x" * 300] * 3
    with pytest.raises(RecordTooLarge):
        await append_shared(log, [piece(1), piece(2, b"x" * 501)])
    assert await log.end_offset(0) == 3


class Recorder:
    due_at = low_watermark = None
    metadata = ""
    takes_unreadable = True

    def __init__(self) -> None:
        self.deliveries: list[list[StoredRecord]] = []

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        self.deliveries.append(list(records))

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        self.deliveries.append(list(records))


async def test_a_fold_gets_pieces_in_portions_and_what_is_unreadable_as_it_is() -> None:
    recorder = Recorder()

    @asynccontextmanager
    async def opened(_partition: int, _committed: object):
        yield recorder

    unreadable = UnreadableRecords(0, 3, 5.0, None, b"", end_offset=9, reason="the checksum is wrong")
    [shared] = stored(share_records([piece(number) for number in range(900)], 1))
    async with dividing(opened)(0, None) as fold:
        assert getattr(fold, "takes_unreadable", False)
        await fold.deliver([shared, unreadable])
        await fold.replay([shared])
    assert list(map(len, recorder.deliveries)) == [500, 401, 500, 400]
    assert recorder.deliveries[1][-1] is unreadable


# A poisoned trace is dead-lettered by itself


def chat(number: int) -> Record:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": f'[{{"role":"user","parts":[{{"type":"text","content":"{number}?"}}]}}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Yes."}]}]',
    }
    return piece(number, Trace(f"{number:032x}").span(1, "chat", attributes).spans.SerializeToString())


class World:
    """The assemble stage behind dead letters, guard and division, as the service puts it together."""

    def __init__(self, definitions: MemoryLog | None = None) -> None:
        self.turns, self.letters = MemoryLog("turns", 1), MemoryLog("dead_letters", 1)
        self.units = FatalUnits(definitions, 3)
        guard = Guard(fatal=self.units)
        settings = DeadLetterSettings(max_consecutive=3)
        dead = DeadLetterWriter("assemble", "spans", self.letters, Telemetry(), settings.keeping(True))
        limits = TraceLimits(quiet=10.0, linger=20.0)
        stage = AssembleStage(ASSEMBLER, TurnRouter(self.turns), limits, on_bad_record=dead.take, guard=guard)
        needs = FoldNeeds(place="assemble", log="spans", letters=dead, guard=guard, shared=True)
        self.open = layered(stage.open_fold, needs)

    async def dead(self) -> list[DeadLetter]:
        return [each async for each in letters_in(self.letters)]

    async def assembled(self) -> list[bytes]:
        return sorted(each.value for batch in [b async for b in self.turns.read(0, 0)] for each in batch)


def tick(offset: int, timestamp: float) -> StoredRecord:
    return StoredRecord(0, offset, timestamp, None, b"", (("tick", b"1"),))


async def test_a_piece_that_cannot_be_read_is_dead_lettered_without_its_neighbours() -> None:
    bad = {2, 5, 6}
    pieces = [piece(each, b"\xff\xff") if each in bad else chat(each) for each in range(1, 9)]
    world = World()
    async with world.open(0, None) as fold:
        await fold.deliver(stored(share_records(pieces, 1), first=41))
        assert fold.low_watermark == 41
        await fold.deliver([tick(42, 20.0)])
        assert fold.low_watermark == 41
        await fold.deliver([tick(43, 80.0)])
        assert fold.low_watermark is None
    assert len(await world.assembled()) == 5
    letters = await world.dead()
    assert [(each.position, each.piece) for each in letters] == [(41, 1), (41, 4), (41, 5)]
    assert len({each.letter_id for each in letters}) == 3
    again = record_of(letters[0])
    assert again is not None
    assert (again.key, again.value, again.headers[0]) == (pieces[1].key, pieces[1].value, ("signal", b"traces"))


async def test_a_shared_record_that_is_damaged_is_one_dead_letter() -> None:
    [record] = stored(share_records([chat(1), chat(2)], 1))
    world = World()
    async with world.open(0, None) as fold:
        await fold.deliver([replace(record, value=record.value[:-1])])
    [letter] = await world.dead()
    assert (letter.position, letter.piece, letter.size) == (0, 0, len(record.value) - 1)


async def test_a_trace_that_ends_the_process_is_left_out_without_its_neighbours() -> None:
    definitions = MemoryLog("definitions", 1)
    units = FatalUnits(definitions, 3)
    [record] = stored(share_records([chat(each) for each in range(1, 6)], 1), first=7)
    number = divide_records([record])[3].number
    for _ in range(3):
        await units.record_ends([Unit("assemble trace 0", number, number)])
    world = World(definitions)
    async with world.open(0, None) as fold:
        await fold.deliver([record, tick(8, 40.0)])
    assert len(await world.assembled()) == 4
    [letter] = await world.dead()
    assert (letter.position, letter.piece, letter.kind) == (7, 3, "FatalRecord")
    assert letter.key is not None


async def test_replayed_from_a_shared_record_every_turn_is_made_once() -> None:
    """A restart begins with the record that an open trace shares with traces whose turns are made already."""
    first = share_records([chat(each) for each in range(1, 4)], 1)
    later = share_records([chat(4), piece(2, chat(2).value)], 1)
    records = [*stored(first), *[replace(each, timestamp=17.0) for each in stored(later, first=1)], tick(2, 60.0)]
    whole = World()
    async with whole.open(0, None) as fold:
        await fold.deliver(records)
    assert len(await whole.assembled()) == 4
    parts = World()
    async with parts.open(0, None) as fold:
        await fold.deliver(records[:2])
        assert fold.low_watermark == 0
    assert len(await parts.assembled()) == 3
    async with parts.open(0, None) as fold:
        await fold.replay(records[:2])
        await fold.deliver(records[2:])
    assert await parts.assembled() == await whole.assembled()


def test_each_piece_is_asked_for_when_the_one_before_was_taken_and_nothing_is_made_of_the_others() -> None:
    (together,) = stored(share_records([piece(number) for number in range(4)], 1))
    asked: list[bytes] = []

    def is_odd(key: bytes, _value: bytes) -> bool:
        asked.append(key)
        return int(key, 16) % 2 == 1

    needed = needed_pieces(together, is_odd)
    assert (next(needed).piece, len(asked)) == (1, 2)
    assert [each.piece for each in needed] == [3]
    assert asked == [b"%032x" % number for number in range(4)]


def test_what_has_no_index_is_a_piece_by_its_own_key() -> None:
    torn = StoredRecord(0, 0, 5.0, b"key", b"\0\0\0\2torn", HEADERS)
    assert [*needed_pieces(torn, lambda key, _value: key == b"key")] == [torn]
    assert [*needed_pieces(torn, lambda key, _value: key != b"key")] == []
