"""The fold over the evaluations log, and the metrics that it shows."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from evaluation_samples import failed, scored
from prometheus_client import generate_latest

from collector.alerting.releases.hourly_scores import HOUR, ComparedAttribute
from collector.alerting.releases.releases import ReleaseRules
from collector.alerting.releases.stage import ReleaseStage
from collector.config.alerts import AlertSettings
from collector.config.loading import check
from collector.logs.log import Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.records.json import evaluation_to_json
from collector.service.page import with_links
from collector.service.releases import release_alerts, release_rules, release_view, worse_releases
from collector.telemetry.registry import Telemetry
from evaluators.results import Subject

BEGAN = 1_700_000_000 // 86_400 * 86_400
RULES = ReleaseRules(attributes={"all": (ComparedAttribute("model", "service"),)}, evaluators={"all": ("helpful",)})


def records(hours: range, worse: str = "m-2") -> Iterator[StoredRecord]:
    chance = random.Random(5)
    for hour in hours:
        for number in range(60):
            model = "m-2" if hour >= 5 and number % 2 else "m-1"
            at = BEGAN + hour * HOUR + number * 60
            made = scored(
                hour * 100 + number,
                monitor="all",
                evaluator="helpful",
                subject=Subject(conversation_id=f"c{hour}-{number}"),
                score=float(chance.random() < (0.4 if model == worse else 0.8)),
                attributes={"service": "shop", "model": model},
                ended_at=datetime.fromtimestamp(at, UTC),
            )
            yield StoredRecord(0, hour * 100 + number, at, made.evaluation_id.encode(), evaluation_to_json(made))
    lost = failed(77, monitor="all", evaluator="helpful")
    yield StoredRecord(0, 99_998, BEGAN + hours.stop * HOUR, b"", evaluation_to_json(lost))
    yield StoredRecord(0, 99_999, BEGAN + hours.stop * HOUR, b"", b"{")


async def shown(hours: range, now: int) -> tuple[ReleaseStage, str]:
    telemetry = Telemetry()
    stage = ReleaseStage(RULES, telemetry, MemoryLog("evaluations", 1))
    async with AsyncExitStack() as stack:
        folds = [await stack.enter_async_context(stage.open_fold(each, None)) for each in range(2)]
        for place, record in enumerate(records(hours)):
            await folds[place % 2].replay([record, record])  # an append that was made twice counts once
        stage.compare(BEGAN + now * HOUR)
    return stage, generate_latest(telemetry.registry).decode()


async def test_a_worse_model_is_shown_as_metrics_on_the_page_and_as_an_alert() -> None:
    stage, metrics = await shown(range(30), 30)
    labels = 'attribute="model",baseline="m-1",evaluator="helpful",evaluator_version="0123456789ab",monitor="all",version="m-2",within="shop"'
    assert f"evalstream_release_worse{{{labels}}} 1.0" in metrics
    assert 'version="m-2",within="shop"} -0.' in metrics
    assert metrics.count("evalstream_release_difference_bound{") == 2
    began = 'evalstream_release_started_timestamp_seconds{attribute="model",baseline="m-1",monitor="all",version="m-2"'
    assert f'{began},within="shop"}} {(BEGAN + 5 * HOUR) / 1e9:.6f}e+09' in metrics
    (release,) = stage.current
    view = release_view(release)
    assert (view.baseline, view.version, view.state, view.method) == ("m-1", "m-2", "worse", "in the same hours")
    (told,) = worse_releases(stage.current, AlertSettings(labels={"team": "shop"}, dashboards="https://g.example"))
    assert {"alertname": "EvalstreamReleaseWorse", "version": "m-2", "team": "shop"}.items() <= told.labels.items()
    assert told.annotations["dashboard_url"].startswith("https://g.example/d/evalstream-quality?")
    assert told.annotations["description"].startswith("model m-2 is worse than m-1: by 0.")
    (alert,) = release_alerts(stage.current)
    assert alert.summary.startswith("model m-2 is worse than m-1: by 0.")
    assert (
        with_links(alert, AlertSettings(runbooks="https://x.example")).runbook
        == "https://x.example/EvalstreamReleaseWorse.md"
    )


@pytest.mark.parametrize("owned", [0, 1])
async def test_a_process_that_owns_a_part_of_the_scores_compares_all_if_it_watches_or_has_the_page(owned: int) -> None:
    """The page and the alerts were of half of the scores, and the metrics of two processes of a half each."""
    log, telemetry, wanted = MemoryLog("evaluations", 2), Telemetry(), [True]
    entries = list(records(range(30)))
    await log.append([Record(b"k", entry.value, partition=entry.offset % 2) for entry in entries])
    stage = ReleaseStage(RULES, telemetry, log, wanted=lambda: wanted[0], clock=lambda: BEGAN + 30.0 * HOUR)
    expected, _ = await shown(range(30), 30)
    async with stage.open_fold(owned, None) as fold:
        await fold.deliver([entry for entry in entries if entry.offset % 2 == owned])
        await stage.look(BEGAN + 30 * HOUR)
        (release,) = stage.current
        assert release.conversations == expected.current[0].conversations
        wanted[0] = False
        await stage.look(BEGAN + 30 * HOUR)
        assert stage.current == ()
        assert b"evalstream_release_worse{" not in generate_latest(telemetry.registry)


async def test_a_partition_that_comes_to_this_process_while_others_are_read_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until the next look its scores counted twice: in the fold that it has now, and in that of another's partition."""
    log, stack, came = MemoryLog("evaluations", 2), AsyncExitStack(), list[int]()
    stage = ReleaseStage(RULES, Telemetry(), log, clock=lambda: BEGAN + 30.0 * HOUR)
    entries = list(records(range(30)))
    await log.append([Record(b"k", entry.value, partition=entry.offset % 2) for entry in entries])
    expected, _ = await shown(range(30), 30)

    async def read(partition: int, start: int) -> AsyncIterator[Sequence[StoredRecord]]:
        if partition == 1 and not came:
            came.append(partition)
            fold = await stack.enter_async_context(stage.open_fold(0, None))
            await fold.deliver([entry for entry in entries if entry.offset % 2 == 0])
        async for batch in MemoryLog.read(log, partition, start):
            yield batch

    monkeypatch.setattr(log, "read", read)
    async with stack:
        await stage.look(BEGAN + 30 * HOUR)
        (release,) = stage.current
        assert release.conversations == expected.current[0].conversations


async def test_what_is_over_is_shown_no_more() -> None:
    telemetry = Telemetry()
    stage = ReleaseStage(RULES, telemetry, MemoryLog("evaluations", 1))
    async with stage.open_fold(0, None) as fold:
        await fold.deliver(list(records(range(10))))
        assert fold.low_watermark == 0
        stage.compare(BEGAN + 10 * HOUR)
        assert b'version="m-2"' in generate_latest(telemetry.registry)
        stage.compare(BEGAN + 60 * HOUR)
        assert b'version="m-2"' not in generate_latest(telemetry.registry)


async def test_a_restart_reads_no_more_than_retention_leaves() -> None:
    async with ReleaseStage(RULES, Telemetry(), MemoryLog("evaluations", 1), retention=10 * HOUR).open_fold(
        0, None
    ) as fold:
        await fold.deliver(list(records(range(30))))
        assert fold.low_watermark == 25 * 100


def test_a_configuration_compares_versions_models_and_prompts_unless_it_says_otherwise() -> None:
    def of(**monitor: Any) -> ReleaseRules:
        evaluators = {"a": {"kind": "exact_match"}, "b": {"kind": "exact_match"}}
        return release_rules(
            check({"evaluators": evaluators, "monitors": {"all": {"evaluators": ["a", "b"], **monitor}}}, "test")
        )

    assert of().attributes["all"] == (
        ComparedAttribute("service_version", "service"),
        ComparedAttribute("model", "service"),
        ComparedAttribute("prompt_version", "prompt"),
    )
    assert of().evaluators == {"all": ["a", "b"]}
    assert of(compare=[]).attributes["all"] == ()
    assert of(compare={"tier": ["free", "paid"]}).attributes["all"] == (
        ComparedAttribute("tier", None, ("free", "paid")),
    )


async def test_what_another_configuration_compares_no_more_is_shown_no_more() -> None:
    telemetry = Telemetry()
    stage = ReleaseStage(RULES, telemetry, MemoryLog("evaluations", 1))
    async with stage.open_fold(0, None) as fold:
        await fold.deliver(list(records(range(10))))
        stage.reconfigure(replace(RULES, drift=0.05))
        stage.compare(BEGAN + 10 * HOUR)
        assert b'version="m-2"' in generate_latest(telemetry.registry), "what stays as it is has its scores"
        stage.reconfigure(replace(RULES, attributes={"all": (ComparedAttribute("service"),), "new": ()}))
        stage.compare(BEGAN + 10 * HOUR)
        assert b'version="m-2"' not in generate_latest(telemetry.registry)
        stage.reconfigure(ReleaseRules(attributes={}, evaluators={}))
        await fold.deliver(list(records(range(10, 11))))
        stage.compare(BEGAN + 11 * HOUR)
        assert stage.current == []
