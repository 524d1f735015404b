"""What every log promises, whatever it is kept in."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from folds import Recorders, following
from log_stores import TIMING, MemoryStore, SqliteStore, Store

from collector.logs.log import Committed, Record, RecordTooLarge, partition_of
from collector.records.shared_records import append_shared, dividing


@pytest.fixture(params=["memory", "sqlite", pytest.param("kafka", marks=pytest.mark.kafka)])
async def store(request: pytest.FixtureRequest, tmp_path: Path):
    match request.param:
        case "memory":
            store: Store = MemoryStore()
        case "sqlite":
            store = SqliteStore(tmp_path)
        case _:
            from kafka_store import KafkaStore

            store = KafkaStore(request.getfixturevalue("kafka_broker").bootstrap)
    yield store
    await store.close()


def records(count: int, *, keys: int = 5, size: int = 0) -> list[Record]:
    return [Record(b"key-%d" % (n % keys), b"%d" % n + b"." * size, (("n", b"%d" % n),)) for n in range(count)]


async def test_records_of_a_key_keep_their_order(store: Store) -> None:
    log = await store.open(partitions=3)
    for start in range(0, 60, 20):
        await log.append(records(60)[start : start + 20])
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: len(got.delivered) == 60)
    for key in {record.key for record in records(60)}:
        mine = [record for record in got.delivered if record.key == key]
        assert [r.value for r in mine] == [r.value for r in records(60) if r.key == key]
        assert {r.partition for r in mine} == {partition_of(key or b"", 3)}
        assert [r.offset for r in mine] == sorted({r.offset for r in mine})
        assert [r.timestamp for r in mine] == sorted(r.timestamp for r in mine)
    assert sorted(r.headers for r in got.delivered) == sorted(r.headers for r in records(60))


async def test_pieces_that_share_records_are_replayed_with_them_and_delivered_once(store: Store) -> None:
    """A restart in which one record is needed again gives the fold all of its pieces, in the order they came."""
    log = await store.open(partitions=3)
    pieces = [Record(b"%032x" % (n % 7), b"%d" % n, (("signal", b"traces"),)) for n in range(60)]
    for start in range(0, 40, 20):
        await append_shared(log, pieces[start : start + 20])
    got = Recorders()
    async with following(log, "g", dividing(got.open_fold)):
        await got.until(lambda: len(got.delivered) == 40)
        for fold in got.folds.values():
            fold.low_watermark = fold.delivered[-1].offset
    log = await store.restart()
    again = Recorders()
    async with following(log, "g", dividing(again.open_fold)):
        await append_shared(log, pieces[40:])
        await again.until(lambda: len(again.delivered) == 20)
    everything = [*got.delivered, *again.delivered]
    for key in {each.key for each in pieces}:
        assert [each.value for each in everything if each.key == key] == [
            each.value for each in pieces if each.key == key
        ]
    for partition, fold in got.folds.items():
        last = fold.delivered[-1].offset
        assert again.folds[partition].replayed == [each for each in fold.delivered if each.offset == last]
        assert len({each.offset for each in fold.delivered}) == 2


async def test_a_partition_can_be_chosen_and_records_without_key_go_anywhere(store: Store) -> None:
    log = await store.open(partitions=3)
    await log.append([Record(b"key-0", b"chosen", partition=n) for n in range(3)])
    for _ in range(6):
        await log.append([Record(None, b"anywhere")])
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: len(got.delivered) == 9)
    assert {r.partition for r in got.delivered if r.value == b"chosen"} == {0, 1, 2}
    assert len({r.partition for r in got.delivered if r.value == b"anywhere"}) > 1
    assert all(r.key is None for r in got.delivered if r.value == b"anywhere")


async def test_what_is_appended_while_following_is_delivered(store: Store) -> None:
    log = await store.open()
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: len(got.folds) == 2)
        for n in range(5):
            await log.append([Record(b"k", b"%d" % n)])
            await got.until(lambda n=n: len(got.delivered) == n + 1)
    assert got.values == [b"0", b"1", b"2", b"3", b"4"]


async def test_commits_what_the_fold_reports(store: Store) -> None:
    log = await store.open(partitions=1)
    got = Recorders(lambda fold: setattr(fold, "metadata", "a note"))
    async with following(log, "g", got.open_fold):
        await log.append(records(10))
        await got.until(lambda: len(got.delivered) == 10)
        got.folds[0].low_watermark = 4
        await _until_committed(store, "g", {0: Committed(4, 10, "a note")})
        assert await log.committed("g") == {0: Committed(4, 10, "a note")}
        assert await log.committed("nobody") == {}
        got.folds[0].low_watermark = None
        await _until_committed(store, "g", {0: Committed(10, 10, "a note")})


async def test_delivery_goes_on_where_it_was_after_a_restart(store: Store) -> None:
    log = await store.open()
    await log.append(records(20))
    first = Recorders()
    async with following(log, "g", first.open_fold):
        await first.until(lambda: len(first.delivered) == 20)
    log = await store.restart()
    await log.append([Record(b"k", b"new")])
    second = Recorders()
    async with following(log, "g", second.open_fold):
        await second.until(lambda: second.delivered)
    assert second.values == [b"new"]
    assert not second.replayed


async def test_open_state_is_replayed_in_silence_after_a_restart(store: Store) -> None:
    log = await store.open(partitions=1)
    await log.append(records(20))
    first = Recorders(lambda fold: setattr(fold, "metadata", "seven"))
    async with following(log, "g", first.open_fold):
        await first.until(lambda: len(first.delivered) == 20)
        first.folds[0].low_watermark = first.delivered[7].offset
    log = await store.restart()
    second = Recorders()
    async with following(log, "g", second.open_fold):
        await second.until(lambda: len(second.replayed) == 13)
        await log.append([Record(b"k", b"new")])
        await second.until(lambda: second.delivered)
    assert second.replayed == first.delivered[7:]
    assert second.values == [b"new"]
    assert second.folds[0].committed == Committed(first.delivered[7].offset, first.delivered[19].offset + 1, "seven")


async def test_nothing_is_committed_before_the_replay_is_over(store: Store) -> None:
    log = await store.open(partitions=1)
    await log.append(records(20))
    first = Recorders()
    async with following(log, "g", first.open_fold):
        await first.until(lambda: len(first.delivered) == 20)
        first.folds[0].low_watermark = 0
    before = await store.commits("g")
    log = await store.restart()
    second = Recorders()

    async def stuck(_records: object) -> None:
        await asyncio.Event().wait()

    second._prepare = lambda fold: setattr(fold, "replay", stuck)
    async with following(log, "g", second.open_fold):
        await second.until(lambda: second.folds)
        await asyncio.sleep(0.1)
    assert await store.commits("g") == before


async def test_a_delivery_under_way_is_not_committed(store: Store) -> None:
    log = await store.open(partitions=1)
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await log.append(records(3))
        await got.until(lambda: len(got.delivered) == 3)
        got.gate(0).clear()
        await log.append(records(5))
        await asyncio.sleep(0.1)
    assert (await store.commits("g"))[0].offset == got.delivered[-1].offset + 1
    assert len(got.delivered) == 3
    again = Recorders()
    async with following(await store.restart(), "g", again.open_fold):
        await again.until(lambda: len(again.delivered) == 5)


async def test_a_slow_partition_holds_nobody_else(store: Store) -> None:
    log = await store.open(partitions=2)
    got = Recorders()
    got.gate(0).clear()
    async with following(log, "g", got.open_fold):
        await log.append([Record(None, b"slow %d" % n, partition=0) for n in range(2000)])
        await log.append([Record(None, b"fast %d" % n, partition=1) for n in range(2000)])
        await got.until(lambda: 1 in got.folds and len(got.folds[1].delivered) == 2000)
        assert not got.folds[0].delivered
        got.gate(0).set()
        await got.until(lambda: len(got.folds[0].delivered) == 2000)
    assert [r.value for r in got.folds[0].delivered] == [b"slow %d" % n for n in range(2000)]


async def test_time_passes_in_the_log_and_again_on_replay(store: Store) -> None:
    log = await store.open(partitions=2)
    await log.append([Record(None, b"first", partition=0)])
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: got.delivered)
        fold = got.folds[0]
        fold.low_watermark = fold.delivered[0].offset
        fold.due_at = fold.delivered[0].timestamp + 0.05
        await got.until(lambda: any(record.is_tick for record in fold.delivered))
        tick = fold.delivered[-1]
        assert tick.timestamp >= fold.delivered[0].timestamp + 0.05
        assert (tick.key, tick.value, tick.partition) == (None, b"", 0)
        await asyncio.sleep(0.05)
        assert len(fold.delivered) == 2, "one tick is enough"
        assert not got.folds[1].delivered
    again = Recorders()
    async with following(await store.restart(), "g", again.open_fold):
        await again.until(lambda: 0 in again.folds and len(again.folds[0].replayed) == 2)
    assert again.folds[0].replayed[1] == tick


async def test_two_groups_are_independent(store: Store) -> None:
    log = await store.open()
    await log.append(records(10))
    one, two = Recorders(), Recorders()
    async with following(log, "one", one.open_fold):
        await one.until(lambda: len(one.delivered) == 10)
    async with following(log, "one", one.open_fold), following(log, "two", two.open_fold):
        await two.until(lambda: len(two.delivered) == 10)
        await log.append([Record(b"k", b"new")])
        await one.until(lambda: len(one.delivered) == 11)
        await two.until(lambda: len(two.delivered) == 11)


async def test_an_error_of_a_fold_stops_following_as_it_is(store: Store) -> None:
    log = await store.open()

    class Broken(Exception): ...

    async def fail(_records: object) -> None:
        raise Broken

    got = Recorders(lambda fold: setattr(fold, "deliver", fail))
    await log.append(records(1))
    with pytest.raises(Broken):
        await asyncio.wait_for(log.follow("g", got.open_fold), 60)
    assert all(fold.closed for fold in got.history)
    again = Recorders()
    async with following(log, "g", again.open_fold):
        await again.until(lambda: again.delivered)


async def test_cancelling_closes_the_folds_and_commits(store: Store) -> None:
    log = await store.open(timing=replace(TIMING, commit_interval=3600.0))
    await log.append(records(10))
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: len(got.delivered) == 10)
    assert all(fold.closed for fold in got.history)
    committed = await store.commits("g")
    assert {p: committed[p].offset for p in range(2)} == {p: await log.end_offset(p) for p in range(2)}


async def test_reads_to_the_end_and_no_further(store: Store) -> None:
    log = await store.open(partitions=1)
    assert [batch async for batch in log.read(0, 0)] == []
    await log.append(records(1200))
    assert await log.end_offset(0) == 1200
    got = []
    async for batch in log.read(0, 100):
        if not got:
            await log.append(records(5))
        got += batch
    assert [record.value for record in got] == [record.value for record in records(1200)[100:]]


async def test_concurrent_appends_all_arrive_each_in_order(store: Store) -> None:
    log = await store.open(partitions=1)

    async def write(writer: int) -> None:
        for n in range(20):
            await log.append([Record(b"%d" % writer, b"%d" % n)])

    await asyncio.gather(*map(write, range(20)))
    got = [record async for batch in log.read(0, 0) for record in batch]
    assert len(got) == 400
    for writer in range(20):
        assert [r.value for r in got if r.key == b"%d" % writer] == [b"%d" % n for n in range(20)]


async def test_a_probe_appends_nothing_and_a_claim_does_not_hinder_the_consumer(store: Store) -> None:
    log = await store.open(partitions=1)
    await log.append([Record(b"k", b"v")])
    await log.probe()
    await asyncio.gather(log.claim("g"), log.claim("g"), log.probe())
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await log.claim("g")
        await got.until(lambda: len(got.delivered) == 1)
    assert await log.end_offset(0) == 1


async def test_what_a_group_has_committed_can_be_asked(store: Store) -> None:
    log = await store.open(partitions=2)
    await log.append([Record(b"k", b"v", partition=1)] * 3)
    assert await log.committed("g") == {}
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: len(got.delivered) == 3)
    committed = await log.committed("g")
    assert committed[1].offset == 3
    assert committed[1] == (await store.commits("g"))[1]
    assert await log.committed("other") == {}
    assert [await log.start_offset(partition) for partition in (0, 1)] == [0, 0]


async def test_a_large_record_arrives_and_a_too_large_one_is_refused(store: Store) -> None:
    log = await store.open(partitions=1)
    large = bytes(range(256)) * 3000
    await log.append([Record(b"k", large)])
    with pytest.raises(RecordTooLarge):
        await log.append([Record(b"k", b"small"), Record(b"k", b"x" * (2 << 20))])
    got = [record async for batch in log.read(0, 0) for record in batch]
    assert [record.value for record in got] == [large]


async def test_truncating_keeps_what_a_group_needs(store: Store) -> None:
    log = await store.open(partitions=1)
    await log.append(records(30))
    got = Recorders()
    async with following(log, "g", got.open_fold):
        await got.until(lambda: len(got.delivered) == 30)
        got.folds[0].low_watermark = 12
    assert await log.truncate(before=0.0) == 0
    assert await log.truncate(before=2e10, readers=["g", "who will come"]) == 0
    assert await log.truncate(before=2e10) == 12
    assert [record.offset async for batch in log.read(0, 0) for record in batch] == list(range(12, 30))
    assert await log.truncate(before=2e10) == 0
    log = await store.restart()
    again, late = Recorders(), Recorders()
    async with following(log, "g", again.open_fold), following(log, "late", late.open_fold):
        await again.until(lambda: len(again.replayed) == 18)
        await late.until(lambda: len(late.delivered) == 18)


async def test_positions_go_on_after_everything_was_truncated(store: Store) -> None:
    log = await store.open(partitions=1)
    await log.append(records(3))
    assert await log.truncate(before=2e10) == 3
    log = await store.restart()
    await log.append(records(1))
    assert [r.offset async for batch in log.read(0, 0) for r in batch] == [3]


async def test_appending_nothing_is_nothing(store: Store) -> None:
    log = await store.open(partitions=1)
    await log.append([])
    assert await log.end_offset(0) == 0


async def _until_committed(store: Store, group: str, wanted: object) -> None:
    async with asyncio.timeout(60):
        while await store.commits(group) != wanted:
            await asyncio.sleep(0.01)
