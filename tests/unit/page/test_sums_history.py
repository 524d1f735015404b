"""The history of scores: what a page counts is there again after a restart, once, however few evaluations it lists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from evaluation_samples import scored

from collector.errors import BadInput
from collector.logs.log import LogUnavailable, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.page.score_series import Bin, HistoryStretch, ScoreSums, SumsHistory, stretch_from_json, stretch_to_json
from collector.page.stage import PageStage
from collector.page.view import View
from collector.records.json import evaluation_to_json
from collector.statistics.bounded_sums import Sums
from evaluators.results import Evaluation, Sampling, Usage

NOW = 1_795_000_000.0
SAMPLE = HistoryStretch(
    0,
    3,
    9,
    (
        (29_916_666, ("support", "helpful", "0123456789ab"), Bin(ScoreSums(2, 2, Sums(2.0, 1.5, 2.0, 1.5, 1.25)), ScoreSums(2, 1, Sums(2.0, 1.5, 4.0, 3.0, 2.25)), 1.0, 2.0, cost_usd=0.001, calls=2)),
        (29_916_667, ("support", "helpful", "0123456789ab"), Bin(ScoreSums(), ScoreSums(), failed=1)),
    ),
    {"helpful": 0.5},
    {"helpful": (2, NOW)},
)  # fmt: skip
STORED = (
    b'{"v":1,"partition":0,"first":3,"next":9,"thresholds":{"helpful":0.5},"changes":{"helpful":[2,1795000000.0]},"minutes":['
    b'[29916666,"support","helpful","0123456789ab",2,1,2,1.5,4,3,2.25,1,2,0,0,0,0.001,2,0,0,1,0,0,-2,-1.5,-1],'
    b'[29916667,"support","helpful","0123456789ab",0,0,0,0,0,0,0,0,0,0,0,1]]}'
)


def evaluation(number: int, seconds: float, conversation: str | None = None) -> Evaluation:
    ended = datetime.fromtimestamp(NOW + seconds, UTC)
    subject = replace(scored().subject, conversation_id=conversation or str(number))
    return scored(number, subject=subject, score=(number % 5) / 4, started_at=ended, ended_at=ended)


def records(count: int, every: float = 5.0, talk: int = 1) -> list[StoredRecord]:
    """Evaluations of conversations of `talk` turns, one every few seconds."""
    return [
        StoredRecord(
            0,
            number,
            NOW + number * every,
            b"k",
            evaluation_to_json(evaluation(number, number * every, f"c{number // talk}")),
        )
        for number in range(count)
    ]


async def restarted(log: MemoryLog) -> tuple[View, PageStage]:
    view, history = View([], evaluations=10), SumsHistory(log)
    for stretch in await history.read_on(0.0):
        view.restore(stretch)
    return view, PageStage(view, history=history)


def whole(view: View, seconds: float, name: str = "1h") -> ScoreSums:
    [series] = view.score_series.values()
    total = ScoreSums()
    for _, column in series.columns(name, NOW + seconds):
        if column is not None:
            total.add(column.across_columns)
    return total


def test_the_stored_form_stays_as_it_is() -> None:
    assert stretch_to_json(SAMPLE) == STORED
    assert stretch_from_json(STORED) == SAMPLE
    earlier = stretch_from_json(STORED.replace(b"0123456789ab", b"all"))
    assert stretch_from_json(STORED.replace(b'"thresholds":{"helpful":0.5},', b"")).thresholds == {}
    assert [key for _, key, _ in earlier.minutes] == [("support", "helpful", "")] * 2, "as earlier releases wrote it"


@pytest.mark.parametrize(
    "value", [b"{", b"[]", b'{"v":2}', b'{"v":1,"partition":0,"first":0,"next":1,"minutes":[[1]]}']
)
def test_what_is_no_history_is_none(value: bytes) -> None:
    with pytest.raises(BadInput):
        stretch_from_json(value)


async def never(_records: Sequence[Record]) -> None:
    """An append to a log that does not answer."""
    await asyncio.Event().wait()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("talk", [1, 3])
async def test_a_restart_forgets_no_score_and_counts_none_twice(
    talk: int, monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    """Of 300 evaluations ten are listed; the page stops after 200, and reads on from where the fold says."""
    monkeypatch.setattr("collector.page.stage._SAVED_WITHIN", 0.05)
    every, log = records(300, talk=talk), MemoryLog("history", 1)
    unbroken, stage = await restarted(MemoryLog("history", 1))
    async with stage.open_evaluations(0, None) as fold:
        for record in every:
            await fold.deliver([record])
    _, stage = await restarted(log)
    async with stage.open_evaluations(0, None) as fold:
        for record in every[:200]:
            await fold.deliver([record])
        needed = fold.low_watermark
        if killed:  # then nothing is stored at the end
            monkeypatch.setattr(log, "append", never)
    monkeypatch.setattr(log, "append", MemoryLog.append.__get__(log))
    assert needed is not None
    assert 180 < needed <= 190, "ten are listed, and less than a minute is not stored"
    view, stage = await restarted(log)
    async with stage.open_evaluations(0, None) as fold:
        await fold.replay(every[needed:200])
        for record in every[200:]:
            await fold.deliver([record])
    end = 300 * 5.0
    for name in ("1h", "6h", "24h", "7d"):
        after, expected = whole(view, end, name), whole(unbroken, end, name)
        assert after.scores == expected.scores == 300
        assert (after.sums.w, after.sums.wy) == pytest.approx((expected.sums.w, expected.sums.wy))
        assert after.mean == pytest.approx(expected.mean, abs=1e-9)
        if talk == 1:
            assert after.error == pytest.approx(expected.error, abs=1e-9)
            assert after.conversations == expected.conversations


@pytest.mark.parametrize(("name", "scores"), [("5m", 60), ("15m", 180)])
async def test_short_ranges_do_not_begin_with_the_restart(name: str, scores: int) -> None:
    """Their columns are narrower than the minutes of the history, so 7 scores became 3 by a restart."""
    log = MemoryLog("history", 1)
    _, stage = await restarted(log)
    async with stage.open_evaluations(0, None) as fold:
        for record in records(200):
            await fold.deliver([record])
        needed = fold.low_watermark
    view, stage = await restarted(log)
    async with stage.open_evaluations(0, None) as fold:
        await fold.replay(records(200)[needed:])
    assert abs(whole(view, 199 * 5.0, name).scores - scores) <= 12, "a minute has 12; the oldest is in or out as one"


async def test_a_partition_that_is_opened_again_is_not_counted_twice() -> None:
    every = records(30)
    view, stage = await restarted(MemoryLog("history", 1))
    for _ in range(2):
        async with stage.open_evaluations(0, None) as fold:
            await fold.replay(every)
    assert whole(view, 150.0).scores == 30


async def test_a_partition_that_another_page_had_for_a_while_loses_no_score_and_counts_none_twice() -> None:
    """Two pages of one Kafka log: what one had read last was missing, in the other and after a restart."""
    every, log = records(300), MemoryLog("history", 1)
    view, first = await restarted(log)
    _, second = await restarted(log)
    needed, read = 0, 0
    for stage, end in ((first, 100), (second, 175), (first, 250), (second, 300), (first, 300)):
        async with stage.open_evaluations(0, None) as fold:
            await fold.replay(every[needed:read])
            for record in every[read:end]:
                await fold.deliver([record])
            needed, read = fold.low_watermark or end, end
        assert stage is not first or whole(view, 1500.0).scores == end
    again, stage = await restarted(log)
    async with stage.open_evaluations(0, None) as fold:
        await fold.replay(every[needed:])
    assert whole(again, 1500.0).scores == 300


async def test_sums_whose_write_was_cancelled_are_read_again_and_stored_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups' rights were lost and given back while the history could not be written. Offsets were committed beyond
    sums that were in no record yet: after a restart, 56 of 117 scores of a minute were gone.
    """
    monkeypatch.setattr("collector.page.stage._SAVED_WITHIN", 0.01)
    every, log, writable, waiting = records(60), MemoryLog("history", 1), asyncio.Event(), asyncio.Event()
    append = log.append

    async def held(batch: Sequence[Record]) -> None:
        waiting.set()
        await writable.wait()
        await append(batch)

    monkeypatch.setattr(log, "append", held)
    _, stage = await restarted(log)
    async with stage.open_evaluations(0, None) as fold:
        delivery = asyncio.create_task(fold.deliver(every))
        await waiting.wait()
        assert fold.low_watermark == 0, "while it is written, and after it was given up"
        delivery.cancel()
        await asyncio.wait([delivery])
        assert fold.low_watermark == 0
    assert fold.low_watermark == 0, "what a stop commits"
    writable.set()
    async with stage.open_evaluations(0, None) as fold:
        await fold.replay(every)
    again, _ = await restarted(log)
    assert whole(again, 300.0).scores == 60


async def test_sums_that_another_page_stored_meanwhile_are_stored_once() -> None:
    """This one could not store them as it lost the partition: later its stretch would overlap with all that followed."""
    every, log = records(60), MemoryLog("history", 1)
    view, _ = await restarted(log)
    other, stage = await restarted(log)
    for number in range(30):
        view.add_evaluation(evaluation(number, number * 5.0, f"c{number}"), 0, number, NOW + number * 5.0)
    async with stage.open_evaluations(0, None) as fold:
        await fold.replay(every)
    for stretch in await SumsHistory(log).read_on(0.0):
        view.restore(stretch)
    assert view.unsaved(0, NOW + 600.0, after=0.0) is None
    assert whole(other, 300.0).scores == 60


async def test_sums_that_a_frozen_page_stores_late_do_not_displace_those_of_the_next_owner() -> None:
    """Both had read offsets 3 to 9: the shorter stretch came first, and all that followed up to 14 was left out."""
    log = MemoryLog("history", 1)
    stretches = [replace(SAMPLE, first=first, next=after) for first, after in ((0, 3), (3, 9), (3, 14), (14, 20))]
    history = SumsHistory(log)
    for stretch in stretches:
        await history.append(stretch)
    assert [(each.first, each.next) for each in await history.read_on(0.0)] == [(0, 3), (3, 14), (14, 20)]


async def test_a_history_that_cannot_be_read_for_a_moment_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog("history", 2)
    history, read = SumsHistory(log), log.read
    for partition in (0, 1):
        value = stretch_to_json(replace(SAMPLE, partition=partition))
        await log.append([Record(None, value, partition=partition)])

    def unavailable(partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        if partition == 1:
            raise LogUnavailable("no broker")
        return read(partition, start)

    monkeypatch.setattr(log, "read", unavailable)
    with pytest.raises(LogUnavailable):
        await history.read_on(0.0)
    monkeypatch.undo()
    assert {each.partition for each in await history.read_on(0.0)} == {0, 1}


async def test_a_log_that_was_made_again_is_counted_from_its_begin() -> None:
    every, log = records(40), MemoryLog("history", 1)
    _, stage = await restarted(log)
    async with stage.open_evaluations(0, None) as fold:
        await fold.deliver(every)
    view, stage = await restarted(log)
    before = whole(view, 200.0).scores
    view.end_at(0, 5)
    async with stage.open_evaluations(0, None) as fold:
        await fold.deliver(every[:5])
    assert whole(view, 200.0).scores == before + 5


async def test_yesterday_and_a_week_ago_are_there_and_no_more_than_that() -> None:
    view, stage = await restarted(MemoryLog("history", 1))
    async with stage.open_evaluations(0, None) as fold:
        for number, days in enumerate((8.0, 7.0, 1.0, 0.0)):
            made = evaluation(number, -days * 86400.0)
            await fold.deliver([StoredRecord(0, number, NOW - days * 86400.0, b"k", evaluation_to_json(made))])
    [series] = view.score_series.values()
    found = {days: series.earlier("1h", NOW + 600.0, days * 86400.0) for days in (1, 2, 7)}
    assert {days: each.across_columns.scores for days, each in found.items() if each} == {1: 1, 2: 0, 7: 1}
    assert series.earlier("5m", NOW, 86400.0) is None
    assert series.earlier("7d", NOW, 86400.0) is None


async def test_a_day_is_small_whatever_the_traffic() -> None:
    """Two evaluations a second, weighted, of conversations of three turns: the sums are as long as numbers come."""
    log, size = MemoryLog("history", 1), 0
    _, stage = await restarted(log)
    minutes = 30
    async with stage.open_evaluations(0, None) as fold:
        for number in range(minutes * 120):
            made = replace(
                evaluation(number, number / 2, f"c{number // 3}"),
                sampling=Sampling(probability=0.07 + number % 11 / 100, stratum="all"),
                cost_usd=0.00123,
                usage=Usage(calls=1, input_tokens=731, output_tokens=97),
            )
            await fold.deliver([StoredRecord(0, number, NOW + number / 2, b"k", evaluation_to_json(made))])
    async for batch in log.read(0, 0):
        size += sum(len(each.value) for each in batch)
    assert 200_000 < size / minutes * 1440 < 1_000_000, "bytes a day of one evaluator of one monitor"
    print(f"{size / minutes * 1440:,.0f} bytes a day")
