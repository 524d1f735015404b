"""Targets proposed from past scores, and what alerts would have done on them."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
import yaml
from configurations import checked
from evaluation_samples import scored

from collector.alerting.watch.alert_evaluation import DropState, target_misses
from collector.alerting.watch.buckets import Buckets
from collector.commands.targets.targets import PastAlerts, TargetsOptions, propose, with_fall
from collector.config.configured import Config
from collector.errors import ConfigError, EvalstreamError
from collector.logs.log import Record
from collector.records.audits import audit_of
from collector.records.json import evaluation_to_json
from collector.service.open_logs import open_logs
from collector.service.plan_builder import audit_version_in, evaluator_version_in
from collector.service.watch import watch_rules
from collector.statistics.bounded_sums import Weight
from collector.statistics.incident import DropDetector, threshold
from collector.statistics.score_history import PastScore, history_of
from evaluators.results import Evaluation, Sampling, Subject

NOW = datetime(2026, 11, 1, tzinfo=UTC)
BEGAN = (NOW - timedelta(days=4)).timestamp()
ONE = Weight(1.0, 1.0)


def past(count: int = 6000, *, wave: float = 0.0, turns: int = 1, mean: float = 0.8) -> list[PastScore]:
    """Four days of scores of 0 or 1; those of a conversation are alike."""
    chance = random.Random(7)
    made: list[PastScore] = []
    for number in range(count // turns):
        time = BEGAN + 4 * 86400 * number * turns / count
        score = float(chance.random() < mean + wave * math.sin(2 * math.pi * time / 86400))
        made += [PastScore(time + each, f"c{number}", ONE, score) for each in range(turns)]
    return made


def test_the_error_of_a_history_is_that_of_the_page():
    """It lacked the factor k / (k - 1): 0.059 for 0.0595."""
    few = [PastScore(BEGAN, f"c{number}", ONE, score) for number, score in enumerate((0.2, 0.4, 0.4, 0.9, 1.0))]
    assert history_of(few).error == pytest.approx(stdev(one.score for one in few) / 5**0.5)
    assert history_of(few[:1]).error == pytest.approx(0.01), "of one conversation, the floor"


def test_the_figures_of_a_history():
    flat, waved, clustered = history_of(past()), history_of(past(wave=0.1)), history_of(past(turns=3))
    assert flat.mean == pytest.approx(0.8, abs=0.02)
    assert flat.error == pytest.approx(0.4 / 6000**0.5, rel=0.1)
    assert flat.per_hour == pytest.approx(62.5, rel=0.02)
    assert flat.clustering == pytest.approx(1.0, abs=0.1)
    assert flat.wave < 0.02
    assert waved.wave == pytest.approx(0.1, abs=0.02)
    assert clustered.clustering == pytest.approx(3.0, abs=0.2)
    assert clustered.conversations == pytest.approx(2000, rel=1e-4)


@pytest.mark.parametrize("lower", [False, True])
def test_a_planted_fall_is_as_large_as_it_is_said_and_begins_then(lower: bool):
    scores, start = past(mean=0.4), BEGAN + 86400
    history = history_of(scores)
    fallen = list(with_fall(scores, start, 0.2, history.mean, lower_is_better=lower))
    before = [each.score for each in fallen if each.time < start]
    after = [each.score for each in fallen if each.time >= start]
    assert sum(before) / len(before) == pytest.approx(0.4, abs=0.05)
    assert sum(after) / len(after) == pytest.approx(0.6 if lower else 0.2, abs=0.03)
    assert [each.time for each in fallen] == sorted(each.time for each in fallen)
    assert fallen[-1].time == pytest.approx(start + 7 * 86400, abs=600), "what is past its end goes round"


def test_past_alerts_page_for_a_fall_and_not_without_one():
    scores = past()
    of = PastAlerts(DropDetector(0.76, threshold(90 * 86400.0, 60.0, 1)), 4.0, 30.0)
    assert of.pages(scores) == []
    start = BEGAN + 2 * 86400
    delay = of.delay(with_fall(scores, start, 0.3, 0.8, lower_is_better=False), start)
    assert delay is not None
    assert delay < 6 * 3600
    blind = PastAlerts(DropDetector(0.45, threshold(90 * 86400.0, 60.0, 1)), 4.0, 30.0)
    assert blind.delay(with_fall(scores, start, 0.3, 0.8, lower_is_better=False), start) is None


HELPFUL = {"kind": "g_eval", "criteria": "Good.", "evaluation_params": ["actual_output"], "threshold": 0.6}


def configured(folder: Path, **log: Any) -> Config:
    return checked(
        {"helpful": HELPFUL, "rare": HELPFUL},
        log=log or {"kind": "sqlite", "path": str(folder / "logs.db")},
        judges={"main": {"model": "a-model"}},
    )


def evaluations(config: Config, count: int = 1200) -> Iterator[Evaluation]:
    for number, each in enumerate(past(count)):
        yield scored(
            number,
            evaluator="helpful",
            evaluator_version=evaluator_version_in(config, "helpful", "all"),
            monitor="all",
            subject=Subject(conversation_id=each.conversation),
            score=each.score,
            sampling=Sampling(probability=0.5),
            ended_at=datetime.fromtimestamp(each.time, UTC),
        )


def options(**changes: Any) -> TargetsOptions:
    return TargetsOptions(**{"since": NOW - timedelta(days=14), "until": NOW, **changes})


@pytest.mark.long
@pytest.mark.parametrize("by_segment", [False, True])
async def test_a_target_of_segments_pages_in_none_of_them(tmp_path: Path, *, by_segment: bool) -> None:
    """The target came from the mean of all, 0.8: with it, the segment at 0.7 would have paged at once."""
    config = checked(
        {"helpful": HELPFUL},
        log={"kind": "sqlite", "path": str(tmp_path / "logs.db")},
        judges={"main": {"model": "a-model"}},
        alerts={"by_segment": by_segment},
        export={"prometheus": {"segment_by": "route", "segments": ["chat", "refund", "new"]}},
    )
    means = {"chat": 0.9, "refund": 0.7}
    async with open_logs(config.settings.log) as logs:
        for route, mean in means.items():
            for one, score in zip(evaluations(config, 2400), past(2400, mean=mean), strict=True):
                subject = Subject(conversation_id=f"{route} {score.conversation}")
                own = replace(one, evaluation_id=f"{route} {one.evaluation_id}", subject=subject, score=score.score)
                # within half a day, so that no falls are tried, which takes long
                ended = NOW - (NOW - one.ended_at) / 8
                own = replace(own, attributes={"route": route}, ended_at=ended)
                await logs.evaluations.append([Record(b"k", evaluation_to_json(own))])
        few = replace(one, evaluation_id="new", attributes={"route": "new"})
        await logs.evaluations.append([Record(b"k", evaluation_to_json(few))])
    said: list[str] = []
    await propose(config, options(), said.append, as_json=True)
    made = json.loads(said[0])["targets"]
    said.clear()
    await propose(config, options(), said.append, as_json=False)
    target = yaml.safe_load(said[-1])["monitors"]["all"]["alerts"]["targets"]["helpful"]
    if not by_segment:
        assert [each["segment"] for each in made] == ["all"]
        assert target > 0.7
        return
    assert [(each["segment"], each["proposed"]["target"], each["proposed"]["pages"]) for each in made] == [
        ("chat", target, []),
        ("refund", target, []),
    ]
    assert 0.6 < target < 0.7
    assert [line.split(":")[0] for line in said if line.startswith("all/")] == [
        "all/helpful, segment chat",
        "all/helpful, segment refund",
        "all/helpful, segment new",
    ]
    assert "all/helpful, segment new: 1 score, too few to propose a target" in said


@pytest.mark.long
async def test_a_target_is_proposed_with_what_it_would_have_seen(tmp_path: Path) -> None:
    config = configured(tmp_path)
    async with open_logs(config.settings.log) as logs:
        records = [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in evaluations(config)]
        await logs.evaluations.append(records + records[:50])
    said: list[str] = []
    assert await propose(config, options(), said.append, as_json=False) == 0
    assert said[0].startswith("all/helpful: mean 0.")
    assert "of 1,200 scores in 96 h (12.5/h)" in said[0]
    assert "would not have paged; half of the falls (in brackets: 9 of 10) are noticed: by 0.05 " in said[1]
    assert re.search(r"0\.2 after \S+ (h|min)( \(\S+ (h|min)\))?$", said[1])
    assert said[2].startswith("  present target 0.6: would not have paged")
    assert said[2].endswith("by 0.05 not within a week; by 0.1 not within a week; by 0.2 not within a week")
    assert "all/rare: 0 scores, too few to propose a target" in said
    proposed = yaml.safe_load(said[-1])["monitors"]["all"]["alerts"]["targets"]
    assert 0.7 <= proposed["helpful"] < 0.8
    said.clear()
    await propose(config, options(monitor="all"), said.append, as_json=True)
    (made,) = json.loads(said[0])["targets"]
    assert 0.74 <= made["proposed"]["target"] <= 0.78
    assert made["proposed"]["delays"][2]["most"] < 48
    assert made["proposed"]["pages"] == []


@pytest.mark.long
@pytest.mark.parametrize("before", [900, 150])
async def test_a_target_is_proposed_from_the_time_before_an_incident(before: int, tmp_path: Path) -> None:
    """Half of an incident was in the scores, and a target far below the present one was proposed."""
    config = configured(tmp_path)
    fallen = [
        replace(each, score=max(0.0, (each.score or 0.0) - 0.5)) if number >= before else each
        for number, each in enumerate(evaluations(config))
    ]
    async with open_logs(config.settings.log) as logs:
        await logs.evaluations.append(
            [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in fallen]
        )
    said: list[str] = []
    await propose(config, options(), said.append, as_json=False)
    fell = f"the fall at {fallen[before - 1].ended_at:%Y-%m-%d %H}"
    if before == 900:
        assert said[1].startswith("  an alert would have fired: the proposal is from before " + fell)
        assert said[2].startswith("  proposed target 0.7")
        assert "would have paged" in said[3]
    else:
        wanted = "  an alert would have fired: nothing is proposed, as too few scores are from before " + fell
        assert any(line.startswith(wanted) for line in said)
        assert not any("monitors:" in line for line in said)


async def test_a_target_is_proposed_from_the_version_in_force_though_another_scored_later(tmp_path: Path) -> None:
    """After a rejudge by a judge that was left again, the target was of that judge's scores."""
    config = configured(tmp_path)
    made = list(evaluations(config))
    tried = [replace(one, evaluation_id=f"{9000 + number:032x}", evaluator_version="tried", happened_at=one.ended_at,
                     ended_at=NOW, score=0.3) for number, one in enumerate(made)]  # fmt: skip
    async with open_logs(config.settings.log) as logs:
        records = [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in (*made, *tried)]
        await logs.evaluations.append(records)
    said: list[str] = []
    await propose(config, options(), said.append, as_json=False)
    assert said[0].startswith("all/helpful: mean 0.795 ")


def audited(folder: Path, target: float, *, auditor: str = "strong") -> Config:
    audit = {"judge": "main", "audit": {"judge": auditor, "share": 0.4}}
    return checked(
        {"helpful": {**HELPFUL, **audit}},
        log={"kind": "sqlite", "path": str(folder / "logs.db")},
        judges={name: {"model": f"{name}-model"} for name in ("main", "strong", "other")},
        monitors={"all": {"evaluators": ["helpful"], "alerts": {"targets": {"helpful": target}}}},
    )


def audited_evaluations(config: Config) -> Iterator[Evaluation]:
    """The auditor is stricter by 0.2 than the cheap judge."""
    chance = random.Random(3)
    auditor = audit_version_in(config, "helpful")
    for made in evaluations(config, 2000):
        strict = {"score": float((made.score or 0.0) * (chance.random() < 0.75)), "version": auditor}
        drawn = chance.random() < 0.4
        yield replace(made, details={"audit": {**strict, "probability": 0.4}} if drawn else {})


def pages_of_watcher(config: Config, made: list[Evaluation]) -> bool:
    """Whether the watcher's test of windows, or its detector, finds the audited mean beyond its target."""
    rules = watch_rules(config, 60.0)
    detector = rules.targets["all", "helpful:audit"]
    buckets, series = Buckets(60.0, 7 * 86400.0), ("all", "helpful:audit", "")
    for each in made:
        buckets.add_audited(
            series,
            detector,
            each.subject.conversation_id,
            sampling=each.sampling,
            score=each.score or 0.0,
            audit=audit_of(each),
            lost=0.0,
            time=each.ended_at.timestamp(),
        )
    misses = target_misses(buckets.of(series), detector, now=made[-1].ended_at.timestamp(), interval=60.0, min_n=30.0)
    drop = DropState(detector, 5.0)
    drop.advance(buckets.of(series), int(NOW.timestamp() // 60) + 1)
    return drop.life.fall is not None or any(miss.standard_errors > 4.0 for miss in misses)


async def test_the_target_of_an_audited_evaluator_is_proposed_from_its_audits(tmp_path: Path) -> None:
    """The mean of the cheap scores is 0.8, that of the audits 0.6. The target is of the audits, and 0.76 paged."""
    config = audited(tmp_path, 0.76)
    made = list(audited_evaluations(config))
    async with open_logs(config.settings.log) as logs:
        await logs.evaluations.append([Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in made])
    said: list[str] = []
    await propose(config, options(), said.append, as_json=False)
    assert re.match(r"all/helpful:audit: mean 0\.(5[6-9]|6[0-4])\d \(95 %: .* of [78]\d\d audits in 96 h", said[0])
    assert "  present target 0.76: would have paged" in "\n".join(said)
    pasted = yaml.safe_load(said[-1])["monitors"]["all"]["alerts"]["targets"]["helpful"]
    assert 0.45 <= float(pasted) <= 0.57
    assert not pages_of_watcher(audited(tmp_path, float(pasted)), made)
    assert pages_of_watcher(config, made), "as was said of the present target"
    said.clear()
    await propose(config, options(), said.append, as_json=True)
    (document,) = json.loads(said[0])["targets"]
    assert (document["evaluator"], document["audited"]) == ("helpful", True)
    with pytest.raises(EvalstreamError, match="200 audits, if it is audited"):  # scores of two auditors do not mix
        await propose(audited(tmp_path, 0.76, auditor="other"), options(), said.append, as_json=False)


async def test_no_target_is_proposed_of_labels_that_score_alike(tmp_path: Path) -> None:
    """`topic: 0.98` was among the lines to paste, a target that no fall can miss."""
    labels = {"question": "About?", "labels": {"billing": "Money.", "other": "The rest."}}
    helpful, topic = {**HELPFUL, "judge": "main"}, {"kind": "classifier", "judge": "main", **labels}
    config = checked({"helpful": helpful, "topic": topic}, folder=tmp_path, judges={"main": {"model": "a-model"}})
    names = {"evaluator": "topic", "evaluator_version": evaluator_version_in(config, "topic"), "score": 1.0}
    made = list(evaluations(config))
    alike = [replace(each, **names, evaluation_id=f"{8000 + n:032x}") for n, each in enumerate(made)]
    async with open_logs(config.settings.log) as logs:
        records = [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in (*made, *alike)]
        await logs.evaluations.append(records)
    said: list[str] = []
    await propose(config, options(), said.append, as_json=False)
    why = "its labels all have the same score, so a mean says nothing; watch a label's share by alerts.shares"
    assert f"all/topic: no target is proposed: {why}" in said
    assert "topic" not in said[-1]
    alone = checked({"topic": topic}, folder=tmp_path, judges={"main": {"model": "a-model"}})
    with pytest.raises(EvalstreamError, match=f"all/topic: {why}"):
        await propose(alone, options(), said.append, as_json=False)


async def test_a_target_that_was_missed_all_the_time_is_no_incident(tmp_path: Path) -> None:
    config = checked(
        {"helpful": HELPFUL},
        log={"kind": "sqlite", "path": str(tmp_path / "logs.db")},
        judges={"main": {"model": "a-model"}},
        monitors={"all": {"evaluators": ["helpful"], "alerts": {"targets": {"helpful": 0.95}}}},
    )
    async with open_logs(config.settings.log) as logs:
        records = [Record(each.evaluation_id.encode(), evaluation_to_json(each)) for each in evaluations(config)]
        await logs.evaluations.append(records)
    said: list[str] = []
    await propose(config, options(), said.append, as_json=False)
    assert said[1].startswith("  proposed target 0.7")
    assert "present target 0.95: would have paged" in said[2]


async def test_the_refusal_says_how_many_scores_each_segment_has(tmp_path: Path) -> None:
    """An evaluator with 476 scores "had no 200": no single segment had."""
    config = checked(
        {"helpful": HELPFUL}, folder=tmp_path, judges={"main": {"model": "a-model"}}, alerts={"by_segment": True},
        export={"prometheus": {"segment_by": {"route": ["chat", "refund"]}}},
    )  # fmt: skip
    made = [
        replace(each, attributes={"route": "chat" if n % 3 else "refund"}, evaluation_id=f"{n:032x}")
        for n, each in enumerate(evaluations(config, 285))
    ]
    async with open_logs(config.settings.log) as logs:
        await logs.evaluations.append([Record(b"k", evaluation_to_json(each)) for each in made])
    counts = "all/helpful, segment chat: 190 scores; all/helpful, segment refund: 95 scores"
    with pytest.raises(EvalstreamError, match=f"in one segment in this time: {counts}. Name an earlier --from"):
        await propose(config, options(), print, as_json=False)


async def test_what_cannot_be_proposed_is_refused_in_a_sentence(tmp_path: Path) -> None:
    config = configured(tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        await propose(config, options(), print, as_json=False)
    with pytest.raises(ConfigError, match="--monitor: unknown monitor 'al'"):
        await propose(config, options(monitor="al"), print, as_json=False)
    with pytest.raises(ConfigError, match="must begin before it ends"):
        await propose(config, options(since=NOW), print, as_json=False)
    with pytest.raises(ConfigError, match=r"log.kind is memory"):
        await propose(configured(tmp_path, kind="memory"), options(), print, as_json=False)
    async with open_logs(config.settings.log):
        pass
    with pytest.raises(EvalstreamError, match="no evaluator's present version has 200 scores"):
        await propose(config, options(), print, as_json=False)
