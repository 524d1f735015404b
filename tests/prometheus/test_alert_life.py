"""The life of a drop's alert on a real Prometheus and Alertmanager: restarts, the repair, and a second drop.

The rules' clock goes sixty times as fast: an interval is a second, what a state is remembered for a minute.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from servers import Prometheus, Webhook, alertmanager, prometheus, webhook
from service import free_port
from test_alerts_end_to_end import FAST, Judged, configured, files

from collector.alerting.rules.generate import rules_of
from collector.service.app import running

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow, pytest.mark.long]

DROPPED = "EvalstreamScoreDropped"


def drops(hook: Webhook, status: str) -> list[dict[str, Any]]:
    return [each for each in hook.alerts if each["labels"]["alertname"] == DROPPED and each["status"] == status]


async def until_told(hook: Webhook, status: str, count: int, within: float = 150.0) -> dict[str, Any]:
    """Wait for so many notifications; the last of them."""
    async with asyncio.timeout(within):
        while len(drops(hook, status)) < count:
            await asyncio.sleep(0.1)
    return drops(hook, status)[-1]


async def until_described(seen: Prometheus, words: str, within: float = 90.0) -> None:
    """Wait until the alert's text contains the words.

    A window may show a fall before the detector finds it. Then the first notification does not say when it began, and
    Alertmanager sends the later text only as it repeats.
    """
    async with asyncio.timeout(within):
        while not any(words in text for text in await seen.descriptions(DROPPED)):
            await asyncio.sleep(0.1)


class Service:
    """The only process behind a scrape target; `restart` takes its counters away."""

    def __init__(self, port: int, hook: str) -> None:
        self.config = configured(port, hook)
        self.judged: Judged | None = None
        self._stack = AsyncExitStack()
        self._mean, self._number = 0.85, 0

    async def start(self) -> None:
        service = await self._stack.enter_async_context(running(self.config, {"export"}))
        version = self.config.evaluators["exact"].evaluator.version
        self.judged = Judged(service, version, mean=self._mean, number=self._number, failing=0)
        feeding = asyncio.create_task(self.judged.feed_forever())
        self._stack.push_async_callback(asyncio.wait, [feeding])
        self._stack.callback(feeding.cancel)

    async def stop(self) -> None:
        if self.judged is not None:
            self._mean, self._number = self.judged.mean, self.judged.number
        self.judged = None
        await self._stack.aclose()

    async def restart(self, pause: float) -> None:
        await self.stop()
        await asyncio.sleep(pause)
        await self.start()

    def falls_to(self, mean: float) -> None:
        assert self.judged is not None
        self.judged.mean = mean


async def test_a_page_outlives_restarts_ends_after_the_repair_and_a_second_drop_pages_again(tmp_path: Path):
    """The only process restarts twice within the incident, for ten intervals, and Prometheus once."""
    async with AsyncExitStack() as stack:
        hook = await stack.enter_async_context(webhook())
        port = free_port()
        service = Service(port, hook.url)
        rules, routes = files(rules_of(service.config, FAST))
        manager = await stack.enter_async_context(alertmanager(tmp_path, routes))
        await service.start()
        stack.push_async_callback(service.stop)
        target = f"127.0.0.1:{port}"
        async with prometheus(tmp_path, rules, [target], manager) as seen:
            await seen.until("evalstream:drop_evidence")
            await asyncio.sleep(20)
            assert drops(hook, "firing") == []
            service.falls_to(0.3)
            page = await until_told(hook, "firing", 1)
            said = page["annotations"]["description"]
            assert "?" not in said, said
            assert "fell between 20" in said or "the mean of 15m (" in said, said
            await until_described(seen, "fell between 20")
            assert 0.1 < await seen.until("evalstream:drop_level") < 0.6
            since = await seen.until("evalstream:drop_since")
            await service.restart(pause=10.0)
            await asyncio.sleep(15)
            assert drops(hook, "resolved") == [], "the cause is still there"
        # By the fast clock Alertmanager waits four seconds for Prometheus, so it may have told of an end meanwhile.
        async with prometheus(tmp_path, rules, [target], manager) as seen:
            assert await seen.until("evalstream:drop_falls") >= 1
            await asyncio.sleep(5)
            assert await seen.until("evalstream:drop_falls") >= 1
            assert await seen.until("evalstream:drop_since") >= since
            ended = len(drops(hook, "resolved"))
            service.falls_to(0.95)
            await until_told(hook, "resolved", ended + 1)
            known = len(drops(hook, "firing"))
            await asyncio.sleep(10)
            service.falls_to(0.3)
            again = await until_told(hook, "firing", known + 1)
            assert again["startsAt"] > page["startsAt"]
            assert "?" not in again["annotations"]["description"]
