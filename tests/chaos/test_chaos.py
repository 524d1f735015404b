"""The chaos of `make chaos`, shorter; and workers that come and go without names of their own."""

from __future__ import annotations

import asyncio
import os

import pytest
from broker import BrokerUnavailable, jars
from chaos import Fire, chaos
from harness import Setup, cluster

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(420)]


@pytest.fixture(autouse=True)
def _broker_of_its_own() -> None:
    try:
        jars()
    except BrokerUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))


async def test_workers_and_broker_die_at_random() -> None:
    fire = Fire(broker_restarts=1, calm_after=25.0, deadline=260.0)
    figures = await chaos(Setup(turns=1500, rate=100.0, deferred=True), fire)
    print(figures.json())
    assert figures.broken() == []
    assert figures.sigkills >= 3
    assert figures.broker_restarts == 1
    assert figures.judge_failures > 0
    assert figures.deferred > 200
    assert figures.in_batches > figures.deferred / 2


async def test_a_storm_of_rebalances_loses_nothing_and_writes_nothing_twice() -> None:
    """No worker has a name that outlives it, so each that leaves or comes moves partitions of every group."""
    async with cluster(Setup(turns=400, rate=40.0, static=False)) as running:
        while running.produced < running.setup.turns:
            await asyncio.sleep(running.chance.uniform(0.3, 1.0))
            await running.replace(running.chance.choice(running.workers))
        finished = await running.finished(150.0)
        await asyncio.sleep(2.0)
        await running.drain(30.0)
        figures = running.figures()
    print(figures.json())
    assert finished
    assert figures.written_twice == figures.missing == figures.other_ids == figures.exports_missing == 0
    assert figures.unclean_stops == 0
    assert figures.audit == ()
