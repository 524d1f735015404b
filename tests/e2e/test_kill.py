"""SIGKILL in the middle, as often as wanted: the same evaluations in the end, none missing, none twice."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from payloads import WHOLE_WAY, exchanges, requests
from service import ServiceProcess, until_ledger
from test_whole_way import EVALUATORS, configuration
from topics import Topics

from collector.demo.judge import Faults, StandInJudge, serve_judge
from evaluators.results import Evaluation

EXPECTED = EVALUATORS * len(exchanges())

LATER_SEEDS = [pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3)]


@pytest.mark.parametrize("seed", [1, *LATER_SEEDS])
async def test_on_sqlite_a_service_that_is_killed_again_and_again_judges_everything_once(
    seed: int, tmp_path: Path
) -> None:
    async with serve_judge(StandInJudge(Faults(latency=0.4))) as url:
        process = ServiceProcess(tmp_path, configuration(url))
        await process.start()
        for dialect in WHOLE_WAY:
            for name, body in requests(dialect):
                assert await process.post(name, body) == 200
        assert_everything_once(await killed_and_finished(process, random.Random(seed), within=60))


@pytest.mark.kafka
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, *LATER_SEEDS])
async def test_on_kafka_a_service_that_is_killed_again_and_again_judges_everything_once(
    seed: int, tmp_path: Path, kafka_broker: Any
) -> None:
    topics = Topics(kafka_broker.bootstrap)
    topics.produce_payloads(WHOLE_WAY)
    changes = {"log": topics.log_settings(), "receive": {"kafka": [topics.source_settings()]}}
    async with serve_judge(StandInJudge(Faults(latency=0.4))) as url:
        process = ServiceProcess(tmp_path, configuration(url, **changes))
        await process.start()
        assert_everything_once(await killed_and_finished(process, random.Random(seed), within=120))


async def killed_and_finished(process: ServiceProcess, chance: random.Random, *, within: float) -> list[Evaluation]:
    """Kill it three times while it works, then let it finish; the ledger as it is in the end."""
    for _ in range(3):
        await asyncio.sleep(chance.uniform(0.1, 2.0))
        await process.kill()
        await process.start()
    await until_ledger(process, EXPECTED, within=within)
    await asyncio.sleep(0.5)
    ledger = await process.ledger()
    assert await process.stop() == 0
    return ledger


def assert_everything_once(ledger: list[Evaluation]) -> None:
    counted = Counter(each.evaluation_id for each in ledger)
    assert len(counted) == EXPECTED
    assert counted.most_common(1)[0][1] == 1
    assert {each.outcome for each in ledger} == {"scored", "skipped"}


async def test_requests_that_are_not_answered_are_sent_again_and_change_nothing(tmp_path: Path) -> None:
    """A sender that sees the connection break sends again: at least once in, exactly once out."""
    async with serve_judge() as url:
        process = ServiceProcess(tmp_path, configuration(url))
        await process.start()
        for dialect in WHOLE_WAY:
            for name, body in requests(dialect):
                assert await process.post(name, body) == 200
        await process.kill()
        await process.start()
        for dialect in WHOLE_WAY:
            for name, body in requests(dialect):
                assert await process.post(name, body) == 200
        await until_ledger(process, EXPECTED)
        await asyncio.sleep(2.0)
        ledger = await process.ledger()
        await process.stop()
    assert len(ledger) == EXPECTED
