"""Two processes with default stages over a real broker: one watches all scores, the other only shows what fires."""

from __future__ import annotations

import asyncio
import copy
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from configurations import checked
from servers import Webhook, webhook
from service import ServiceProcess, free_port
from topics import PARTITIONS, Topics

from collector.config.settings import LogSettings
from collector.logs.log import Log, Record
from collector.records.json import evaluation_to_json
from collector.service.open_logs import open_logs
from collector.service.plan_builder import evaluator_version_in
from evaluators.results import Evaluation, Subject

EVALUATORS = {"exact": {"kind": "exact_match", "threshold": 0.77}}
VERSION = evaluator_version_in(checked(EVALUATORS), "exact")
NUMBER = 600


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
    return Record(evaluation.evaluation_id.encode(), evaluation_to_json(evaluation), partition=number % PARTITIONS)


async def send(log: Log, first: int) -> None:
    """Scores of mean .60, though partition 0 has .9 and the others .45: whoever sees a part has another mean."""
    records = [
        scored(number, float(number % 20 < (18 if number % PARTITIONS == 0 else 9)))
        for number in range(first, first + NUMBER)
    ]
    for record in records:
        await log.append([record])


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(400)
async def test_one_of_two_watches_all_partitions_and_the_other_takes_over(tmp_path: Path, kafka_broker: Any) -> None:
    async with AsyncExitStack() as stack:
        hook = await stack.enter_async_context(webhook())
        config: dict[str, Any] = {
            "log": Topics(kafka_broker.bootstrap).log_settings(),
            "evaluators": EVALUATORS,
            "monitors": {"all": {"evaluators": ["exact"]}},
            "alerts": {"watcher": {"webhook": hook.url, "interval": "1s"}},
        }
        config["log"]["kafka"]["session_timeout"] = 6.0
        processes: list[ServiceProcess] = []
        for number in range(2):
            own, folder = copy.deepcopy(config), tmp_path / str(number)
            own["log"]["kafka"]["group_instance_id"] = f"replica-{number}"
            own["page"] = {"port": free_port()}
            folder.mkdir()
            processes.append(ServiceProcess(folder, own, ("--stages", "receive,assemble,evaluate,export,watch,page")))
            stack.push_async_callback(processes[-1].end)
        await asyncio.gather(*(process.start() for process in processes))
        async with open_logs(LogSettings.model_validate(config["log"])) as logs:
            await send(logs.evaluations, 0)
            await until_told(hook, 1)
            await asyncio.sleep(8.0)
            [(status, text)] = pages(hook)
            assert status == "firing"
            assert "the mean is 0.6" in text, text
            assert text.count("the mean is") == 1
            for process in processes:
                (alert,), part, unknown = await page_of(process)
                assert alert["name"] == "EvalstreamScoreDropped"
                assert f"from {NUMBER} effective conversations" in alert["summary"], "all scores, not those of its part"
                assert f"of {PARTITIONS} partitions: another process has the others" in part
                # the second: where one has all partitions of the turns, as they move later than the page's
                assert unknown.startswith(("This process evaluates ", "Another process has evaluated, too")), unknown
            owner = await watcher_of(processes)
            await owner.kill()
            await until_told(hook, 2)
            await asyncio.sleep(8.0)
            _, (status, text) = pages(hook)
            assert status == "firing", "the other one says it once more"
            assert "the mean is 0.6" in text, text
            (survivor,) = (process for process in processes if process is not owner)
            (alert,), part, unknown = await page_of(survivor)
            assert f"from {NUMBER} effective conversations" in alert["summary"]
            assert part is None
            assert unknown == "Another process has evaluated, too, since this one started."


async def page_of(process: ServiceProcess) -> tuple[list[dict[str, Any]], str | None, str]:
    """The alerts on a process's page, what it says of its partitions, and why it does not know the turns."""
    address = f"http://127.0.0.1:{process.config['page']['port']}/api/overview"
    async with aiohttp.ClientSession() as session, session.get(address) as response:
        overview = await response.json()
    firing = [each for each in overview["alerts"] if each["severity"] != "info"]  # releases may not be compared yet
    return firing, overview["part"], overview["funnel"]["unknown"]


def pages(hook: Webhook) -> list[tuple[str, str]]:
    """Their status and text; a warning may come before, while scores are still sent."""
    return [
        (alert["status"], alert["annotations"]["description"])
        for alert in hook.alerts
        if alert["labels"]["alertname"] == "EvalstreamScoreDropped"
    ]


async def until_told(hook: Webhook, number: int) -> None:
    async with asyncio.timeout(120):
        while len(pages(hook)) < number:
            await asyncio.sleep(0.2)


async def watcher_of(processes: list[ServiceProcess]) -> ServiceProcess:
    """The process whose series of notifications has counted any."""
    told = [
        process
        for process in processes
        if 'evalstream_watch_notifications_total{result="ok"}' in await process.metrics()
    ]
    assert len(told) == 1, "one of them alone has told anybody"
    return told[0]
