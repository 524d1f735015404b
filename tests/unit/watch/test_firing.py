"""What the page shows of the watcher: alerts that fire, and since when."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from evaluation_samples import scored

from collector.config.loading import Config, check
from collector.logs.log import Log, OpenFold, Record
from collector.logs.memory import MemoryLog
from collector.opening import NAMES, Logs
from collector.records import evaluation_to_json
from collector.rules.targets import detector, targets
from collector.starting_watch import PAGE_INTERVAL, Watching, alerts_for_page
from collector.telemetry import Telemetry
from collector.watch.stage import WatchStage


def configured(**evaluator: Any) -> Config:
    return check(
        {
            "evaluators": {"exact": {"kind": "exact_match", **evaluator}},
            "monitors": {"all": {"evaluators": ["exact"]}},
        },
        "test.yaml",
    )


class Tasks:
    """Keeps what it is given to do."""

    def __init__(self) -> None:
        self.started: list[Coroutine[Any, Any, None]] = []
        self.followed: list[tuple[Log, str, OpenFold]] = []

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.started.append(work)

    def follow(self, log: Log, group: str, open_fold: OpenFold) -> None:
        self.followed.append((log, group, open_fold))


def logs() -> Logs:
    return Logs(*(MemoryLog(name, partitions=1) for name in NAMES))


def bad_scores(now: datetime) -> Iterator[Record]:
    for number in range(40):
        subject = replace(scored().subject, conversation_id=str(number))
        evaluation = scored(
            number, evaluator="exact", monitor="all", subject=subject, score=number / 1000, started_at=now, ended_at=now
        )
        yield Record(b"k", evaluation_to_json(evaluation), partition=0)


async def test_the_page_has_a_watcher_of_its_own_where_none_runs(monkeypatch: Any) -> None:
    """Forty scores of nearly 0 where 0.77 is wanted, and a look: it pages."""
    monkeypatch.setattr("collector.starting_watch.PAGE_INTERVAL", 0.01)
    assert PAGE_INTERVAL >= 5.0
    kept, tasks = logs(), Tasks()
    alerts = alerts_for_page(configured(threshold=0.77), Watching(), kept, Telemetry(), tasks)
    assert list(alerts()) == []
    now = datetime.now(UTC)
    await kept.evaluations.append(list(bad_scores(now)))
    ((log, group, open_fold),) = tasks.followed
    assert (log, group) == (kept.evaluations, "page.watch")
    (run,) = tasks.started
    async with open_fold(0, None) as fold:
        async for batch in log.read(0, 0):
            await fold.deliver(batch)
        looking = asyncio.create_task(run)
        try:
            async with asyncio.timeout(30):
                while not alerts():
                    await asyncio.sleep(0.01)
            (below,) = alerts()
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
    assert below.name in {"EvalstreamScoreBelowTarget", "EvalstreamScoreDropped"}
    assert (below.severity, below.monitor, below.evaluator) == ("page", "all", "exact")
    assert "0.77" in below.summary
    assert below.since is not None
    assert abs(below.since - now.timestamp()) < 60


async def test_what_goes_on_fires_since_it_was_first_seen_and_what_ends_is_gone() -> None:
    config, kept = configured(threshold=0.77), logs()
    held = targets(config)
    of = detector(held[0], held, config.settings.alerts, 1)
    stage = WatchStage({("all", "exact"): of}, config.settings.alerts, Telemetry())
    await kept.evaluations.append(list(bad_scores(datetime.now(UTC))))
    async with stage.open_fold(0, None) as fold:
        async for batch in kept.evaluations.read(0, 0):
            await fold.deliver(batch)
            now = batch[-1].timestamp
        for later in (60.0, 120.0):
            stage.note(now + later)
            since = {each.alert.labels["alertname"]: each.since for each in stage.firing}
            assert since["EvalstreamScoreBelowTarget"] == now + 60.0
        for later in (30.0, 30.1):  # days: the scores are forgotten at the first look
            stage.note(now + later * 86400.0)
        assert stage.firing == ()


def test_without_targets_nothing_is_read() -> None:
    tasks = Tasks()
    assert alerts_for_page(configured(), Watching(), logs(), Telemetry(), tasks)() == []
    assert (tasks.started, tasks.followed) == ([], [])
