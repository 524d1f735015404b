"""Two monitors with one evaluator: each counts as if it were alone, and the judge is paid once for a verdict.

The oracle is each monitor alone, in a configuration without the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from plan_histories import one_plan
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from promtool import run, series

from collector.alerting.rules.targets import detector, targets
from collector.alerting.watch.stage import WatchRules, WatchStage
from collector.backoff import Backoff
from collector.config.configured import Config
from collector.config.loading import check
from collector.evaluate.budget.controller import BudgetController
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.evaluate.retry.request import RetryRequest
from collector.evaluate.scheduling.dispatch import BulkheadLimits, Dispatcher
from collector.evaluate.stage import EvaluateStage
from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.logs.consumer_runner import ConsumerTiming
from collector.logs.log import Record
from collector.logs.memory import MemoryLog
from collector.page.api import PageApi
from collector.page.requests import Filters
from collector.page.settings import PageSettings
from collector.page.sources import Sources
from collector.page.view import EvaluatorView, View
from collector.records.json import evaluation_from_json, turn_to_json
from collector.service.plan_builder import build_plan
from collector.telemetry.registry import Telemetry
from evaluators.cases import Turn
from evaluators.errors import EvaluationError
from evaluators.results import Evaluation
from evaluators.testing import ScriptedJudge

TURNS = 300
PRICE = 0.01
SHOP: dict[str, Any] = {"match": {"service": "shop"}}
BANK: dict[str, Any] = {"match": {"service": "bank"}}
EVERY: dict[str, Any] = {}
HALF: dict[str, Any] = {"sample": 0.5}
BOOSTED: dict[str, Any] = {"sample": 0.2, "boost": {"error": 1.0, "matching": [{"field": "service", "values": ["shop"], "factor": 4.0}]}}  # fmt: skip


def turn(number: int) -> Turn:
    """Of the shop, whose answers are bad, or of the bank, whose answers are good."""
    service = "shop" if number % 2 else "bank"
    return Turn(
        turn_id=f"t{number}",
        conversation_id=f"c{number}",
        service=service,
        input="?",
        actual_output="bad" if service == "shop" else "good",
    )


def config_of(monitors: Mapping[str, Any]) -> Config:
    rated = {
        "kind": "g_eval",
        "evaluation_steps": ["Is it good?"],
        "evaluation_params": ["actual_output"],
        "threshold": 0.7,
    }
    return check(
        {
            "judges": {"main": {"model": "m"}},
            "evaluators": {"short": rated},
            "monitors": {name: {"evaluators": ["short"], **fields} for name, fields in monitors.items()},
        },
        "test.yaml",
    )  # fmt: skip


@dataclass
class World:
    """Two logs, and a judge that is down for some turns at first."""

    refuses: bool = False
    turns: MemoryLog = field(default_factory=lambda: MemoryLog("turns", 1, timing=ConsumerTiming(clock=lambda: 1e9)))
    evaluations: MemoryLog = field(
        default_factory=lambda: MemoryLog("evaluations", 1, timing=ConsumerTiming(clock=lambda: 1e9))
    )
    calls: int = 0

    def answer(self, prompt: Any, _reply: Any) -> Any:
        self.calls += 1
        if self.refuses:
            raise EvaluationError("judge_refused", "no")
        return {"reason": "It is.", "score": 10 if "good" in str(prompt) else 0}

    async def put(self, numbers: Sequence[int]) -> None:
        turns = map(turn, numbers)
        await self.turns.append([Record((t.conversation_id or "").encode(), turn_to_json(t)) for t in turns])

    async def judge(self, monitors: Mapping[str, Any]) -> None:
        """Run the stage until nothing is due any more."""
        plan = build_plan(config_of(monitors), {"main": ScriptedJudge(self.answer, cost_usd=PRICE)})
        dispatcher = Dispatcher(
            self.evaluations, EvaluationGuardrails(Telemetry()), limits=BulkheadLimits(slots=4), backoff=Backoff(cap=0.01),
            budget=BudgetController(plan, 1),
        )  # fmt: skip
        stage = EvaluateStage(plan, dispatcher, turns=self.turns, definitions=one_plan())
        following = asyncio.create_task(self.turns.follow("evaluate", stage.open_fold))
        async with asyncio.timeout(60):
            done, end = -1, await self.turns.end_offset(0)
            while not (following.done() or (done := await self._committed()) >= end):
                await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.wait([following])
        assert following.cancelled(), following.exception()
        assert done >= end

    async def _committed(self) -> int:
        committed = (await self.turns.committed("evaluate")).get(0)
        return -1 if committed is None or committed.low_watermark < committed.offset else committed.offset

    async def records(self) -> list[Evaluation]:
        return [
            evaluation_from_json(stored.value)
            async for batch in self.evaluations.read(0, 0)
            for stored in batch
            if not stored.headers
        ]


async def retry(world: World, names: Sequence[str]) -> None:
    world.refuses = False
    for failed in [record for record in await world.records() if record.monitor in names]:
        await world.turns.append([RetryRequest(failed, turn(int((failed.subject.turn_id or "")[1:]))).to_record(0)])


async def judged(monitors: Mapping[str, Any], how: str) -> World:
    """What the monitors make of the traffic: by a running service, with a restart, or with a retry of all."""
    world = World(refuses=how == "retry")
    await world.put(range(TURNS // 2))
    first = dict(list(monitors.items())[-1:]) if how == "later" and len(monitors) > 1 else monitors
    if how == "alone later":  # it began with the second half
        world = World()
    else:
        await world.judge(first)
    await world.put(range(TURNS // 2, TURNS))
    await world.judge(monitors)
    if how == "retry":
        await retry(world, list(monitors))
        await world.judge(monitors)
    return world


def counted(records: Sequence[Evaluation], monitor: str) -> dict[str, tuple[float | None, float]]:
    """The score and the probability of each subject that a monitor has counted."""
    replaced = {name for record in records for name in record.supersedes}
    mine = [record for record in records if record.monitor == monitor and record.evaluation_id not in replaced]
    assert len({record.subject.turn_id for record in mine}) == len(mine), "none twice"
    return {record.subject.turn_id or "": (record.score, record.sampling.probability) for record in mine}


def exact_mean(found: Mapping[str, tuple[float | None, float]]) -> float:
    weights = sum(1 / chance for score, chance in found.values() if score is not None)
    return sum(score / chance for score, chance in found.values() if score is not None) / weights


async def alerting(config: Config, world: World) -> set[str]:
    """The monitors whose drop the watcher alerts on."""
    every = targets(config)
    held = {(target.monitor, target.evaluator): detector(target, every, config.settings.alerts, 1) for target in every if target.mean is not None}  # fmt: skip
    stage = WatchStage(WatchRules(held, config.settings.alerts), Telemetry())
    async with stage.open_fold(0, None) as fold:
        async for batch in world.evaluations.read(0, 0):
            await fold.deliver(batch)
        alerts = stage.update(1e9 + 120.0)
    return {alert.labels["monitor"] for alert in alerts}


async def sums(records: Sequence[Evaluation], names: Sequence[str]) -> list[dict[str, str]]:
    """The exporter's counters as series of promtool: 0 for five minutes, then what they are."""
    telemetry = Telemetry()
    version = records[0].evaluator_version
    watched = tuple(
        MonitoredEvaluator(evaluator="short", evaluator_version=version, monitor=name, threshold=0.7) for name in names
    )
    exporter = PrometheusExporter(PrometheusSettings(), ExportContext(telemetry=telemetry, evaluators=watched))
    generate_latest(telemetry.registry)
    await exporter.export(records)
    return [
        series(sample.name, [0.0] * 5 + [sample.value] * 40, **sample.labels)
        for family in text_string_to_metric_families(generate_latest(telemetry.registry).decode())
        for sample in family.samples
        if sample.name.startswith("evalstream_estimator_") and sample.name.endswith("_total")
    ]


def page_mean(records: Sequence[Evaluation], names: Sequence[str]) -> dict[str, float]:
    view = View([EvaluatorView(monitor=name, evaluator="short", threshold=0.7) for name in names])
    for position, record in enumerate(records):
        view.add_evaluation(record, 0, position, record.ended_at.timestamp())
    tracks = PageApi(view, PageSettings(), Sources()).overview(
        Filters(), max(record.ended_at.timestamp() for record in records) + 1
    )["tracks"]
    return {track["monitor"]: track["whole"]["mean"] for track in tracks}


@pytest.mark.long
@pytest.mark.parametrize(
    ("monitors", "how"),
    [
        ({"shop": SHOP, "everything": EVERY}, "live"),
        ({"everything": EVERY, "shop": SHOP}, "live"),
        ({"half": HALF, "all": EVERY}, "live"),
        ({"boosted": BOOSTED, "all": EVERY}, "live"),
        ({"half": HALF, "boosted": BOOSTED}, "live"),
        ({"shop": SHOP, "bank": BANK}, "live"),
        ({"shop": SHOP, "everything": EVERY}, "later"),
        ({"shop": SHOP, "everything": EVERY}, "retry"),
    ],
    ids=["part first", "part second", "sampled", "boosted", "sampled and boosted", "apart", "one starts later", "retried"],
)  # fmt: skip
async def test_each_monitor_counts_as_if_it_were_alone(monitors: dict[str, Any], how: str, tmp_path: Path) -> None:
    names = list(monitors)
    both = await judged(monitors, how)
    records = await both.records()
    means: dict[str, float] = {}
    falling: set[str] = set()
    for name in names:
        alone_how = "alone later" if how == "later" and name == names[0] else ("live" if how == "later" else how)
        alone = await judged({name: monitors[name]}, alone_how)
        mine = counted(records, name)
        expected = counted(await alone.records(), name)
        if alone_how == "alone later":
            expected = {key: value for key, value in expected.items() if key in mine}
            assert len(expected) > TURNS // 5
        assert mine == expected
        means[name] = exact_mean(mine)
        if how != "later":
            falling |= await alerting(config_of({name: monitors[name]}), alone)
    # The judge is asked once for a subject, and one monitor pays.
    paid = [record for record in records if record.shares is None and record.outcome == "scored"]
    subjects = {record.subject.turn_id for record in records}
    assert len(paid) == len({record.subject.turn_id for record in paid}) == len(subjects)
    assert both.calls == len(subjects) * (2 if how == "retry" else 1)
    assert sum(record.cost_usd or 0.0 for record in paid) == pytest.approx(PRICE * len(subjects))
    assert {record.cost_usd for record in records if record.shares is not None} <= {0.0}
    # Alerts, page and PromQL have the same means.
    if how != "later":
        assert await alerting(config_of(monitors), both) == falling
    assert page_mean(records, names) == pytest.approx(means)
    near = [
        {"expr": f'count(abs(evalstream:score_mean{{monitor="{name}",window="1h"}} - {mean:.10f}) < 0.0001)',
         "eval_time": "40m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for name, mean in means.items()
    ]  # fmt: skip
    run(tmp_path, config_of(monitors), [{"inputs": await sums(records, names), "values": near}])


async def test_a_monitor_that_was_the_only_one_knows_its_evaluations_once_it_is_the_second() -> None:
    """So it is with the log of a version in which monitors had the same ids."""
    before = World()
    await before.put(range(TURNS))
    await before.judge({"shop": SHOP})
    after = World(evaluations=before.evaluations)
    await after.put(range(TURNS))
    await after.judge({"bank": BANK, "shop": SHOP})
    assert after.calls == TURNS // 2, "those of the bank"
    for name in ("bank", "shop"):
        assert len(counted(await after.records(), name)) == TURNS // 2


async def test_after_a_crash_between_two_records_the_second_repeats_the_verdict_and_pays_nothing() -> None:
    """So does a log of the version before, which has no record of the second monitor."""
    monitors = {"shop": SHOP, "everything": EVERY}
    before = await judged(monitors, "live")
    after = World(turns=MemoryLog("turns", 1, timing=ConsumerTiming(clock=lambda: 1e9)))
    await after.put(range(TURNS))
    lines = [stored async for batch in before.evaluations.read(0, 0) for stored in batch if not stored.headers]
    kept = [stored for stored in lines if evaluation_from_json(stored.value).shares is None]
    await after.evaluations.append([Record(stored.key, stored.value, partition=0) for stored in kept])
    await after.judge(monitors)
    assert after.calls == 0
    for name in monitors:
        assert counted(await after.records(), name) == counted(await before.records(), name)
