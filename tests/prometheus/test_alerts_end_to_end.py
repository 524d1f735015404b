"""The service, Prometheus with the generated rules, Alertmanager and a webhook: a page when scores fall, else silence.

The rules' clock goes sixty times as fast: an interval is a second, the windows are 15 s to 24 min.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from configurations import checked
from servers import Webhook, alertmanager, prometheus, webhook
from service import free_port

from collector.alerting.rules import formats
from collector.alerting.rules.generate import rules_of
from collector.alerting.rules.model import RuleSet, Timing
from collector.config.configured import Config
from collector.logs.log import Record
from collector.records.json import evaluation_to_json, turn_to_json
from collector.service.app import Running, running
from evaluators.cases import Turn
from evaluators.results import ErrorDetail, Evaluation, Sampling, Subject

pytestmark = pytest.mark.timeout(300)  # deadlines within are for busy machines

FAST = Timing(speed=60.0)
IN_CONTROL = 25.0
PER_SECOND = 12


def configured(port: int, hook: str | None = None) -> Config:
    return checked(
        {"exact": {"kind": "exact_match", "threshold": 0.77}},
        log={"kind": "memory"},
        receive={},
        export={"prometheus": {"port": port}},
        alerts={"webhook": hook, "false_alarm_days": 90},
    )


@dataclass
class Replica:
    """A service of its own behind one scrape target, fed with turns whose answer is right with probability `quality`."""

    port: int
    chance: random.Random
    quality: float = 0.86
    turns: int = 0
    _service: Running | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self) -> None:
        self._service = await self._stack.enter_async_context(running(configured(self.port), {"evaluate", "export"}))

    async def stop(self) -> None:
        self._service = None
        await self._stack.aclose()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def feed_forever(self) -> None:
        while True:
            if self._service is not None:
                await self._service.logs.turns.append([self._turn()])
            await asyncio.sleep(1 / PER_SECOND)

    def _turn(self) -> Record:
        self.turns += 1
        answer = "right" if self.chance.random() < self.quality else "wrong"
        name = f"{self.port}-{self.turns}"
        turn = Turn(turn_id=name, conversation_id=name, input="?", actual_output=answer, expected_output="right")
        return Record(name.encode(), turn_to_json(turn), partition=0)


@asynccontextmanager
async def replicas(count: int) -> AsyncIterator[list[Replica]]:
    made = [Replica(free_port(), random.Random(number)) for number in range(count)]
    for each in made:
        await each.start()
    try:
        yield made
    finally:
        for each in made:
            await each.stop()


@asynccontextmanager
async def fed(services: list[Replica]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.feed_forever()) for each in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def files(rules: RuleSet) -> tuple[str, str]:
    return formats.text(formats.prometheus(rules)), formats.text(formats.alertmanager(rules))


def slow_machine(alert: dict[str, Any]) -> bool:
    """By the fast clock a service is gone after five seconds; a machine that is busy may take as long to scrape.

    And the services here run no other stages than those that scores need.
    """
    return alert["labels"]["alertname"] in {"EvalstreamDown", "EvalstreamStageDown"}


async def first_page(hook: Webhook, within: float) -> None:
    """Wait until something pages about scores."""
    async with asyncio.timeout(within):
        while not hook.firing(severity="page", evaluator="exact"):
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_drop_pages_through_alertmanager_and_what_is_in_control_is_silent(tmp_path: Path):
    async with AsyncExitStack() as stack:
        hook = await stack.enter_async_context(webhook())
        services = await stack.enter_async_context(replicas(2))
        rules, routes = files(rules_of(configured(0, hook.url), FAST))
        manager = await stack.enter_async_context(alertmanager(tmp_path, routes))
        targets = [f"127.0.0.1:{each.port}" for each in services]
        seen = await stack.enter_async_context(prometheus(tmp_path, rules, targets, manager))
        # turns count at once, and scores wait: their weights are more than turns from before the first scrape
        await seen.until("count(evalstream_estimator_w_total) == 2")
        await stack.enter_async_context(fed(services))

        await asyncio.sleep(IN_CONTROL / 2)
        await services[1].restart()
        await asyncio.sleep(IN_CONTROL / 2)
        not_run_here = 'ALERTS{alertname="EvalstreamStageDown",stage=~"receive|assemble"}'
        assert await seen.query(f'ALERTS{{alertname!="EvalstreamDown"}} unless {not_run_here}') == []
        assert [each for each in hook.alerts if not slow_machine(each)] == []
        mean = await seen.until('evalstream:score_mean{window="1h"}')
        assert 0.77 < mean < 0.95
        evidence = await seen.until("evalstream:drop_evidence")
        assert evidence < await seen.until("evalstream:drop_threshold")

        for each in services:
            each.quality = 0.3
        await first_page(hook, within=90.0)
        page = hook.firing(severity="page", evaluator="exact")[0]
        assert page["labels"] == {**page["labels"], "evaluator": "exact", "monitor": "all"}
        assert page["labels"]["alertname"] in {"EvalstreamScoreBelowTarget", "EvalstreamScoreDropped"}
        assert "0.77" in page["annotations"]["description"]
        assert "±" in page["annotations"]["description"]
        assert "?" not in page["annotations"]["description"]
        assert page["annotations"]["runbook_url"].endswith(f"{page['labels']['alertname']}.md")


@dataclass
class Judged:
    """Evaluations of conversations of one turn, one in `failing` of which failed because the judge did not answer."""

    service: Running
    version: str
    mean: float = 0.85
    failing: int = 14
    chance: random.Random = field(default_factory=lambda: random.Random(5))
    number: int = 0

    async def feed_forever(self) -> None:
        while True:
            await self.service.logs.evaluations.append([self._next()])
            await asyncio.sleep(1 / PER_SECOND)

    def _next(self) -> Record:
        self.number += 1
        failed = bool(self.failing) and self.number % self.failing == 0
        now = datetime.now(UTC)
        score = None if failed else float(self.chance.random() < self.mean)
        evaluation = Evaluation(
            evaluation_id=f"{self.number:032x}",
            evaluator="exact",
            evaluator_version=self.version,
            scope="turn",
            monitor="all",
            subject=Subject(conversation_id=str(self.number), turn_id=str(self.number)),
            outcome="failed" if failed else "scored",
            score=score,
            error=ErrorDetail(type="judge_timeout", message="no answer") if failed else None,
            method="deterministic",
            started_at=now,
            ended_at=now,
        )
        return Record(evaluation.evaluation_id.encode(), evaluation_to_json(evaluation), partition=0)


@pytest.mark.slow
@pytest.mark.long
async def test_a_large_drop_pages_although_some_judge_calls_fail(tmp_path: Path):
    """7 % are unscored, which a warning says; that explains 0.07, and not a fall from 0.85 to 0.30."""
    async with AsyncExitStack() as stack:
        hook = await stack.enter_async_context(webhook())
        port = free_port()
        config = configured(port, hook.url)
        service = await stack.enter_async_context(running(config, {"export"}))
        rules, routes = files(rules_of(config, FAST))
        manager = await stack.enter_async_context(alertmanager(tmp_path, routes))
        seen = await stack.enter_async_context(prometheus(tmp_path, rules, [f"127.0.0.1:{port}"], manager))
        judged = Judged(service, config.evaluators["exact"].evaluator.version)
        feeding = asyncio.create_task(judged.feed_forever())
        try:
            async with asyncio.timeout(120):
                while not hook.firing(alertname="EvalstreamUnscored"):
                    await asyncio.sleep(0.1)
            assert 0.05 < await seen.until("evalstream:score_doubt") < 0.1
            assert hook.firing(severity="page", evaluator="exact") == []
            judged.mean = 0.3
            await first_page(hook, within=90.0)
        finally:
            feeding.cancel()
            await asyncio.wait([feeding])
        page = hook.firing(severity="page", evaluator="exact")[0]
        assert page["labels"]["alertname"] in {"EvalstreamScoreBelowTarget", "EvalstreamScoreDropped"}
        assert "may have moved the mean by at most 0.0" in page["annotations"]["description"]


def flagged_traffic(count: int) -> tuple[list[Evaluation], float]:
    """A tenth of the traffic is flagged, answers worse and is judged four times as often; and the mean of it all."""
    chance = random.Random(2026)
    now = datetime.now(UTC)
    judged: list[Evaluation] = []
    total = 0.0
    for number in range(count):
        flagged = chance.random() < 0.1
        score = min(1.0, max(0.0, chance.gauss(0.4 if flagged else 0.85, 0.15)))
        probability = 0.8 if flagged else 0.2
        total += score
        if chance.random() < probability:
            judged.append(
                Evaluation(
                    evaluation_id=f"{number:032x}",
                    evaluator="exact",
                    evaluator_version="0123456789ab",
                    scope="turn",
                    monitor="all",
                    subject=Subject(conversation_id=str(number), turn_id=str(number), trace_id=f"{number + 1:032x}"),
                    outcome="scored",
                    score=score,
                    passed=score >= 0.77,
                    method="deterministic",
                    sampling=Sampling(probability=probability, stratum="flagged" if flagged else "all"),
                    started_at=now,
                    ended_at=now,
                )
            )
    return judged, total / count


@pytest.mark.slow
async def test_the_weighted_mean_is_right_where_the_plain_one_is_off(tmp_path: Path):
    judged, truth = flagged_traffic(4000)
    port = free_port()
    config = configured(port)
    rules, _ = files(rules_of(config, FAST))
    version = config.evaluators["exact"].evaluator.version
    async with running(config, {"export"}) as service, prometheus(tmp_path, rules, [f"127.0.0.1:{port}"]) as seen:
        await seen.until("evalstream_estimator_w_total == 0")
        for evaluation in judged:
            record = evaluation_to_json(replace(evaluation, evaluator_version=version))
            await service.logs.evaluations.append([Record(evaluation.evaluation_id.encode(), record, partition=0)])
        await seen.until(f"gen_ai_evaluation_score_count == {len(judged)}")
        by = "on (evaluator, evaluator_version, monitor)"
        counted = "(evalstream_estimator_wy_total / evalstream_estimator_w_total)"
        await seen.until(f'abs(evalstream:score_mean{{window="24h"}} - {by} {counted}) < 1e-9')  # rules have seen all
        mean = await seen.until('evalstream:score_mean{window="24h"}')
        error = await seen.until('evalstream:score_stderr{window="24h"}')
        plain = await seen.until("gen_ai_evaluation_score_sum / gen_ai_evaluation_score_count")
    assert abs(mean - truth) < 2 * error
    assert error < 0.02
    assert abs(plain - truth) > 5 * error
    print(f"truth {truth:.4f}, weighted {mean:.4f} ± {error:.4f}, plain {plain:.4f}")
