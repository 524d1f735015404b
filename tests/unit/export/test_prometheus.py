from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import timedelta

import aiohttp
import pytest
from evaluation_samples import START, TRACE, failed, of_conversation, scored, skipped
from prometheus_client import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from collector.errors import ConfigError
from collector.evaluate.outcomes import PrometheusOutcomes
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.telemetry.registry import Telemetry
from evaluators import Composite, evaluate
from evaluators.evaluation import make_record
from evaluators.judge import NoJudge
from evaluators.results import Evaluation, Failure, JudgeStamp, Retry, Sampling, Score, Usage
from evaluators.testing import a_turn
from evaluators.turn.contains import Contains
from evaluators.turn.exact_match import ExactMatch

LABELS = {
    "evaluator": "answers_question",
    "evaluator_version": "0123456789ab",
    "monitor": "helpdesk",
    "segment": "all",
}
WATCHED = MonitoredEvaluator(
    evaluator="answers_question", evaluator_version="0123456789ab", monitor="helpdesk", threshold=0.5
)


class Exported:
    """What /metrics says after some evaluations."""

    def __init__(self, exporter: PrometheusExporter, context: ExportContext) -> None:
        self.exporter = exporter
        self.registry = context.telemetry.registry

    def __getitem__(self, name: str) -> float | None:
        return self.value(name, **LABELS)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


async def exported(*evaluations, watched=(), **settings) -> Exported:
    context = ExportContext(telemetry=Telemetry(), evaluators=watched)
    exporter = PrometheusExporter(PrometheusSettings(**settings), context)
    generate_latest(context.telemetry.registry)
    await exporter.export(evaluations)
    return Exported(exporter, context)


async def read(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.status == 200


async def test_scores_are_observed_and_weighted():
    seen = await exported(
        scored(1, score=0.75), scored(2, score=0.5, subject=replace(scored().subject, conversation_id="b"))
    )
    assert seen["gen_ai_evaluation_score_count"] == 2
    assert seen["gen_ai_evaluation_score_sum"] == 1.25
    assert seen["evalstream_estimator_w_total"] == 8.0
    assert seen["evalstream_estimator_wy_total"] == 5.0
    assert seen["evalstream_estimator_w2_total"] == 32.0
    assert seen["evalstream_estimator_w2y_total"] == 20.0
    assert seen["evalstream_estimator_w2y2_total"] == 13.0


@pytest.mark.parametrize(
    ("details", "unshown"),
    [
        ({"unshown": 0.95, "truncated": True}, 0.95),
        ({"truncated": True}, 0.0),
        ({"unshown": "all"}, 0.0),
        ({"unshown": 7.0}, 1.0),
    ],
)
async def test_what_judges_were_not_shown_is_counted(details: dict[str, object], unshown: float):
    seen = await exported(scored(1, score=0.75, details=details), scored(2, score=0.5))
    assert seen["evalstream_unshown_total"] == pytest.approx(unshown)


async def test_turns_of_one_conversation_are_one_cluster():
    seen = await exported(*(scored(number, score=0.5, sampling=Sampling(probability=1.0)) for number in range(3)))
    assert seen["evalstream_estimator_w2_total"] == 9.0
    assert seen["evalstream_estimator_w2y2_total"] == 2.25


async def test_outcomes_and_reasons():
    seen = await exported(scored(), skipped(), skipped(5, "incomplete: no_content"), failed())
    outcomes = {
        ("scored", ""): 1,
        ("skipped", "missing_field"): 1,
        ("skipped", "incomplete"): 1,
        ("failed", "judge_timeout"): 1,
    }
    for (outcome, reason), count in outcomes.items():
        assert seen.value("evalstream_evaluations_total", **LABELS, outcome=outcome, reason=reason) == count
    assert seen["gen_ai_evaluation_score_count"] == 1  # a failure is no score


async def test_verdicts_with_their_weight():
    seen = await exported(scored(passed=True), scored(2, passed=False), scored(3, passed=None))
    for verdict in ("pass", "fail"):
        assert seen.value("evalstream_verdicts_total", **LABELS, verdict=verdict) == 1
        assert seen.value("evalstream_verdict_weight_total", **LABELS, verdict=verdict) == 4


async def test_work_cost_and_staleness():
    later = START + timedelta(seconds=90)
    seen = await exported(scored(ended_at=later), scored(2), failed(), skipped())
    work = {"evaluator": "answers_question", "monitor": "helpdesk"}
    assert seen.value("evalstream_judge_tokens_total", **work, direction="input") == 1200
    assert seen.value("evalstream_judge_tokens_total", **work, direction="output") == 180
    assert seen.value("evalstream_judge_calls_total", **work) == 6
    assert seen.value("evalstream_judge_cost_usd_total", **work) == pytest.approx(0.006)
    assert seen.value("evalstream_last_success_timestamp_seconds", **work) == later.timestamp()
    assert seen.value("evalstream_evaluation_duration_seconds_count", **work) == 4


async def test_configured_evaluators_are_there_from_the_start():
    seen = await exported(watched=(WATCHED,))
    assert seen["gen_ai_evaluation_score_count"] == 0
    assert seen["evalstream_estimator_w_total"] == 0
    assert seen.value("evalstream_verdicts_total", **LABELS, verdict="fail") == 0
    target = {name: LABELS[name] for name in ("evaluator", "evaluator_version", "monitor")}
    assert seen.value("evalstream_target_score", **target) == 0.5


async def test_segments_come_from_a_closed_list():
    tiers = [scored(n, attributes={"tier": tier}) for n, tier in enumerate(["gold", "free", "x" * 5000, None, 7])]
    seen = await exported(*tiers, scored(9), watched=(WATCHED,), segment_by="tier", segments=("gold", "free", "silver"))
    counts = {
        segment: seen.value("gen_ai_evaluation_score_count", **{**LABELS, "segment": segment})
        for segment in ("gold", "free", "silver", "other")
    }
    assert counts == {"gold": 1, "free": 1, "silver": 0, "other": 4}


async def test_scrape_in_both_formats_with_exemplars_in_openmetrics():
    context = ExportContext(telemetry=Telemetry(), evaluators=(WATCHED,))
    async with (
        PrometheusExporter.open(PrometheusSettings(port=0), context) as exporter,
        aiohttp.ClientSession() as session,
    ):
        url = f"http://127.0.0.1:{exporter.port}/metrics"
        await read(url)
        await exporter.export([scored(), scored(2, passed=False), of_conversation(), failed(), skipped()])
        async with session.get(url, headers={"Accept": "application/openmetrics-text; version=1.0.0"}) as response:
            families = {family.name: family for family in openmetrics(await response.text())}
        async with session.get(url) as response:
            names = {family.name for family in plain(await response.text())}
    exemplars = [sample.exemplar.labels for sample in families["gen_ai_evaluation_score"].samples if sample.exemplar]
    assert {"trace_id": "ab" * 16} in exemplars
    failures = [sample for sample in families["evalstream_verdicts"].samples if sample.labels["verdict"] == "fail"]
    assert failures[0].exemplar.labels == {"trace_id": TRACE}
    assert {"gen_ai_evaluation_score", "evalstream_estimator_w2y2", "evalstream_target_score"} <= names
    assert not any(name.endswith("_created") for name in names)


async def test_a_trace_id_of_another_kind_is_no_exemplar():
    odd = replace(scored().subject, trace_id="x" * 300)
    seen = await exported(scored(subject=odd), scored(2, subject=replace(odd, trace_id=None)))
    assert seen["gen_ai_evaluation_score_count"] == 2


async def test_a_million_names_make_a_bounded_number_of_series():
    seen = await exported(*(scored(n, evaluator=f"evaluator-{n}", monitor=f"monitor-{n}") for n in range(1000)))
    lines = generate_latest(seen.registry).count(b"gen_ai_evaluation_score_count{")
    assert lines <= 201


async def test_a_taken_port_is_a_configuration_error():
    context = ExportContext(telemetry=Telemetry())
    async with PrometheusExporter.open(PrometheusSettings(port=0), context) as first:
        with pytest.raises(ConfigError, match=r"write another export\.prometheus\.port"):
            async with PrometheusExporter.open(PrometheusSettings(port=first.port), context):
                pass


async def test_everything_evaluated_has_its_weight_whatever_came_of_it():
    seen = await exported(scored(1), skipped(2), failed(3))
    expected = sum(1 / each.sampling.probability for each in (scored(1), skipped(2), failed(3)))
    assert seen["evalstream_evaluation_weight_total"] == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.25])
async def test_a_gate_counts_its_traffic_once(share: float):
    """Its scores, weighed by 1 / (p * share), stood for what it skipped, and the skips were added: 1.8 times the traffic."""
    gate = Composite(
        name=LABELS["evaluator"], of=(Contains(name="short", search_text="a", threshold=1.0), ExactMatch(name="same")),
        combine="if", share=share,
    )  # fmt: skip
    judged = [await by_gate(gate, number) for number in range(2000) if random.Random(number).random() < 0.3]
    seen = await exported(*judged)
    chance = 4 * math.sqrt(2000 * 0.7 / 0.3)
    assert seen["evalstream_evaluation_weight_total"] == pytest.approx(2000, abs=chance)
    assert seen["evalstream_evaluation_weight_total"] == pytest.approx(len(judged) / 0.3)
    assert {each.outcome for each in judged} == {"scored", "skipped", "failed"} - ({"failed"} if not share else set())
    stratum = {name: LABELS[name] for name in ("evaluator", "monitor")} | {"stratum": "all"}
    assert seen.value("evalstream_sampling_probability", **stratum) == pytest.approx(0.3)
    stands_for = sum(1 / each.sampling.probability for each in judged if each.reason_code != "gated")
    assert stands_for == pytest.approx(2000 if share else 400, abs=4 * math.sqrt(2000 / (0.3 * (share or 1))))


async def by_gate(gate: Composite, number: int) -> Evaluation:
    """A turn's record, sampled at 0.3: the gate selects a fifth. Of the others, one in three that are drawn fails."""
    turn = a_turn(turn_id=f"t{number}", actual_output="b" if number % 5 == 0 else "a", expected_output="b")
    result = await evaluate(gate, turn)
    if number % 3 == 0 and number % 5 and isinstance(result.outcome, Score):
        lost = Failure(type="judge_timeout", message="late", probability=result.outcome.probability)
        result = replace(result, outcome=lost)
    return make_record(
        gate, turn, result, evaluation_id=f"{number:032}", evaluator_version=LABELS["evaluator_version"],
        monitor=LABELS["monitor"], sampling=Sampling(probability=0.3),
    )  # fmt: skip


async def test_traffic_is_what_came_to_us_and_means_are_of_all():
    """A sampler before us let a tenth through, we judged half of that: one stands for 2 that came, and 20 in all."""
    seen = await exported(scored(1, score=0.5, sampling=Sampling(probability=0.05, stratum="error", upstream=0.1)))
    assert seen["evalstream_evaluation_weight_total"] == pytest.approx(2.0)
    assert seen["evalstream_estimator_w_total"] == pytest.approx(20.0)
    stratum = {"evaluator": "answers_question", "monitor": "helpdesk", "stratum": "error"}
    assert seen.value("evalstream_sampling_probability", **stratum) == 0.05


async def test_a_judge_that_calls_itself_otherwise_is_counted_once():
    def by(number: int, fingerprint: str):
        return scored(number, judge=JudgeStamp(model="m", fingerprint=fingerprint))

    seen = await exported(by(1, "a"), by(2, "a"), by(3, "b"), by(4, "a"), by(5, "b"), by(6, "c"))
    labels = {"evaluator": LABELS["evaluator"], "monitor": LABELS["monitor"]}
    assert seen.value("evalstream_judge_model_changes_total", **labels) == 2


async def test_a_backfill_counts_its_work_and_nothing_of_now():
    seen = await exported(scored(happened_at=scored().ended_at - timedelta(days=7)), watched=(WATCHED,))
    for name in ("gen_ai_evaluation_score_count", "evalstream_estimator_w_total", "evalstream_evaluation_weight_total"):
        assert not seen[name], name
    version = {name: LABELS[name] for name in ("evaluator", "evaluator_version", "monitor")}
    assert seen.value("evalstream_evaluations_backfilled_total", **version, outcome="scored") == 1
    work = {name: LABELS[name] for name in ("evaluator", "monitor")}
    assert seen.value("evalstream_judge_cost_usd_total", **work) == 0.002
    assert seen.value("evalstream_judge_calls_total", **work) == 2


@pytest.mark.parametrize(
    ("minutes", "age"), [(-0.1, "0m"), (14, "0m"), (15, "15m"), (59, "45m"), (60, None), (1440, None), (None, None)]
)
@pytest.mark.parametrize("happened_at", [None, START - timedelta(days=7)])
async def test_what_replaces_a_failure_of_the_hour_counts_by_its_age(minutes, age, happened_at):
    """All that `rejudge` made again was taken from the failures of the hour, those of last week, too."""
    ended_at = scored().ended_at
    failed_at = None if minutes is None else ended_at - timedelta(minutes=minutes)
    again = {"retry": Retry(attempt=2, reason="judge_timeout", failed_at=failed_at), "happened_at": happened_at}
    seen = await exported(scored(1, **again), failed(2, **again, ended_at=ended_at), watched=(WATCHED,))
    of = {name: LABELS[name] for name in ("evaluator", "monitor")}
    ages = ("0m", "15m", "30m", "45m")
    counts = {each: seen.value("evalstream_evaluations_replaced_total", **of, age=each) for each in ages}
    # a backfill that fails is no failure of the hour, so that the one that it was to replace still counts
    assert counts == dict.fromkeys(ages, 0) | ({} if age is None else {age: 1 if happened_at else 2})


async def test_what_the_share_without_a_score_counts_of_past_failures_begins_at_0():
    """Else `increase()` is 0 for the first `rejudge`, and the failures that it replaced still count."""
    seen = await exported(watched=(WATCHED,))
    labels = {name: LABELS[name] for name in ("evaluator", "evaluator_version", "monitor")}
    for outcome in ("scored", "skipped", "failed"):
        assert seen.value("evalstream_evaluations_backfilled_total", **labels, outcome=outcome) == 0
    of = {name: LABELS[name] for name in ("evaluator", "monitor")}
    for age in ("0m", "15m", "30m", "45m"):
        assert seen.value("evalstream_evaluations_replaced_total", **of, age=age) == 0
    telemetry, exact = Telemetry(), Assignment(ExactMatch(name="exact"), NoJudge(), "v")
    PrometheusOutcomes(telemetry, Plan((Monitor(name="m", assignments=(exact,), match={}),)))
    for origin in ("matched", "resumed", "retried", "backfilled"):
        of = {"monitor": "m", "evaluator": "exact", "origin": origin}
        assert telemetry.registry.get_sample_value("evalstream_evaluations_due_total", of) == 0


async def test_failures_and_losses_begin_at_0():
    """`increase()` missed the first of each evaluator: one a day was none in the alert, and 450 over budget were 400."""
    seen = await exported(watched=(replace(WATCHED, judged=True),))
    for reason in ("judge_unavailable", "judge_timeout", "judge_denied", "judge_reply_invalid", "internal_error"):
        assert seen.value("evalstream_evaluations_total", **LABELS, outcome="failed", reason=reason) == 0
    for reason in ("over_budget", "shed", "incomplete"):
        assert seen.value("evalstream_evaluations_total", **LABELS, outcome="skipped", reason=reason) == 0
    code, of = await exported(watched=(WATCHED,)), {**LABELS, "outcome": "failed"}
    assert code.value("evalstream_evaluations_total", **of, reason="internal_error") == 0
    assert code.value("evalstream_evaluations_total", **of, reason="judge_timeout") is None


async def test_what_prompt_caches_had_is_counted():
    usage = Usage(input_tokens=400, output_tokens=60, calls=2, cached_input_tokens=300, cache_write_tokens=64)
    seen = await exported(scored(1, usage=usage, cost_usd=None), scored(2, cost_usd=None), watched=(WATCHED,))
    labels = {"evaluator": "answers_question", "monitor": "helpdesk"}
    assert seen.value("evalstream_judge_cost_usd_total", **labels) is None, "an unknown cost is not 0"
    assert seen.value("evalstream_judge_unpriced_calls_total", **labels) == 2 + usage.calls
    priced = await exported(watched=(replace(WATCHED, priced=True),))
    assert priced.value("evalstream_judge_cost_usd_total", **labels) == 0, "the first cost is an increase"
    name = "evalstream_judge_cached_tokens_total"
    assert (seen.value(name, **labels, cache="read"), seen.value(name, **labels, cache="write")) == (300, 64)
    assert seen.value("evalstream_judge_tokens_total", **labels, direction="input") == 800
