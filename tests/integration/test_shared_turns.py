"""Unwanted turns that share records of the turns log: whoever reads that log has each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plan_histories import OnePlan

from collector.assemble.open_traces import TraceLimits
from collector.commands.audit.audit import audit_logs
from collector.commands.log_copy.copying import LogCopy
from collector.config.configured import Config
from collector.config.loading import check
from collector.evaluate.plan import Plan
from collector.evaluate.sampling.draw import draw, keyed_salt
from collector.link.turn_router import TurnRouter
from collector.logs.log import Log, StoredRecord, partition_of
from collector.logs.memory import MemoryLog
from collector.page.stage import PageStage
from collector.page.view import View
from collector.past.turns import turns_in_log
from collector.records.json import turn_from_json
from collector.records.shared_records import dividing, is_shared, pieces_of
from collector.records.turns import turn_record, without_content
from collector.service.app import running
from collector.service.open_logs import NAMES, Logs, open_logs
from evaluators.cases import Turn

KEY = "0" * 64
SALT = keyed_salt(KEY, "evalstream")

RATE = 0.3
TALKS = [f"talk-{number}" for number in range(40)]
WANTED = {name for name in TALKS if draw(SALT, name) < RATE}


def turn(number: int) -> Turn:
    name = TALKS[number % len(TALKS)]
    return Turn(
        turn_id=f"{number:032x}", conversation_id=name, trace_id=f"{number:032x}", input="Hi", actual_output="Yes."
    )


TURNS = [turn(number) for number in range(120)]
STORED = [each if each.conversation_id in WANTED else without_content(each) for each in TURNS]


async def append(log: Log, turns: Sequence[Turn] = TURNS) -> None:
    router = TurnRouter(log, wants_key=WANTED.__contains__)
    await router.append([each for turn in turns for each in router.route([turn])])


async def records_of(log: Log) -> list[StoredRecord]:
    found = [each for number in range(log.partitions) async for batch in log.read(number, 0) for each in batch]
    return [each for each in found if not each.is_tick]


def by_id(turns: Sequence[Turn]) -> list[Turn]:
    return sorted(turns, key=lambda each: each.turn_id)


async def test_they_share_records_of_their_partition_in_their_order() -> None:
    log = MemoryLog("turns", 3)
    await append(log)
    records = await records_of(log)
    assert len(records) < 0.7 * len(TURNS)
    assert {each.conversation_id for each in STORED if each.incomplete is None} == WANTED
    for partition in range(3):
        pieces = [
            piece
            for each in records
            if each.partition == partition
            for piece in (pieces_of(each) if is_shared(each) else [each])
        ]
        mine = [turn_record(each) for each in STORED]
        mine = [each for each in mine if partition_of(each.key or b"", 3) == partition]
        assert [(each.key, each.value, each.headers) for each in pieces] == [
            (each.key, each.value, ()) for each in mine
        ]
    assert not any(
        turn_from_json(each.value).incomplete for each in records if not is_shared(each) and each.key in WANTED
    )


async def test_without_keep_wanted_each_has_a_record() -> None:
    log = MemoryLog("turns", 3)
    router = TurnRouter(log)
    unwanted = without_content(TURNS[0])
    await router.append([each for turn in (unwanted, unwanted) for each in router.route([turn])])
    assert len(await records_of(log)) == 2


async def test_a_log_that_takes_less_than_may_share_a_record_gets_each_alone() -> None:
    log = MemoryLog("turns", 1, max_record_bytes=400)
    await append(log)
    assert [turn_from_json(each.value) for each in await records_of(log)] == STORED


async def test_commands_and_page_have_each_of_them() -> None:
    log = MemoryLog("turns", 3)
    await append(log)
    assert sum(map(is_shared, await records_of(log))) > 3
    stored = await turns_in_log(log, TALKS[:7])
    expected = [each for each in STORED if each.conversation_id in TALKS[:7]]
    assert by_id([each for members in stored.values() for each in members.values()]) == by_id(expected)
    view = View([])
    stage = PageStage(view)
    for partition in (0, 1, 2, 0, 1, 2):  # each partition leaves, and is read again
        async with dividing(stage.open_turns)(partition, None) as fold:
            await fold.deliver([each for each in await records_of(log) if each.partition == partition])
    for name in TALKS:
        assert by_id(view.turn_cache.turns(name)) == by_id([each for each in STORED if each.conversation_id == name])


async def test_a_copied_log_has_them_in_the_form_that_every_version_reads() -> None:
    source, target = (Logs(**{name: MemoryLog(name, number) for name in NAMES}) for number in (3, 2))
    await append(source.turns)
    await LogCopy(Plan(()), TraceLimits(), (), source, target, 2e9, OnePlan()).run()
    copied = await records_of(target.turns)
    assert not any(map(is_shared, copied))
    assert by_id([turn_from_json(each.value) for each in copied if each.key]) == by_id(STORED)


def configured(folder: Path, rate: float) -> Config:
    values: dict[str, Any] = {
        "log": {"kind": "sqlite", "path": str(folder / "logs.db")},
        "receive": {"otlp_http": None},
        "evaluators": {"brief": {"kind": "length", "maximum": 100}},
        "monitors": {"all": {"evaluators": ["brief"], "sample": rate}},
        "export": {"prometheus": {"port": 0}},
    }
    return check(values, "test.yaml")


async def judge(config: Config, turns: Sequence[Turn]) -> None:
    async with running(config, {"evaluate"}) as service:
        await append(service.logs.turns, turns)
        async with asyncio.timeout(60):
            while True:
                committed = await service.logs.turns.committed("evaluate")
                ends = {
                    number: await service.logs.turns.end_offset(number)
                    for number in range(service.logs.turns.partitions)
                }
                if {number: end for number, end in ends.items() if end} == {
                    number: each.low_watermark for number, each in committed.items() if each.low_watermark
                }:
                    return
                await asyncio.sleep(0.05)


async def test_an_audit_balances_also_after_a_rate_was_raised(tmp_path: Path) -> None:
    await judge(configured(tmp_path, RATE), TURNS[:80])
    await judge(configured(tmp_path, 0.8), TURNS[80:])
    async with open_logs(configured(tmp_path, 0.8).settings.log) as logs:
        problems, report = await audit_logs(configured(tmp_path, 0.8), logs)
        assert sum(map(is_shared, await records_of(logs.turns))) > 3
    assert problems == []
    assert f"{len(TURNS)} turns" in report
