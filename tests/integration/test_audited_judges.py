"""A cheap judge with audits: one evaluation, the draw, the configuration, the metrics, the watcher, the page."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from evaluation_samples import scored
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from collector.alerting.diagnosis.recent_scores import RecentScores
from collector.alerting.rules.targets import detector, targets
from collector.alerting.watch.stage import WatchRules, WatchStage
from collector.calibration.page_labels import LabelIndex
from collector.commands.check.check import report
from collector.config.configured import Config, without_audits
from collector.config.loading import check
from collector.config.unused_keys import unused_notes
from collector.errors import ConfigError
from collector.evaluate.guardrails import EvaluationGuardrails
from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.judging.layers import without_answer_cache
from collector.logs.log import Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.page.api import PageApi
from collector.page.requests import Filters
from collector.page.score_series import Bin
from collector.page.settings import PageSettings
from collector.page.sources import Sources
from collector.page.view import EvaluatorView, View
from collector.records.audits import audit_of, audit_outcome
from collector.records.json import evaluation_from_json, evaluation_to_json, label_to_json
from collector.records.labels import label_of
from collector.service.plan_builder import audit_version_in, build_plan, evaluator_version_in, expected_usd
from collector.service.watch import scales_of
from collector.statistics.audited_sums import SUM_NAMES, AuditedSums
from collector.telemetry.registry import Telemetry
from evaluators import ExactMatch, GEval, evaluate
from evaluators.judge import NoJudge
from evaluators.judges.audited import Audited
from evaluators.results import Evaluation, Failure, Sampling, Score, Subject
from evaluators.testing import ScriptedJudge, a_turn

G_EVAL = {"kind": "g_eval", "criteria": "Does it help?", "evaluation_params": ["actual_output"], "threshold": 0.6}
PRICES = {"usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}


def configured(audit: Any, *, evaluators: Any = None, **fields: Any) -> Config:
    """`helpful` by luna, with an audit, beside what `evaluators` says."""
    helpful = {**G_EVAL, "judge": "luna", **fields, "audit": audit}
    return check(
        {
            "judges": {
                "luna": {"model": "small", **PRICES},
                "strong": {
                    "model": "large",
                    "usd_per_million_input_tokens": 10.0,
                    "usd_per_million_output_tokens": 10.0,
                },
            },
            "evaluators": {"helpful": {k: v for k, v in helpful.items() if v is not None}, **(evaluators or {})},
            "monitors": {"chatbot": {"evaluators": ["helpful"]}},
        },
        "test.yaml",
    )


def rated(rating: int, model: str) -> ScriptedJudge:
    return ScriptedJudge({"reason": "It does.", "score": rating}, model=model, cost_usd=0.01)


def helpful() -> GEval:
    return GEval(name="helpful", evaluation_steps=["Does it help?"], evaluation_params=["actual_output"])


async def test_an_audit_stands_in_the_details_of_the_cheap_score_and_both_are_paid() -> None:
    judge = Audited(rated(8, "small"), rated(2, "large"), 0.3)
    audited = 0
    for number in range(200):
        case = a_turn(turn_id=f"{number:032x}")
        result = await evaluate(helpful(), case, judge)
        assert isinstance(result.outcome, Score)
        assert result.outcome.value == pytest.approx(0.8)
        assert result.judge is not None
        assert (result.judge.model, result.usage.calls if result.usage else 0) == (
            "small",
            1 + judge.audits(helpful(), case),
        )
        if judge.audits(helpful(), case):
            audited += 1
            assert result.outcome.details["audit"] == {
                "score": pytest.approx(0.2),
                "passed": False,
                "probability": 0.3,
                "model": "large",
                "version": judge.audit_version(helpful()),
                "input_tokens": 100,
                "calls": 1,
            }
            assert result.cost_usd == pytest.approx(0.02)
        else:
            assert "audit" not in result.outcome.details
            assert result.cost_usd == pytest.approx(0.01)
    assert 40 < audited < 80
    assert judge.model == "small", "the score is the same evaluation with and without audits"
    assert without_answer_cache(judge) is judge.judge


async def test_an_audit_has_the_verdict_of_the_auditor_and_labels_are_compared_with_it() -> None:
    """A label of 0.6 that fails counted as passed: by the score, and at the threshold of the audited evaluator."""
    labels = {"whole": "It is.", "partly": {"meaning": "Half.", "score": 0.6, "pass": False}}
    dear = {"kind": "classifier", "question": "Does it help?", "judge": "strong", "labels": labels}
    steps = {"criteria": None, "evaluation_steps": ["Does it help?"]}
    config = configured({"evaluator": "dear", "share": 1.0}, threshold=0.5, evaluators={"dear": dear}, **steps)
    answers = {
        "luna": rated(8, "small"),
        "strong": ScriptedJudge({"reason": "Half.", "label": "partly"}, model="large"),
    }
    plan = build_plan(config, answers)
    [assignment] = plan.monitors[0].assignments
    result = await evaluate(assignment.evaluator, a_turn(), assignment.judge)
    assert isinstance(result.outcome, Score)
    made = scored(1, evaluator="helpful", score=result.outcome.value, passed=True, details=result.outcome.details)
    audit = audit_of(evaluation_from_json(evaluation_to_json(made)))
    assert audit is not None
    assert (audit.score, audit.passed) == (pytest.approx(0.6), False)
    index, version = LabelIndex(), ("helpful:audit", assignment.audit_version or "")
    by_person = label_of(made, "l", made.ended_at, score=0.0)
    index.add(StoredRecord(0, 0, 0.0, b"k", label_to_json(by_person)))
    [label] = index.labels(version)
    scale = scales_of(plan)[version]
    assert scale.fails(label.judge, label.passed)
    older = {key: value for key, value in result.outcome.details["audit"].items() if key != "passed"}
    known = audit_of(replace(made, details={"audit": older}))
    assert known is not None
    assert known.passed is None
    assert not scale.decides(known.passed), "an earlier release did not note it"


async def test_an_audit_that_fails_is_noted_and_the_score_stays() -> None:
    broken = ScriptedJudge("no number", model="large")
    result = await evaluate(helpful(), a_turn(), Audited(rated(5, "small"), broken, 1.0))
    assert isinstance(result.outcome, Score)
    audit = result.outcome.details["audit"]
    assert "score" not in audit
    assert audit["reason"].startswith("judge_")
    failing = await evaluate(helpful(), a_turn(), Audited(broken, rated(5, "large"), 1.0))
    assert isinstance(failing.outcome, Failure), "nothing is audited that has no score"


async def test_code_is_audited_by_an_evaluator_with_a_judge_which_sees_what_a_judge_may_see() -> None:
    strong = rated(3, "large")
    judge = Audited(NoJudge(), strong, 1.0, helpful())
    guardrails = EvaluationGuardrails(Telemetry())
    code = ExactMatch(name="exact")
    case = a_turn(expected_output="Paris.", actual_output="Paris.")
    result = await guardrails.run(code, case, judge, now=lambda: datetime.now(UTC))
    assert isinstance(result.outcome, Score)
    assert (result.outcome.value, result.outcome.details["audit"]["score"]) == (1.0, pytest.approx(0.3))
    assert result.judge is None
    assert result.usage is not None
    assert result.cost_usd == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("audit", "more", "sentence"),
    [
        ({"share": 0.1}, {}, "name either the judge"),
        ({"judge": "strong", "evaluator": "dear"}, {}, "name either the judge"),
        ({"judge": "strogn"}, {}, "strong"),
        ({"judge": "luna"}, {}, "luna would audit itself"),
        ({"judge": "strong", "share": 0}, {}, "share"),
        ({"judge": "strong", "sahre": 0.1}, {}, "sahre"),
        ({"evaluator": "dear"}, {}, "dear"),
        ({"evaluator": "code"}, {"evaluators": {"code": {"kind": "exact_match"}}}, "asks no judge"),
        ({"judge": "strong"}, {"kind": "exact_match", "judge": None, "criteria": None, "evaluation_params": None},
         "uses no judge; name an evaluator"),
        ({"evaluator": "whole"}, {"evaluators": {"whole": {"kind": "satisfaction", "judge": "strong"}}}, "scores a"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused(audit: Any, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        configured(audit, **more)


def test_the_plan_of_an_audited_evaluator() -> None:
    config = configured({"judge": "strong", "share": 0.1})
    plain = without_audits(config)
    assert not list(unused_notes(config))
    assert evaluator_version_in(config, "helpful") == evaluator_version_in(plain, "helpful")
    assert audit_version_in(plain, "helpful") is None
    assert expected_usd(config, "helpful") == pytest.approx(2 * expected_usd(plain, "helpful"))
    judges = {"luna": rated(4, "small"), "strong": rated(4, "large")}
    (assignment,) = build_plan(config, judges).monitors[0].assignments
    assert isinstance(assignment.judge, Audited)
    assert assignment.judge.audit_version(assignment.evaluator) == audit_version_in(config, "helpful")
    assert assignment.judge_name == "luna"
    assert any("audit: strong judges 10 % again" in line for line in report(config))
    assert any("≈ 1,100 judge calls" in line for line in report(config)), list(report(config))
    assert {each.evaluator: each.mean for each in targets(config)} == {"helpful": None, "helpful:audit": 0.6}


def judged(number: int, cheap: float, dear: float | None, version: str, now: datetime) -> Evaluation:
    """One of four turns of a conversation, sampled with a half, audited with a quarter if `dear` is there."""
    audit = (
        {} if dear is None else {"audit": {"score": dear, "probability": 0.25, "model": "large", "version": version}}
    )
    return scored(
        number,
        evaluator="helpful",
        monitor="chatbot",
        score=cheap,
        passed=cheap >= 0.6,
        label=None,
        subject=Subject(conversation_id=str(number // 4), turn_id=f"{number:032x}"),
        sampling=Sampling(probability=0.5),
        details=audit,
        started_at=now,
        ended_at=now,
    )


def day(version: str, dear_mean: float, seed: int = 3) -> list[Evaluation]:
    """A cheap judge says 0.8 on average; the dear one `dear_mean`, on a quarter."""
    chance, now = Random(seed), datetime.now(UTC) - timedelta(minutes=5)
    made: list[Evaluation] = []
    for number in range(1600):
        cheap = min(1.0, max(0.0, chance.gauss(0.8, 0.1)))
        dear = min(1.0, max(0.0, cheap - 0.8 + dear_mean + chance.gauss(0.0, 0.05)))
        made.append(judged(number, cheap, dear if chance.random() < 0.25 else None, version, now))
    return made


async def test_metrics_have_the_sums_by_audits() -> None:
    evaluations, telemetry = day("abc", 0.5), Telemetry()
    watched = MonitoredEvaluator(
        evaluator="helpful", evaluator_version="0123456789ab", monitor="chatbot", threshold=0.6, audit_version="abc"
    )
    exporter = PrometheusExporter(PrometheusSettings(), ExportContext(telemetry=telemetry, evaluators=(watched,)))
    other = replace(
        evaluations[0], evaluation_id="e" * 32, details={"audit": {"probability": 0.25, "reason": "judge_timeout"}}
    )
    former = judged(9999, 0.8, 0.0, "of another auditor", evaluations[0].ended_at)
    generate_latest(telemetry.registry)
    await exporter.export([*evaluations, other, former])
    families = {
        each.name: each for each in text_string_to_metric_families(generate_latest(telemetry.registry).decode())
    }
    values = {each.labels["sum"]: each.value for each in families["evalstream_audited_sums"].samples}
    labels = {
        (each.labels["evaluator"], each.labels["evaluator_version"])
        for each in families["evalstream_audited_sums"].samples
    }
    assert labels == {("helpful:audit", "abc")}
    mean = AuditedSums(tuple(values[name] for name in SUM_NAMES)).corrected()
    assert mean is not None
    assert mean.mean == pytest.approx(0.5, abs=0.01)
    assert mean.error < 0.01
    assert mean.gain > 2
    audits = {each.labels["outcome"]: each.value for each in families["evalstream_audits"].samples}
    number = sum(audit_of(each) is not None for each in evaluations)
    assert audits == {"scored": number + 1, "judge_timeout": 1}


@pytest.mark.parametrize(("dear", "fires"), [(0.5, True), (0.68, False)])
async def test_the_watcher_alerts_on_the_audited_mean_and_not_on_the_cheap_one(dear: float, fires: bool) -> None:
    """The cheap judge says 0.8 in both cases, the target is 0.6."""
    config = configured({"judge": "strong", "share": 0.25})
    version = audit_version_in(config, "helpful")
    assert version is not None
    every = targets(config)
    held = {(each.monitor, each.evaluator): detector(each, every, config.settings.alerts, 1)
            for each in every if each.mean is not None}  # fmt: skip
    rules, recent = WatchRules(held, config.settings.alerts, audits={("chatbot", "helpful"): version}), RecentScores(())
    stage = WatchStage(rules, Telemetry(), recent=recent)
    log, made = MemoryLog("evaluations", partitions=1), day(version, dear)
    former = judged(9999, 0.8, 0.0, "of another auditor", made[0].ended_at)
    await log.append([Record(b"k", evaluation_to_json(each), partition=0) for each in (*made, former)])
    async with stage.open_fold(0, None) as fold:
        async for batch in log.read(0, 0):
            await fold.deliver(batch)
            then = batch[-1].timestamp
        alerts = stage.update(then + 120.0)
    assert bool(alerts) == fires
    known = recent.snapshot(("chatbot", "helpful:audit", version))
    assert len(known) == sum(audit_of(each) is not None for each in made), "no score of another auditor"
    assert {each.labels["evaluator"] for each in alerts} <= {"helpful:audit"}
    for each in alerts:
        assert "0.5" in each.annotations["description"]


def test_the_page_shows_the_audited_mean_and_keeps_it_in_its_history() -> None:
    view = View([EvaluatorView(monitor="chatbot", evaluator="helpful", threshold=0.6, audit_version="abc")])
    evaluations = [evaluation_from_json(evaluation_to_json(each)) for each in day("abc", 0.5)]
    for position, each in enumerate(evaluations):
        view.add_evaluation(each, 0, position, each.ended_at.timestamp())
    now = evaluations[-1].ended_at.timestamp()
    (track,) = api_of(view).overview(Filters(), now + 1)["tracks"]
    corrected = track["whole"]["corrected"]
    assert corrected["mean"] == pytest.approx(0.5, abs=0.01)
    assert corrected["worth"] > 2 * corrected["audits"]
    assert track["whole"]["mean"] == pytest.approx(0.8, abs=0.01)
    assert track["state"] == "bad", "by the audits: the cheap mean is above the threshold"
    stretch = view.unsaved(0, now + 120.0, after=60.0)
    assert stretch is not None
    (minute,) = stretch.minutes
    numbers = minute[2].numbers()
    assert Bin.from_numbers(numbers).audited.corrected() == minute[2].audited.corrected()
    plain = View([EvaluatorView(monitor="chatbot", evaluator="helpful", threshold=0.6)])
    for position, each in enumerate(evaluations):
        plain.add_evaluation(each, 0, position, now)
    (track,) = api_of(plain).overview(Filters(), now + 1)["tracks"]
    assert track["whole"]["corrected"] is None


def api_of(view: View) -> PageApi:
    return PageApi(view, PageSettings(), Sources())


class Unavailable:
    """A judge that does not answer until it is back."""

    model = "large"

    def __init__(self) -> None:
        self.back = asyncio.Event()
        self.waiting = self.most = self.asked = 0
        self._then = rated(2, "large")

    async def ask(self, prompt: Any, reply: Any, **options: Any) -> Any:
        self.asked += 1
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.back.wait()
        finally:
            self.waiting -= 1
        return await self._then.ask(prompt, reply, **options)


async def test_an_outage_of_the_dear_judge_costs_audits_and_never_cheap_verdicts() -> None:
    """Four slots, an audit of everything: the first four wait a moment, the others do not, and audits come again."""
    dear = Unavailable()
    judge = Audited(rated(8, "small"), dear, 1.0, patience=0.2)
    slots = asyncio.Semaphore(4)

    async def judged(number: int) -> Any:
        async with slots:
            return await evaluate(helpful(), a_turn(turn_id=f"{number:032x}"), judge)

    async with asyncio.timeout(20):
        results = await asyncio.gather(*(judged(number) for number in range(100)))
    assert [each.outcome.value for each in results] == [pytest.approx(0.8)] * 100
    assert {each.outcome.details["audit"]["reason"] for each in results} == {"audit_timeout"}
    assert all(each.usage.calls == 1 for each in results)
    assert dear.most <= 4
    assert dear.waiting == 0, "what nobody waits for is not asked any more"
    assert dear.asked < 40, "one at a time is tried"
    dear.back.set()
    again = [await judged(number) for number in range(100, 110)]
    assert all(each.outcome.details["audit"]["score"] == pytest.approx(0.2) for each in again)
    evaluation = replace(scored(), details=dict(results[0].outcome.details))
    assert (audit_of(evaluation), audit_outcome(evaluation)) == (None, "audit_timeout")
