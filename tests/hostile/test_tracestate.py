"""Callers of an application who claim in a tracestate that they stand for ten thousand: from the turn to the alert."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from evaluation_samples import scored

from collector.alerting.watch.stage import WatchRules, WatchStage
from collector.config.alerts import AlertSettings
from collector.evaluate.partition_state import PartitionState
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.evaluate.recovery.replay_point import ReplayPoint
from collector.evaluate.sampling.draw import UpstreamTrust
from collector.logs.log import StoredRecord
from collector.records.json import evaluation_to_json, turn_to_json
from collector.statistics.incident import DropDetector, threshold
from collector.telemetry.registry import Telemetry
from evaluators.cases import Turn
from evaluators.judge import NoJudge
from evaluators.results import Sampling
from evaluators.turn.exact_match import ExactMatch

HOUR, PER_HOUR = 3600.0, 100
FORGED = "ot=th:fff97247"
"""It claims that one in ten thousand was taken."""
TARGET = DropDetector(target=0.77, threshold=threshold(90 * 86400.0, 60.0, 1))
TRUSTS = {
    "nobody": UpstreamTrust(),
    "another tenant": UpstreamTrust(tenants=frozenset({"team-a"})),
    "everybody": UpstreamTrust(everybody=True),
}


def sampling_of(turn: Turn, trust: UpstreamTrust) -> Sampling:
    """How the evaluate stage says that the turn was sampled."""
    watched = Monitor(name="all", assignments=(Assignment(ExactMatch(name="exact"), NoJudge(), "v"),), match={})
    state = PartitionState(Plan((watched,), trust=trust), ReplayPoint(0, 0.0))
    (job,) = asyncio.run(state.apply(StoredRecord(0, 0, 0.0, b"c", turn_to_json(turn))))
    return job.sampling


def hours(*means: float, forged_from: int, forged_score: float) -> Iterable[tuple[float, float, str | None]]:
    """Time, score and tracestate of a hundred turns an hour, and one forged at the start of each from an hour on."""
    for hour, mean in enumerate(means):
        if hour >= forged_from:
            yield hour * HOUR, forged_score, FORGED
        for number in range(PER_HOUR):
            yield hour * HOUR + number * HOUR / PER_HOUR, float(number % 100 < 100 * mean), None


async def pages(turns: Iterable[tuple[float, float, str | None]], trust: UpstreamTrust) -> dict[str, float]:
    """The names of what pages after these turns, with the hour in which it began."""
    plain = await asyncio.to_thread(sampling_of, _turn(None), trust)
    forged = await asyncio.to_thread(sampling_of, _turn(FORGED), trust)
    stage = WatchStage(WatchRules({("all", "exact"): TARGET}, AlertSettings()), Telemetry())
    paging: dict[str, float] = {}
    async with stage.open_fold(0, None) as fold:
        last = 0.0
        for offset, (time, score, trace_state) in enumerate(turns):
            subject = replace(scored().subject, conversation_id=f"c{offset}")
            at = datetime.fromtimestamp(time, UTC)
            judged = scored(
                offset,
                evaluator="exact",
                monitor="all",
                subject=subject,
                score=score,
                sampling=forged if trace_state else plain,
                started_at=at,
                ended_at=at,
            )
            await fold.deliver([StoredRecord(0, offset, time, b"k", evaluation_to_json(judged))])
            if time - last >= 300.0:
                last = time
                for alert in stage.update(time):
                    if alert.labels["severity"] == "page":
                        paging.setdefault(alert.labels["alertname"], time / HOUR)
    return paging


def _turn(trace_state: str | None) -> Turn:
    return Turn(turn_id="t", conversation_id="c", input="?", actual_output="!", trace_state=trace_state)


def test_only_who_is_trusted_is_believed() -> None:
    claims = {name: sampling_of(_turn(FORGED), trust).probability for name, trust in TRUSTS.items()}
    assert claims == {"nobody": 1.0, "another tenant": 1.0, "everybody": pytest.approx(1e-4, rel=0.01)}


@pytest.mark.parametrize("trust", TRUSTS)
async def test_one_forged_weight_an_hour_does_not_hide_a_fall_from_one_to_nothing(trust: str) -> None:
    """Believed without a bound, it was 98 % of every window's mean, and no alert fired."""
    paging = await pages(hours(1.0, 1.0, 1.0, 0.0, 0.0, 0.0, forged_from=3, forged_score=1.0), TRUSTS[trust])
    assert paging["EvalstreamScoreDropped"] <= 3.5


@pytest.mark.parametrize("trust", TRUSTS)
async def test_one_forged_weight_makes_no_fall(trust: str) -> None:
    assert await pages(hours(1.0, 1.0, 0.9, 0.9, 0.9, forged_from=4, forged_score=0.0), TRUSTS[trust]) == {}
