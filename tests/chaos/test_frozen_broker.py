"""A real broker that stands still, with every connection open, and then continues."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import aiohttp
import pytest
from broker import Broker
from counted_judge import CountedJudge
from faulty_judge import Faults
from service import ServiceProcess, until_ledger
from stand_in_judge import serve_judge
from test_faults import configuration
from topics import Topics
from traffic import request, trace_id

from evaluators.results import Evaluation

SESSION_AND_REQUESTS = 50.0
"""Longer (s) than the session of a group (45), the delivery of an append (30) and any request (15)."""

EVERY_TIMEOUT = 100.0
"""Longer (s) than the watchdog of a reading thread, too (90), and than the interval of a rebalance (60)."""

RECOVERS_WITHIN = 20.0
"""Seconds from the broker's first answer to the first request that is accepted again."""

SENDERS = 4


ALONE = ("receive,assemble,evaluate,export",)
APART = ("receive", "assemble,evaluate,export")
"""Where receiving has a process of its own nothing else waits for the producer."""


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("stages", "frozen"), [(APART, SESSION_AND_REQUESTS), (ALONE, SESSION_AND_REQUESTS), (APART, EVERY_TIMEOUT)]
)
async def test_after_a_freeze_the_service_continues_by_itself_and_judges_each_turn_once(
    tmp_path: Path, own_broker: Broker, stages: Sequence[str], frozen: float
) -> None:
    judge = CountedJudge(Faults(latency=0.05))
    log = Topics(own_broker.bootstrap).log_settings()
    async with serve_judge(judge) as url, AsyncExitStack() as stack:
        services: list[ServiceProcess] = []
        for number, each in enumerate(stages):
            (tmp_path / str(number)).mkdir()
            services.append(ServiceProcess(tmp_path / str(number), configuration(url, log=log), ["--stages", each]))
            stack.push_async_callback(services[-1].end)
            await services[-1].start()
        sender = Sender(services[0])
        await sender.send_until_accepted(20, within=20)
        await until_ledger(services[-1], 20)
        sending = [asyncio.create_task(sender.send_forever()) for _ in range(SENDERS)]
        own_broker.pause()
        await asyncio.sleep(frozen)
        assert [await readiness(each) for each in services] == [(503, "failing")] * len(services)
        own_broker.go_on()
        recovered = await sender.seconds_until_accepted(within=120)
        print(f"accepted again {recovered:.1f} s after the broker continued; answers {dict(sender.answers)}")
        for each in sending:
            each.cancel()
        await asyncio.wait(sending)
        await sender.send_until_accepted(20, within=60)
        accepted = {trace_id(number).hex() for number in sender.accepted}
        ledger = await until_judged(services[-1], accepted, within=120)
        for each in services:
            print(f"ready again {await seconds_until_ready(each, within=60):.1f} s later")
        metrics = await services[-1].metrics()
        assert [await each.stop() for each in services] == [0] * len(services)
    assert recovered < RECOVERS_WITHIN
    assert set(sender.answers) <= {200, 429, 503}
    counted = Counter(each.subject.trace_id for each in ledger)
    assert accepted <= set(counted)
    assert set(counted.values()) == {1}
    sampled = re.search(r'^evalstream_turns_total\{monitor="all",outcome="sampled"\} (\S+)$', metrics, re.MULTILINE)
    assert sampled, metrics
    assert float(sampled[1]) == len(counted), "a turn that came again is a duplicate"


async def until_judged(service: ServiceProcess, accepted: Collection[str], within: float) -> list[Evaluation]:
    """Wait for each turn that was accepted. One that was answered 503 may have reached the log, too."""
    async with asyncio.timeout(within):
        while True:
            ledger = await until_ledger(service, len(accepted), within)
            if set(accepted) <= {each.subject.trace_id for each in ledger}:
                return ledger
            await asyncio.sleep(0.2)


async def seconds_until_ready(service: ServiceProcess, within: float) -> float:
    since = time.monotonic()
    async with asyncio.timeout(within):
        while await readiness(service) != (200, "ok"):
            await asyncio.sleep(0.2)
    return time.monotonic() - since


async def readiness(service: ServiceProcess) -> tuple[int, str]:
    """The status of /readyz, and what its check of the log says."""
    url = service.metrics_url.replace("/metrics", "/readyz")
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, (await response.json())["checks"]["log"]["status"]


class Sender:
    """Sends numbered turns, each until it is accepted, and counts the answers."""

    def __init__(self, service: ServiceProcess) -> None:
        self._service = service
        self._numbers = count()
        self.accepted: set[int] = set()
        self.answers: Counter[int] = Counter()

    async def send_until_accepted(self, number: int, within: float) -> None:
        async with asyncio.timeout(within):
            for _ in range(number):
                await self._send_until_accepted(next(self._numbers))

    async def send_forever(self) -> None:
        while True:
            await self._send_until_accepted(next(self._numbers))
            await asyncio.sleep(0.2)

    async def seconds_until_accepted(self, within: float) -> float:
        before, since = len(self.accepted), time.monotonic()
        while len(self.accepted) == before and time.monotonic() < since + within:
            await asyncio.sleep(0.1)
        return time.monotonic() - since

    async def _send_until_accepted(self, number: int) -> None:
        while number not in self.accepted:
            try:
                answer = await self._service.post("traces", request([number]))
            except aiohttp.ClientError as error:
                said = self._service.stderr.read_text()[-3000:]
                raise AssertionError(f"the service does not answer: {said}") from error
            self.answers[answer] += 1
            if answer == 200:
                self.accepted.add(number)
            else:
                await asyncio.sleep(0.5)
