"""SIGKILL at each named step, each five times: what was going on there is done once, and nothing of it is missing."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from counted_judge import CountedJudge
from dying import STEPS, evalstream_dying_at
from faulty_judge import Faults
from figures import Kill, exports, repeated
from harness import EVALUATORS, JUDGED, configuration, log_settings, problems_of, until_drained
from ledger_watch import LedgerWatch
from stand_in_judge import serve_judge
from traffic import turn
from workers import Worker

from collector.config.settings import LogSettings
from collector.logs.log import Log, Record
from collector.records.json import turn_to_json
from collector.service.open_logs import open_logs

TIMES = 5
NEW_TURNS = 4
"""Turns that come before each life, so that each can reach its step."""
LIVES = TIMES * len(STEPS)
TURNS = LIVES * NEW_TURNS
ONCE = {"after_poll", "after_export", "before_commit"}
"""Steps that several turns can reach together: only the first time is sure to come."""
WITHIN = 60.0


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_on_sqlite(tmp_path: Path) -> None:
    await killed_at_each_step(tmp_path, {"kind": "sqlite", "path": str(tmp_path / "evalstream.db")})


@pytest.mark.timeout(300)
@pytest.mark.long
@pytest.mark.kafka
async def test_on_kafka(tmp_path: Path, kafka_broker: Any) -> None:
    log = log_settings(kafka_broker.bootstrap, "the-only-one")
    log["kafka"] |= {"prefix": f"steps-{time.time_ns()}", "partitions": 2}
    await killed_at_each_step(tmp_path, log)


async def killed_at_each_step(folder: Path, log: dict[str, Any]) -> None:
    judge, kills = CountedJudge(Faults(latency=0.02)), list[Kill]()
    chance = random.Random(7)
    async with serve_judge(judge) as url, open_logs(LogSettings.model_validate(log)) as logs:
        config = configuration("worker", "unused:9092", url, concurrency=4) | {"log": log, "receive": {"files": []}}
        ledger, numbers = LedgerWatch(logs.evaluations, TURNS), itertools.count()
        workers = list[Worker]()
        for step in chance.sample(STEPS * TIMES, LIVES):
            await put(logs.turns, [next(numbers) for _ in range(NEW_TURNS)])
            times = 1 if step in ONCE else chance.randint(1, 3)
            workers.append(one(folder, config, partial(evalstream_dying_at, step, times)))
            kills.append(await lives_and_dies(workers[-1], step))
        workers.append(one(folder, config))
        workers[-1].start()
        await everything_out(ledger, workers)
        await until_drained(workers[-1].config)
        assert await asyncio.to_thread(workers[-1].stop) == 0, workers[-1].said()
        await ledger.look()
    assert ledger.written.most_common(1)[0][1] == 1, "nothing is written twice"
    assert set(ledger.subjects) == {(evaluator, number) for evaluator in EVALUATORS for number in range(TURNS)}
    assert Counter(map(len, ledger.subjects.values())) == {1: len(EVALUATORS) * TURNS}, "each under one id"
    assert set(exports(workers[-1:])) == set(ledger.written)
    again, in_flight, unexplained = repeated(kills, [], judge, ledger, JUDGED)
    assert not unexplained
    assert await problems_of(workers[-1].config) == []
    assert 0 < again <= in_flight, "a kill after the judge's answer costs that question, and none costs more"


def one(folder: Path, config: dict[str, Any], *entry: Any) -> Worker:
    return Worker(folder, "worker", config, "--stages", "evaluate,export", **({"entry": entry[0]} if entry else {}))


async def put(turns: Log, numbers: list[int]) -> None:
    for number in numbers:
        made = turn(number)
        await turns.append([Record((made.conversation_id or "").encode(), turn_to_json(made))])


async def lives_and_dies(worker: Worker, step: str) -> Kill:
    began = time.time()
    worker.start()
    status = await asyncio.to_thread(worker.wait, WITHIN)
    assert status == -signal.SIGKILL, f"{step} was not reached: {status}; it said: {worker.said()}"
    return Kill(worker.name, began, over := time.time(), over)


async def everything_out(ledger: LedgerWatch, workers: list[Worker]) -> None:
    async with asyncio.timeout(WITHIN):
        while ledger.distinct < TURNS * len(EVALUATORS) or set(ledger.written) - set(exports(workers[-1:])):
            await asyncio.sleep(0.1)
            await ledger.look()
