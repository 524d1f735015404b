"""The watcher in the running service: pages through a real Alertmanager, or straight to a webhook, without Prometheus."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from configurations import checked
from servers import Webhook, alertmanager, webhook
from service import free_port

from collector.alerting.rules import formats
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import Timing
from collector.config.configured import Config
from collector.logs.log import Record
from collector.records.json import evaluation_to_json
from collector.service.app import Running, running
from collector.service.plan_builder import evaluator_version_in
from evaluators.results import Evaluation, Subject

pytestmark = pytest.mark.timeout(300)  # deadlines within are for busy machines

NAMES = {"alertname": "EvalstreamScoreDropped", "severity": "page", "monitor": "all", "evaluator": "exact"}


def configured(folder: Path, *, case_sensitive: bool = True, **watcher: Any) -> Config:
    return checked(
        {"exact": {"kind": "exact_match", "threshold": 0.77, "case_sensitive": case_sensitive}},
        log={"kind": "sqlite", "path": str(folder / "evalstream.db")},
        export={"prometheus": {"port": free_port()}},
        alerts={"webhook": watcher.pop("routed_to", None), "watcher": {"interval": "1s", **watcher}},
    )


VERSION = evaluator_version_in(checked({"exact": {"kind": "exact_match", "threshold": 0.77}}), "exact")


def scored(number: int, score: float) -> Record:
    now = datetime.now(UTC)
    evaluation = Evaluation(
        evaluation_id=f"{number:032x}",
        evaluator="exact",
        evaluator_version=VERSION,
        scope="turn",
        monitor="all",
        subject=Subject(conversation_id=str(number), turn_id=str(number)),
        outcome="scored",
        score=score,
        method="deterministic",
        started_at=now,
        ended_at=now,
    )
    return Record(evaluation.evaluation_id.encode(), evaluation_to_json(evaluation), partition=0)


class Feed:
    """Scores of 0 or 1, 200 a second."""

    def __init__(self, service: Running, seed: int = 1) -> None:
        self.service = service
        self.chance = random.Random(seed)
        self.number = seed * 1_000_000

    async def at(self, mean: float, seconds: float) -> None:
        for _ in range(int(seconds * 10)):
            records = [scored(self.number + n, float(self.chance.random() < mean)) for n in range(20)]
            self.number += 20
            await self.service.logs.evaluations.append(records)
            await asyncio.sleep(0.1)


async def until(true: Callable[[], object], within: float = 90.0) -> None:
    async with asyncio.timeout(within):
        while not true():
            await asyncio.sleep(0.05)


@pytest.mark.long
@pytest.mark.slow
async def test_a_drop_reaches_a_webhook_through_a_real_alertmanager_and_resolves(tmp_path: Path):
    async with webhook() as hook:
        configuration = configured(tmp_path, routed_to=hook.url)
        routes = formats.text(formats.alertmanager(rules_of(configuration, Timing(speed=300.0))))
        async with alertmanager(tmp_path, routes) as url:
            async with running(configured(tmp_path, alertmanager=url), {"watch"}) as service:
                feed = Feed(service)
                await feed.at(0.85, seconds=3)
                assert hook.alerts == []
                await feed.at(0.3, seconds=3)
                await until(lambda: hook.firing(**NAMES))
                await feed.at(1.0, seconds=6)
                await until(lambda: _resolved(hook))
            said = hook.firing(**NAMES)[0]["annotations"]
            assert "0.77" in said["description"]
            assert said["runbook_url"] == "deploy/runbooks/EvalstreamScoreDropped.md"


@pytest.mark.slow
async def test_a_real_alertmanager_calls_the_heartbeat_once_an_interval(tmp_path: Path):
    """It called only every other time while `repeat_interval` was as long as `group_interval`: 2 s here, a minute in use."""
    alert = {"labels": {"alertname": "EvalstreamWatchdog", "severity": "heartbeat"}}
    async with webhook() as hook:
        configuration = checked({"exact": {"kind": "exact_match"}}, alerts={"heartbeat": hook.url})
        routes = formats.text(formats.alertmanager(rules_of(configuration, Timing(speed=30.0))))
        async with alertmanager(tmp_path, routes) as url, aiohttp.ClientSession() as session:
            await session.post(f"{url}/api/v2/alerts", json=[alert])
            await until(lambda: hook.alerts)
            began = time.monotonic()
            await until(lambda: len(hook.alerts) >= 4)
            assert time.monotonic() - began < 9  # three intervals; six of them before


def _resolved(hook: Webhook) -> list[dict[str, Any]]:
    return [each for each in hook.alerts if each["status"] == "resolved" and NAMES.items() <= each["labels"].items()]


@pytest.mark.slow
async def test_a_restart_reads_the_state_back_and_a_webhook_that_was_down_has_interval(tmp_path: Path):
    """The drop happens before the restart; the service that says so has only read of it."""
    dead = "http://127.0.0.1:9/hook"
    async with running(configured(tmp_path, webhook=dead), {"watch"}) as service:
        await Feed(service).at(0.3, seconds=2)
    async with webhook() as hook, running(configured(tmp_path, webhook=hook.url), {"watch"}):
        await until(lambda: hook.firing(**NAMES))
        await asyncio.sleep(2.5)
        assert len(hook.firing(**NAMES)) == 1, "a webhook hears of changes only"
    async with webhook() as hook, running(configured(tmp_path, case_sensitive=False, webhook=hook.url), {"watch"}):
        await until(lambda: _resolved(hook))


@pytest.mark.slow
async def test_in_control_nobody_has_interval(tmp_path: Path):
    async with webhook() as hook, running(configured(tmp_path, webhook=hook.url), {"watch"}) as service:
        await Feed(service, seed=3).at(0.85, seconds=6)
        assert hook.alerts == []
