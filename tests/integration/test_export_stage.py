"""Exporters that follow a real log: each with a cursor of its own, through outages and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from evaluation_samples import scored
from log_stores import TIMING

from collector.backoff import Backoff
from collector.export.exporter import ExportUnavailable
from collector.export.stage import ExportStage
from collector.logs.log import Log, Record
from collector.logs.sqlite import SqliteLog
from collector.records.json import evaluation_to_json
from collector.telemetry.registry import Telemetry
from evaluators.results import Evaluation


class Outside:
    """An exporter whose destination can be down; `count` is released once for each evaluation it takes."""

    def __init__(self) -> None:
        self.up = asyncio.Event()
        self.up.set()
        self.failed = asyncio.Event()
        self.taken: list[str] = []
        self.count = asyncio.Semaphore(0)

    async def export(self, batch: Sequence[Evaluation]) -> None:
        if not self.up.is_set():
            self.failed.set()
            raise ExportUnavailable("down")
        for each in batch:
            self.taken.append(each.evaluation_id)
            self.count.release()

    async def took(self, count: int) -> None:
        async with asyncio.timeout(60):
            for _ in range(count):
                await self.count.acquire()


@asynccontextmanager
async def evaluations(folder: Path):
    logs = await SqliteLog.open(folder / "logs.db", ["evaluations"], 2, timing=TIMING)
    yield logs["evaluations"]
    await logs["evaluations"].close()


@asynccontextmanager
async def following(log: Log, **exporters: Outside):
    stages = [
        ExportStage(name, each, Telemetry(), backoff=Backoff(first=0.01, cap=0.01)) for name, each in exporters.items()
    ]
    tasks = [asyncio.create_task(log.follow(stage.group, stage.open_fold)) for stage in stages]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def append(log: Log, *numbers: int) -> None:
    await log.append([Record(b"%d" % n, evaluation_to_json(scored(n))) for n in numbers])


def ids(*numbers: int) -> list[str]:
    return [f"{number:032x}" for number in numbers]


async def test_a_destination_that_is_down_delays_its_own_exporter_and_nothing_else(tmp_path: Path):
    well, ill = Outside(), Outside()
    ill.up.clear()
    async with evaluations(tmp_path) as log, following(log, well=well, ill=ill):
        await append(log, *range(20))
        await well.took(20)
        await ill.failed.wait()
        assert ill.taken == []
        ill.up.set()
        await ill.took(20)
    assert sorted(well.taken) == sorted(ill.taken) == ids(*range(20))


async def test_goes_on_at_its_cursor_after_a_restart(tmp_path: Path):
    first, second = Outside(), Outside()
    async with evaluations(tmp_path) as log:
        await append(log, 1, 2)
        async with following(log, outside=first):
            await first.took(2)
        await append(log, 3)
        async with following(log, outside=second):
            await second.took(1)
    assert second.taken == ids(3)


@pytest.mark.parametrize("stops", [1, 3])
async def test_what_was_not_taken_before_a_stop_is_taken_after_it(tmp_path: Path, stops: int):
    outside = Outside()
    outside.up.clear()
    async with evaluations(tmp_path) as log:
        await append(log, 1, 2)
        for _ in range(stops):
            outside.failed.clear()
            async with following(log, outside=outside):
                await outside.failed.wait()
        outside.up.set()
        async with following(log, outside=outside):
            await outside.took(2)
    assert sorted(outside.taken) == ids(1, 2)
