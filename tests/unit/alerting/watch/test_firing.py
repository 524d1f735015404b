"""What the page shows of the watcher: alerts that fire, and since when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from configurations import checked
from evaluation_samples import failed, label, scored, skipped
from prometheus_client import generate_latest

from collector.alerting.diagnosis.recent_scores import RecentScores
from collector.alerting.rules.targets import detector, targets
from collector.alerting.watch.alert_evaluation import FallOfMean, TargetMiss, target_misses, unscored_share
from collector.alerting.watch.alert_texts import Watched, drop_alert, mean_alert
from collector.alerting.watch.buckets import Buckets
from collector.alerting.watch.notifier import NOTIFIED_KEY, AlertInstance, Notifier
from collector.alerting.watch.stage import UNKNOWN_JUDGE, JudgeTrust, WatchFold, WatchRules, WatchStage
from collector.calibration.agreement_watch import AgreementWatcher
from collector.config.alerts import AlertSettings
from collector.config.configured import Config
from collector.evaluate.recovery.generated_steps import GeneratedStepsStore
from collector.logs.journal.guard import Guard
from collector.logs.log import Committed, Record, StoredRecord
from collector.logs.memory import MemoryLog
from collector.otlp.own_items import OwnItems
from collector.records.json import evaluation_to_json, label_to_json
from collector.records.turns import turn_record
from collector.service.live.history import ConfigurationHistory
from collector.service.live.status import ConfigurationStatus
from collector.service.open_logs import NAMES, Logs
from collector.service.page import with_links
from collector.service.plan_builder import build_plan, evaluator_version_in
from collector.service.process import Process
from collector.service.process_resources import ProcessResources
from collector.service.releases import start_releases
from collector.service.tasks import Tasks, open_tasks
from collector.service.watch import PAGE_INTERVAL, PeopleAgreement, Watching, alerts_for_page, start_watch, watch_rules
from collector.statistics.agreement import ScoreScale
from collector.statistics.bounded_sums import Sums, Weight
from collector.statistics.judge_change import JudgeVerdict
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import CONSUMER_LAG_RECORDS, DROP_LOG_EVIDENCE
from evaluators.cases import Turn
from evaluators.judge import Judge
from evaluators.results import Evaluation, Retry
from evaluators.testing import ScriptedJudge
from evaluators.wire.http_client import HttpClient

FOLLOWED = {"consumer": "page.watch", "log": "evaluations"}


def configured(**evaluator: Any) -> Config:
    return checked({"exact": {"kind": "exact_match", **evaluator}})


def logs(partitions: int = 1) -> Logs:
    return Logs(**{name: MemoryLog(name, partitions=partitions) for name in NAMES})


def process_of(
    config: Config,
    kept: Logs,
    telemetry: Telemetry,
    tasks: Tasks,
    stack: AsyncExitStack,
    judges: Mapping[str, Judge] | None = None,
) -> Process:
    steps = GeneratedStepsStore(kept.definitions)
    return Process(
        config=config,
        plan=build_plan(config, judges or {}),
        logs=kept,
        telemetry=telemetry,
        resources=ProcessResources(config, telemetry),
        tasks=tasks,
        stack=stack,
        guard=Guard(),
        own=OwnItems(b"a key"),
        status=ConfigurationStatus(telemetry),
        history=ConfigurationHistory(steps, config),
        steps=steps,
    )


def bad_scores(now: datetime, version: str = scored().evaluator_version) -> Iterator[Record]:
    for number in range(40):
        subject = replace(scored().subject, conversation_id=str(number))
        evaluation = scored(
            number, evaluator="exact", evaluator_version=version, monitor="all", subject=subject, score=number / 1000,
            started_at=now, ended_at=now,
        )  # fmt: skip
        yield Record(b"k", evaluation_to_json(evaluation), partition=0)


async def test_the_page_has_a_watcher_of_its_own_where_none_runs(monkeypatch: Any) -> None:
    """Forty scores of nearly 0 where 0.77 is wanted, and a look: it pages."""
    monkeypatch.setattr("collector.service.watch.PAGE_INTERVAL", 0.01)
    assert PAGE_INTERVAL >= 5.0
    config, kept, telemetry = configured(threshold=0.77), logs(), Telemetry()
    async with AsyncExitStack() as stack, open_tasks(telemetry) as tasks:
        process = process_of(config, kept, telemetry, tasks, stack)
        alerts = alerts_for_page(process, Watching())
        (waiting,) = alerts()
        assert (waiting.name, waiting.severity) == ("Score alerts", "info"), "an alert that fires is not known yet"
        assert waiting.summary.startswith("not evaluated since the start")
        async with asyncio.timeout(60):
            while alerts():
                await asyncio.sleep(0.01)
        now = datetime.now(UTC)
        await kept.evaluations.append(list(bad_scores(now, evaluator_version_in(config, "exact"))))
        async with asyncio.timeout(60):
            while not alerts():
                await asyncio.sleep(0.01)
        (below,) = alerts()
        await tasks.lag.sample()
    assert telemetry.registry.get_sample_value(CONSUMER_LAG_RECORDS.name, FOLLOWED) == 0
    assert below.name == "EvalstreamScoreDropped"
    assert (below.severity, below.monitor, below.evaluator) == ("page", "all", "exact")
    assert "0.77" in below.summary
    assert below.since is not None
    assert abs(below.since - now.timestamp()) < 60


async def test_what_goes_on_fires_since_its_mean_fell_and_what_ends_is_gone() -> None:
    config, kept = configured(threshold=0.77), logs()
    held = targets(config)
    of = detector(held[0], held, config.settings.alerts, 1)
    stage = WatchStage(WatchRules({("all", "exact"): of}, config.settings.alerts), Telemetry())
    await kept.evaluations.append(list(bad_scores(datetime.now(UTC))))
    async with stage.open_fold(0, None) as fold:
        async for batch in kept.evaluations.read(0, 0):
            await fold.deliver(batch)
            now = batch[-1].timestamp
        for later in (60.0, 120.0):
            stage.update(now + later)
            since = {each.alert.labels["alertname"]: each.since for each in stage.firing}
            assert since == {"EvalstreamScoreDropped": now // 60.0 * 60.0}
        for later in (30.0, 30.1):  # days: the scores are forgotten at the first look
            stage.update(now + later * 86400.0)
        assert stage.firing == ()


@pytest.mark.parametrize("raised", [0.99, 0.2])
async def test_a_target_that_changes_while_it_runs_is_watched(raised: float) -> None:
    """A target with another number of bets ended the watcher with every look, until the process was started anew."""
    config, kept = configured(threshold=0.5), logs()
    before, after = (
        replace(detector(held[0], held, config.settings.alerts, 1), target=target)
        for held in [targets(config)]
        for target in (0.5, raised)
    )
    assert len(before.bets) != len(after.bets)
    rules = WatchRules({("all", "exact"): before}, config.settings.alerts)
    stage = WatchStage(rules, Telemetry())
    await kept.evaluations.append(list(bad_scores(datetime.now(UTC))))
    async with stage.open_fold(0, None) as fold:
        async for batch in kept.evaluations.read(0, 0):
            await fold.deliver(batch)
            now = batch[-1].timestamp
        for later in (60.0, 120.0):
            assert stage.update(now + later)
        stage.reconfigure(replace(rules, targets={("all", "exact"): after}))
        for later in (180.0, 240.0):
            (alert,) = stage.update(now + later)
            assert f"{raised:g}" in alert.annotations["summary"]


@pytest.mark.parametrize("raised", [0.75, 0.97])
async def test_a_raised_target_is_no_fall_and_its_alert_ends_when_it_is_set_back(raised: float) -> None:
    """An incident that was over was told as a new fall, with its levels, and the page went on after the target was back."""
    config, start = configured(threshold=0.6), 1_795_000_020.0
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    rules, clock = WatchRules({("all", "exact"): of}, config.settings.alerts), [start + 60.0 * 120]
    stage = WatchStage(rules, Telemetry(), clock=lambda: clock[0])

    def minutes(first: int, last: int, mean: float) -> list[StoredRecord]:
        return [
            StoredRecord(0, number, start + 60.0 * (number // 50), b"k", evaluation_to_json(scored(
                number, evaluator="exact", monitor="all", score=float(number % 50 < 50 * mean),
                subject=replace(scored().subject, conversation_id=str(number)),
            )))
            for number in range(50 * first, 50 * last)
        ]  # fmt: skip

    async with stage.open_fold(0, None) as fold:
        for first, last, mean in ((0, 60, 0.7), (60, 70, 0.2), (70, 121, 0.7)):
            await fold.deliver(minutes(first, last, mean))
        assert stage.update(clock[0]) == [], "the incident is over"
        stage.reconfigure(replace(rules, targets={("all", "exact"): replace(of, target=raised)}))
        await fold.deliver(minutes(121, 150, 0.7))
        (alert,) = stage.update(start + 60.0 * 150)
        text = f"{alert.annotations['summary']} {alert.annotations['description']}"
        assert f"is below its target of {raised:g}" in text
        assert not [word for word in ("fell", "dropped", "0.2") if word in text], text
        stage.reconfigure(rules)
        await fold.deliver(minutes(150, 152, 0.7))
        assert stage.update(start + 60.0 * 152) == []


def minutes_of(levels: Sequence[float], start: float) -> list[StoredRecord]:
    """Fifty scores of 0 or 1 in each minute from `start` (s), with these means."""
    return [
        StoredRecord(0, number, start + 60.0 * (number // 50), b"k", evaluation_to_json(scored(
            number, evaluator="exact", monitor="all", score=float(number % 50 < 50 * level),
            subject=replace(scored().subject, conversation_id=str(number)),
        )))
        for number, level in enumerate(level for level in levels for _ in range(50))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("levels", "summary", "description"),
    [
        ([0.86, *[0.8] * 60], "is below its target of 0.97", " has been below its target since 2026-"),
        ([*[0.96] * 60, *[0.3] * 12], "fell from 0.96 to 0.3; its target is 0.97", ", from 0.96 to 0.3. Its target"),
    ],
)
async def test_a_mean_that_was_never_near_its_target_has_not_fallen(
    levels: Sequence[float], summary: str, description: str
) -> None:
    """A fall from a mean that was a little below its target had neither level, and "since" was of the fall alone."""
    config, start = configured(threshold=0.97), 1_795_000_020.0
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    stage = WatchStage(WatchRules({("all", "exact"): of}, config.settings.alerts), Telemetry())
    stored = minutes_of(levels, start)
    async with stage.open_fold(0, None) as fold:
        await fold.deliver(stored)
        (alert,) = stage.update(start + 60.0 * len(levels))
    assert summary in alert.annotations["summary"]
    assert description in alert.annotations["description"]


@pytest.mark.parametrize(("before", "is_dated"), [(None, True), (0.768, True), (0.6, False)])
def test_a_mean_that_was_already_far_below_its_target_is_so_since_no_time(before: float | None, is_dated: bool) -> None:
    """It "has been below its target since" the begin of the detector's fall, and was before."""
    config = configured(threshold=0.77)
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    level = 0.764 if before == 0.768 else 0.5
    fall = FallOfMean(1, (1_795_000_020.0, 1_795_000_080.0), before, level, level)
    text = drop_alert(Watched("all", "exact", "v1", of), fall, None, config.settings.alerts).annotations["description"]
    assert (" has been below its target since 2026-" in text) == is_dated
    assert (" is below its target, and was before. Its target is 0.77. " in text) == (not is_dated)


async def test_the_mean_before_a_fall_is_without_an_incident_that_is_over_also_after_a_restart() -> None:
    """The page said that the mean fell from 0.73, the log that it fell from 0.8: the page's had an incident in it."""
    config, start = configured(threshold=0.7), 1_795_000_020.0
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    levels = [0.8] * 60 + [0.2] * 30 + [0.8] * 40 + [0.4] * 20
    stored = minutes_of(levels, start)
    since = set[float | None]()
    for restarts in (False, True):
        stage = WatchStage(WatchRules({("all", "exact"): of}, config.settings.alerts), Telemetry())
        async with stage.open_fold(0, None) as fold:
            for minute in range(0 if restarts else 150):
                await fold.deliver(stored[50 * minute : 50 * (minute + 1)])
                stage.update(start + 60.0 * (minute + 1))
            if restarts:
                await fold.replay(stored)
            (alert,) = stage.update(start + 60.0 * 150)
        assert "from 0.8 to 0.4" in alert.annotations["summary"], restarts
        since |= {alert.since, stage.firing[0].since}
    assert since == {start + 60.0 * 130}, "when the mean fell, by the log, and not when a process saw it"


async def test_a_failure_of_yesterday_that_is_made_again_is_not_taken_from_those_of_now() -> None:
    """Whatever its age, it was taken from the newest minute; that of a skip which nobody counts, too."""
    config, now = configured(threshold=0.77), 1_795_000_020.0
    of = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    stage = WatchStage(WatchRules({("all", "exact"): of}, config.settings.alerts), Telemetry())
    names = {"evaluator": "exact", "monitor": "all"}
    present = [
        *(scored(number, **names) for number in range(20)),
        *(failed(20 + number, **names) for number in range(20)),
    ]

    def again(number: int, failed_at: float | None) -> Evaluation:
        at = None if failed_at is None else datetime.fromtimestamp(failed_at, UTC)
        retry = Retry(attempt=2, reason="judge_timeout", failed_at=at)
        return scored(number, **names, retry=retry, happened_at=datetime.fromtimestamp(now - 90_000.0, UTC))

    async with stage.open_fold(0, None) as fold:

        def share() -> float:
            return unscored_share([fold.buckets.of(each) for each in fold.buckets.series()], now=now, interval=60.0)

        for evaluation in present:
            fold.take(evaluation, now - 600.0)
        stage.update(now)
        for number in range(10):
            fold.take(again(100 + number, now - 86_400.0), now)
            fold.take(again(200 + number, None), now)
        assert share() == pytest.approx(20 / 40)
        for number in range(10):
            fold.take(again(300 + number, now - 600.0), now)
        assert share() == pytest.approx(10 / 30)
        for number in range(5):  # made again while it is live, and skipped: Prometheus takes the failure back, too
            fold.take(skipped(400 + number, **names, retry=again(0, now - 600.0).retry), now)
        assert share() == pytest.approx(5 / 25)
        assert fold.buckets.touched == {}, "no score has changed: nothing has to be computed again"


async def test_of_two_processes_the_owner_of_one_partition_watches_all_scores() -> None:
    """Each saw half of them: two texts with two means of one hour, and causes that were named twice."""
    config, kept = configured(threshold=0.77), MemoryLog("evaluations", 2)
    held = targets(config)
    of = detector(held[0], held, config.settings.alerts, 1)
    rules = WatchRules({("all", "exact"): of}, config.settings.alerts)
    records = list(bad_scores(datetime.now(UTC)))
    await kept.append([replace(record, partition=number % 2) for number, record in enumerate(records)])
    alone, owner, other = (WatchStage(rules, Telemetry(), log=kept) for _ in range(3))

    async def deliver(fold: WatchFold, partition: int) -> float:
        async for batch in kept.read(partition, 0):
            await fold.deliver(batch)
        return batch[-1].timestamp + 120.0

    async with (
        alone.open_fold(0, None) as both,
        alone.open_fold(1, None) as other_half,
        owner.open_fold(0, None) as half,
    ):
        await deliver(both, 0)
        now = await deliver(other_half, 1)
        await deliver(half, 0)
        expected = await alone.look(now)
        assert expected
        assert await owner.look(now) == expected
        async with other.open_fold(1, None) as fold:
            await deliver(fold, 1)
            assert (await other.look(now), other.watches) == ([], False)
        async with owner.open_fold(1, None) as taken_over:
            await deliver(taken_over, 1)
            assert await owner.look(now) == expected, "nothing counts twice"


async def test_a_notification_has_the_time_after_the_wait_for_a_judge() -> None:
    """The configuration changed during a wait of 20 s: a post said that an alert had ended before the change."""
    now, posted = [1000.0], list[float]()

    async def wait() -> bool:
        now[0] += 20.0
        return False

    class Webhook(Notifier):
        async def notify(self, active: Sequence[AlertInstance], now: float, *_: object, **_by_name: object) -> None:
            del active
            posted.append(now)

    rules = WatchRules({}, configured(threshold=0.77).settings.alerts)
    trust = JudgeTrust(wait_for_answer=wait)
    stage = WatchStage(rules, Telemetry(), interval=0.01, trust=trust, clock=lambda: now[0])
    async with stage.open_fold(0, None), asyncio.timeout(10):
        watching = asyncio.create_task(stage.run(Webhook(HttpClient(timeout=1.0), Telemetry(), 60.0)))
        while not posted:
            await asyncio.sleep(0.01)
        watching.cancel()
    assert posted[0] == 1020.0


async def test_the_page_has_what_fires_while_another_process_watches_and_after_each_handover() -> None:
    """It had no alert, though two had been posted, since its process had `watch`, too, and had not partition 0."""
    config, kept, telemetry = configured(threshold=0.77), logs(2), Telemetry()
    held = targets(config)
    detectors = {("all", "exact"): detector(held[0], held, config.settings.alerts, 1)}
    rules = WatchRules(detectors, config.settings.alerts, judged={"exact"})
    records, asked, posted = list(bad_scores(datetime.now(UTC))), list[bool](), list[int]()
    await kept.evaluations.append([replace(record, partition=number % 2) for number, record in enumerate(records)])

    def judge_since(*_: object, alerting: bool, detected_at: float) -> JudgeVerdict | None:
        del detected_at
        asked.append(alerting)
        return None

    class Webhook(Notifier):
        async def notify(self, active: Sequence[AlertInstance], *_: object, **_by_name: object) -> None:
            posted.append(len(active))

    recent = RecentScores(())
    stage = WatchStage(
        rules, telemetry, log=kept.evaluations, interval=0.01, recent=recent, trust=JudgeTrust(judge_since=judge_since)
    )
    started = time.time()
    stage.clock = lambda: started + 120.0

    def in_metrics() -> list[str]:
        return [
            line
            for line in generate_latest(telemetry.registry).decode().splitlines()
            if line.startswith(DROP_LOG_EVIDENCE.name + "{")
        ]

    async def read(fold: WatchFold, partition: int) -> None:
        async for batch in kept.evaluations.read(partition, 0):
            await fold.deliver(batch)

    async with AsyncExitStack() as stack, open_tasks(telemetry) as tasks:
        await read(await stack.enter_async_context(stage.open_fold(1, None)), 1)
        assert await stage.look(started + 120.0) == [], "without a page only the process that watches evaluates"
        alerts = alerts_for_page(process_of(config, kept, telemetry, tasks, stack), Watching(stage))
        webhook = Webhook(HttpClient(timeout=1.0), telemetry, 60.0, webhook="http://127.0.0.1:1")
        running = asyncio.create_task(stage.run(webhook))
        async with asyncio.timeout(60):
            while not alerts():
                await asyncio.sleep(0.01)
        (waiting,) = alerts()
        assert waiting.summary.endswith(f" {UNKNOWN_JUDGE}")
        watching = replace(waiting, summary=waiting.summary.removesuffix(f" {UNKNOWN_JUDGE}"))
        assert (posted, asked) == ([], []), "the process that watches has posted, and has asked the judge"
        async with stage.open_fold(0, None) as fold:
            await read(fold, 0)
            async with asyncio.timeout(60):
                while len(posted) < 3:
                    await asyncio.sleep(0.01)
            assert alerts() == [watching]
        assert set(posted) == {1}
        before = len(posted)
        await asyncio.sleep(0.1)
        assert alerts() == [waiting]
        assert len(posted) == before
        running.cancel()
        assert in_metrics()
        stage.has_page = False
        assert await stage.look(started + 120.0) == []
        assert in_metrics() == [], "of a process that does not watch any more"
    series = ("all", "exact", scored().evaluator_version)
    assert len(recent.snapshot(series)) == len(records), "a partition that was read again has each score once"


@pytest.mark.parametrize("changed", ["version", "target"])
async def test_alerts_of_a_version_or_target_that_is_replaced_end_with_one_sentence(changed: str) -> None:
    """They went on for a day: the scores of a version that nobody uses any more never recover. And of a new target the
    end said that the mean is far below the target.
    """
    config, kept = configured(threshold=0.77), logs()
    held = targets(config)
    of = detector(held[0], held, config.settings.alerts, 1)
    version, key = scored().evaluator_version, ("all", "exact")
    rules = WatchRules({key: of}, config.settings.alerts, versions={key: {version}})
    stage = WatchStage(rules, Telemetry(), interval=0.01, clock=lambda: now)
    await kept.evaluations.append(list(bad_scores(datetime.now(UTC))))
    posted: list[dict[str, Any]] = []

    async def post(_method: str, _url: str, *, data: bytes, headers: dict[str, str]) -> Any:
        posted.extend(orjson.loads(data)["alerts"])
        return SimpleNamespace(is_success=True, status_code=200, content=b"", content_type="", headers=headers)

    client: Any = SimpleNamespace(request=post)
    notifier = Notifier(client, Telemetry(), 60.0, webhook="http://hook", page="https://evals.example")
    async with stage.open_fold(0, None) as fold:
        async for batch in kept.evaluations.read(0, 0):
            await fold.deliver(batch)
            now = batch[-1].timestamp + 120.0
        watching = asyncio.create_task(stage.run(notifier))
        async with asyncio.timeout(30):
            while not posted:
                await asyncio.sleep(0.01)
            assert {alert["status"] for alert in posted} == {"firing"}
            posted.clear()
            stage.reconfigure(
                replace(rules, versions={key: {"newer"}})
                if changed == "version"
                else replace(rules, targets={key: replace(of, target=0.01)})
            )
            while not posted:
                await asyncio.sleep(0.01)
        watching.cancel()
    sentence = f"The alert ended because another version of exact has replaced version {version}. Its last text: The "
    if changed == "target":
        sentence = "The alert ended because the target of exact is now 0.01. Its last text: The "
    assert posted
    for alert in posted:
        assert alert["status"] == "resolved"
        assert alert["annotations"]["description"].startswith(sentence)
        assert alert["annotations"]["page_url"] == "https://evals.example/?monitor=all&evaluator=exact"
    assert stage.firing == ()


@pytest.mark.parametrize("meanwhile", ["replaced", "over", "going on", "not read back", "refused", "unwritten"])
async def test_a_webhook_gets_the_end_of_what_ended_while_no_process_watched(meanwhile: str) -> None:
    """The watcher was killed when the new version had come, before its next look: the alert on the old version fired
    for ever.
    """
    config, kept = configured(threshold=0.77), logs()
    held = targets(config)
    of = detector(held[0], held, config.settings.alerts, 1)
    version, key = scored().evaluator_version, ("all", "exact")
    rules = WatchRules({key: of}, config.settings.alerts, versions={key: {version}})
    await kept.evaluations.append(list(bad_scores(datetime.now(UTC))))
    (batch,) = [batch async for batch in kept.evaluations.read(0, 0)]
    posted: list[dict[str, Any]] = []
    statuses = [200]

    async def post(_method: str, _url: str, *, data: bytes, headers: dict[str, str]) -> Any:
        posted.extend(orjson.loads(data)["alerts"])
        is_success = statuses[-1] < 300
        return SimpleNamespace(
            is_success=is_success, status_code=statuses[-1], content=b"", content_type="", headers=headers
        )

    async def watch(by: WatchRules, later: float, records: Sequence[StoredRecord]) -> list[tuple[str, str, str, str]]:
        """What a process posts until it is killed."""
        posted.clear()
        looks: list[float] = []

        def clock() -> float:
            looks.append(batch[-1].timestamp + later)
            return looks[-1]

        stage = WatchStage(by, Telemetry(), interval=0.01, clock=clock)
        client: Any = SimpleNamespace(request=post)
        notifier = Notifier(client, Telemetry(), 60.0, webhook="http://hook", notes=kept.definitions)
        async with stage.open_fold(0, Committed(0, len(batch))) as fold:
            if records:
                await fold.replay(records)
            watching = asyncio.create_task(stage.run(notifier))
            async with asyncio.timeout(30):
                while len(looks) < 4:
                    await asyncio.sleep(0.01)
            watching.cancel()
        return [
            (each["status"], each["fingerprint"], each["startsAt"], each["annotations"].get("description", ""))
            for each in posted
        ]

    firing = await watch(rules, 120.0, batch)
    ((status, fingerprint, starts, _),) = firing
    assert status == "firing"
    if meanwhile == "unwritten":
        await kept.definitions.append([Record(NOTIFIED_KEY, b'{"of a newer": "release"}', partition=0)])
        assert [each[:2] for each in await watch(rules, 180.0, batch)] == [("firing", fingerprint)]
        return
    by = rules if meanwhile in ("over", "going on") else replace(rules, versions={key: {"newer"}})
    later = 30 * 86400.0 if meanwhile == "over" else 180.0
    if meanwhile == "not read back":
        by = rules
    if meanwhile == "refused":
        statuses.append(500)
        assert {each[0] for each in await watch(by, later, batch)} == {"resolved"}
        statuses.append(200)
    again = await watch(by, later, [] if meanwhile == "not read back" else batch)
    if meanwhile == "going on":
        assert [each[:3] for each in again] == [("firing", fingerprint, starts)]
    elif meanwhile == "not read back":
        assert again == []
    else:
        why = f"The alert ended because another version of exact has replaced version {version}."
        assert again == [("resolved", fingerprint, starts, "It has ended." if meanwhile == "over" else why)]
        assert await watch(by, later, batch) == [], "it ends once"


async def test_an_alert_keeps_its_begin_over_a_restart_and_a_refused_repetition_keeps_its_note() -> None:
    """`startsAt` of one alert moved by 27 minutes at a restart after its target had changed."""
    posted: list[tuple[str, str]] = []
    definitions, taken = MemoryLog("definitions", 1), [True]

    async def post(_method: str, _url: str, *, data: bytes, headers: dict[str, str]) -> Any:
        posted.extend((each["status"], each["startsAt"]) for each in orjson.loads(data)["alerts"])
        return SimpleNamespace(is_success=taken[-1], status_code=500, content=b"", content_type="", headers=headers)

    def started() -> Notifier:
        posted.clear()
        client: Any = SimpleNamespace(request=post)
        return Notifier(client, Telemetry(), 60.0, webhook="http://hook", notes=definitions)

    alert = AlertInstance({"alertname": "EvalstreamScoreDropped"}, {"description": "low"}, target=0.5, since=100.0)
    await started().notify([alert], 1000.0)
    began = posted[0]
    taken.append(False)
    await started().notify([replace(alert, since=50.0)], 1060.0)
    assert posted == [began], "not the begin that the second process computes"
    taken.append(True)
    await started().notify([], 1120.0, is_restored=True)
    assert posted == [("resolved", began[1])]


def test_the_text_has_the_bounds_that_failures_leave() -> None:
    config = configured(threshold=0.8)
    held = targets(config)
    watched = Watched("all", "exact", "v", detector(held[0], held, config.settings.alerts, 1))
    miss = TargetMiss("1h", Sums(301.0, 0.77 * 301.0, 301.0), 0.013, 4.5, uncovered=26 / 327)
    text = mean_alert(watched, miss, 1, config.settings.alerts).annotations["description"]
    assert "(8% of all have no score or were not shown to a judge: the mean of all is between 0.70 and 0.79)" in text
    assert (
        "no score"
        not in mean_alert(watched, replace(miss, uncovered=0.0), 1, config.settings.alerts).annotations["description"]
    )


async def test_what_judges_were_not_shown_is_in_the_bounds() -> None:
    """Each of ten scores of 0.4 covers half of its case: the mean of the whole cases is between 0.20 and 0.70."""
    config = configured(threshold=0.8)
    watching = detector(targets(config)[0], targets(config), config.settings.alerts, 1)
    buckets = Buckets(60.0, 3600.0)
    for number in range(10):
        buckets.add(
            ("all", "exact", "v"), watching, str(number), weight=Weight(1.0, 1.0), score=0.4, time=5.0, unshown=0.5
        )  # fmt: skip
    of_series = buckets.of(("all", "exact", "v"))
    (miss, *_) = target_misses(of_series, watching, now=60.0, interval=60.0, min_n=1.0)
    assert miss.bounds == pytest.approx((0.2, 0.7))


async def test_release_alerts_that_are_not_evaluated_yet_are_not_shown_as_none(monkeypatch: Any) -> None:
    monkeypatch.setattr("collector.alerting.releases.stage.INTERVAL", 0.01)
    async with AsyncExitStack() as stack, open_tasks(Telemetry()) as tasks:
        compared = start_releases(process_of(configured(), logs(), Telemetry(), tasks, stack), "page.releases")
        (waiting,) = compared.page_alerts()
        assert (waiting.name, waiting.severity) == ("Release alerts", "info")
        assert with_links(waiting, AlertSettings(runbooks="https://x.example")).runbook is None
        async with asyncio.timeout(60):
            while compared.page_alerts():
                await asyncio.sleep(0.01)


async def test_without_targets_nothing_is_read() -> None:
    config, kept, telemetry = configured(), logs(), Telemetry()
    async with AsyncExitStack() as stack, open_tasks(telemetry) as tasks:
        process = process_of(config, kept, telemetry, tasks, stack)
        assert alerts_for_page(process, Watching())() == []
        assert telemetry.registry.get_sample_value(CONSUMER_LAG_RECORDS.name, FOLLOWED) is None


async def test_alerts_of_a_judge_that_is_not_proven_warn_and_say_so() -> None:
    """Nobody has labelled; then forty drawn labels agree; then the judge is another one."""
    config = checked(
        {"exact": {"kind": "g_eval", "criteria": "x", "evaluation_params": ["input"], "threshold": 0.77}},
        judges={"main": {"model": "m"}},
        alerts={"min_agreement": 0.4},
    )
    kept, agreement = logs(), PeopleAgreement(config)
    assert watch_rules(config, 60.0).judged == {"exact"}
    configured_targets = targets(config)
    of = detector(configured_targets[0], configured_targets, config.settings.alerts, 1)
    stage = WatchStage(
        WatchRules({("all", "exact"): of}, config.settings.alerts),
        Telemetry(),
        trust=JudgeTrust(uncalibrated=agreement.uncalibrated),
    )
    await kept.evaluations.append(list(bad_scores(datetime.now(UTC))))
    async with stage.open_fold(0, None) as fold:
        async for batch in kept.evaluations.read(0, 0):
            await fold.deliver(batch)
            now = batch[-1].timestamp
        stage.update(now + 120.0)
        assert {each.alert.labels["severity"] for each in stage.firing} == {"warning"}
        for each in stage.firing:
            assert "uncalibrated" in each.alert.annotations["summary"]
            assert "kappa of 0.4" in each.alert.annotations["description"]
        version = scored().evaluator_version
        agreement.watcher = AgreementWatcher(kept.labels, {("exact", version): ScoreScale(0.77)}, Telemetry())
        given = [
            replace(label(), evaluation_id=str(n), evaluator="exact", score=float(n % 2), judge_score=0.3 + 0.6 * (n % 2),
                    opinion=None, label_probability=0.5, subject=replace(label().subject, conversation_id=str(n)))
            for n in range(40)
        ]  # fmt: skip
        await kept.labels.append([Record(b"k", label_to_json(each), partition=0) for each in given])
        await agreement.watcher.measure_changes()
        stage.update(now + 180.0)
        assert "page" in {each.alert.labels["severity"] for each in stage.firing}
        assert not any("uncalibrated" in each.alert.annotations["summary"] for each in stage.firing)
        assert agreement.uncalibrated("all", "exact", version) == ""
        assert "Uncalibrated" in agreement.uncalibrated("all", "exact", "another")
        assert agreement.uncalibrated("all", "unknown", version) == ""


async def test_a_price_that_changes_during_an_alert_leaves_its_verdict_on_the_judge() -> None:
    """The judge had become stricter and was repaired; then all cases were asked again, and the text turned round."""
    judges = {"main": {"model": "m", "usd_per_million_input_tokens": 1.0, "usd_per_million_output_tokens": 1.0}}
    use = {"kind": "g_eval", "evaluation_steps": ["Look."], "evaluation_params": ["input"], "mode": "single"}
    config = checked({"helpful": use}, judges=judges)
    score = [5]
    judge = ScriptedJudge(lambda _prompt, _reply: {"reason": "so", "score": score[0]})
    kept, telemetry, since = logs(), Telemetry(), time.time() - 600.0
    version = build_plan(config, {"main": judge}).monitors[0].assignments[0].version
    for number in range(300, 0, -1):
        at = since - 60.0 * number
        subject = replace(scored().subject, conversation_id=f"c{number}", turn_id=f"t{number}")
        turn = Turn(turn_id=f"t{number}", conversation_id=f"c{number}", input="Hi", actual_output="Hello")
        made = scored(
            number, evaluation_id=sha256(str(number).encode()).hexdigest()[:32], evaluator="helpful",
            evaluator_version=version, monitor="all", score=0.8, subject=subject,
        )  # fmt: skip
        await kept.turns.append([replace(turn_record(turn), timestamp=at)])
        await kept.evaluations.append([Record(b"k", evaluation_to_json(made), partition=0, timestamp=at)])
    async with AsyncExitStack() as stack, open_tasks(telemetry) as tasks:
        process = process_of(config, kept, telemetry, tasks, stack, {"main": judge})
        trust = (await start_watch(process, None)).trust
        assert trust is not None

        async def verdict() -> JudgeVerdict | None:
            trust.judge_since("helpful", version, since, alerting=True)
            await trust.wait_for_answer()
            return trust.judge_since("helpful", version, since, alerting=True)

        said = await verdict()
        assert said is not None
        assert said.has_changed
        asked, score[0] = len(judge.questions), 8
        dearer = checked({"helpful": use}, judges={"main": judges["main"] | {"usd_per_million_input_tokens": 2.0}})
        changed = replace(process, config=dearer)
        for apply in [await prepare(dearer) for prepare in process.changes]:
            await apply(changed)
        assert await verdict() == said
        assert len(judge.questions) == asked


async def test_with_audits_the_page_shows_how_people_agree_with_the_judge_that_scores_and_with_audits() -> None:
    """The page had 0.94, of the strong judge that audits alone; `calibrate` said 0.66 of the same labels."""
    config = checked(
        {"exact": {"kind": "g_eval", "criteria": "x", "evaluation_params": ["input"], "threshold": 0.5, "judge": "main",
                   "audit": {"judge": "dear", "share": 0.5}}},
        judges={"main": {"model": "m"}, "dear": {"model": "d"}},
    )  # fmt: skip
    kept, agreement, version = logs(), PeopleAgreement(config), evaluator_version_in(config, "exact")
    judged = {("exact", version): ScoreScale(0.5), ("exact:audit", "dear"): ScoreScale(0.5)}
    agreement.watcher = AgreementWatcher(kept.labels, judged, Telemetry())
    given = [
        replace(label(), evaluation_id=str(n), evaluator="exact", evaluator_version=version, monitor="all", score=float(n % 2),
                judge_score=float(n % 2 == (n % 4 > 0)), opinion=None, label_probability=0.5, given_at=datetime.now(UTC),
                audit={"score": float(n % 2), "probability": 0.5, "version": "dear"} if n < 60 else None,
                subject=replace(label().subject, conversation_id=str(n)))
        for n in range(80)
    ]  # fmt: skip
    await kept.labels.append([Record(b"k", label_to_json(each), partition=0) for each in given])
    await agreement.watcher.measure_changes()
    (view,) = agreement.views().values()
    assert view.correct_audits
    assert {part: (of.number, of.share.value) for part, of in view.agreements.items()} == {
        "": (pytest.approx(80), pytest.approx(0.75)), "audits against people": (pytest.approx(60), pytest.approx(1.0)),
    }  # fmt: skip
