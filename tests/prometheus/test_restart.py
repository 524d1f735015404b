"""A restart behind one target of a real Prometheus: no sum of a mean loses scores that another one keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from evaluation_samples import scored
from servers import Prometheus, prometheus
from service import free_port

from collector.export.exporter import ExportContext, MonitoredEvaluator
from collector.export.prometheus import PrometheusExporter, PrometheusSettings
from collector.records.feedback import FeedbackEntry, FeedbackSubject, JoinedFeedback
from collector.telemetry.registry import Telemetry
from evaluators.results import Evaluation

pytestmark = pytest.mark.timeout(300)

WATCHED = MonitoredEvaluator(
    evaluator="answers_question", evaluator_version="0123456789ab", monitor="helpdesk", threshold=0.5
)
BEFORE, AFTER = (1.0,), (0.4, 0.5)
TRUTH = sum((*BEFORE, *AFTER)) / len((*BEFORE, *AFTER))
"""The weights of AFTER are more than those of BEFORE, so that W would not fall; its sum WY is less."""


def judged(number: int, score: float) -> Evaluation:
    made = scored(number, score=score)
    return replace(made, subject=replace(made.subject, conversation_id=f"c{number}"))


def feedback(number: int, score: float) -> JoinedFeedback:
    subject = FeedbackSubject(monitor="helpdesk", conversation_id=f"c{number}", turn_id="t")
    entry = FeedbackEntry(feedback_id=str(number), name="thumbs", value=score, turn_id="t")
    received = scored().ended_at
    return JoinedFeedback(
        entry=entry, outcome="joined", received_at=received, subjects=(subject,), score=score, series="thumbs"
    )


async def run(port: int, seen: Prometheus, scores: tuple[float, ...]) -> None:
    """A process that has everything to count before it is scraped, until Prometheus has all of it."""
    context = ExportContext(telemetry=Telemetry(), evaluators=(WATCHED,))
    async with PrometheusExporter.open(PrometheusSettings(port=port), context) as exporter:
        await exporter.export([judged(number, score) for number, score in enumerate(scores)])
        await exporter.export_feedback([feedback(number, score) for number, score in enumerate(scores)])
        await seen.until(f"evalstream_feedback_w_total == {len(scores)}")
        await seen.until(f"gen_ai_evaluation_score_count == {len(scores)}")


async def test_the_mean_over_a_restart_is_that_of_all_scores(tmp_path: Path) -> None:
    """`increase()` had the new process's sum WY whole, and of its W only what was above the old process's."""
    port = free_port()
    async with prometheus(tmp_path, "groups: []", [f"127.0.0.1:{port}"]) as seen:
        for scores in (BEFORE, AFTER):
            await run(port, seen, scores)
        for sums in ("estimator", "feedback"):
            wy, w = (f"sum(increase(evalstream_{sums}_{name}_total[5m]))" for name in ("wy", "w"))
            mean = await seen.until(f"{wy} / {w}")
            assert mean == pytest.approx(TRUTH, rel=1e-6), sums
