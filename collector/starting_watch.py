"""Starts the watch stage: the watcher of scores, and the golden set, as far as the configuration asks for them."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from collector.calibration.given import Version
from collector.calibration.measures import Scale
from collector.calibration.watching import AgreementWatch
from collector.config.loading import Config
from collector.evaluate.definitions import Definitions
from collector.evaluate.plan import Assignment, Plan
from collector.golden.cases import read_cases
from collector.golden.runner import GoldenRuns, Judged
from collector.logs.log import Log, OpenFold
from collector.opening import Logs
from collector.rules.targets import detector, targets
from collector.telemetry import Telemetry
from collector.watch.notify import Notifier
from collector.watch.stage import Targets, WatchStage
from evaluators.judges.cached import Cached


class Tasks(Protocol):
    """Where tasks are started; if one dies, the service ends."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task."""
        ...

    def follow(self, log: Log, group: str, open_fold: OpenFold) -> None:
        """Start a task that follows a log."""
        ...


async def start_watch(
    config: Config, plan: Plan, logs: Logs, telemetry: Telemetry, tasks: Tasks, stack: AsyncExitStack
) -> None:
    """Start what is configured of `alerts.watcher` and `golden`, and the agreement with labels where they are given.

    Raises:
        ConfigError: the golden set cannot be read.
    """
    golden = await _golden(config, plan, logs, telemetry)
    if golden is not None:
        tasks.start(golden.run_forever())
    if config.settings.page is not None:
        tasks.start(AgreementWatch(logs.evaluations, _scales(plan), telemetry).run_forever())
    watcher = config.settings.alerts.watcher
    if watcher is None:
        return
    stage = WatchStage(
        _detectors(config),
        config.settings.alerts,
        telemetry,
        interval=watcher.interval,
        memory=watcher.memory,
        moved=golden.moved if golden is not None else lambda _evaluator: False,
    )
    session = await stack.enter_async_context(aiohttp.ClientSession())
    notifier = Notifier(session, telemetry, watcher.interval, watcher.alertmanager, watcher.webhook)
    tasks.follow(logs.evaluations, "watch", stage.open_fold)
    tasks.start(stage.run(notifier))


async def _golden(config: Config, plan: Plan, logs: Logs, telemetry: Telemetry) -> GoldenRuns | None:
    settings = config.settings.golden
    if settings is None:
        return None
    return GoldenRuns(
        read_cases(Path(settings.path)),
        list(_judged(config, plan)),
        await Definitions.read(logs.definitions),
        telemetry,
        every=settings.every,
        borne=config.settings.alerts.judge_shift,
    )


def _judged(config: Config, plan: Plan) -> Iterator[Judged]:
    """Every evaluator with a judge that a monitor uses, once."""
    seen: set[str] = set()
    for monitor in plan.monitors:
        for assignment in monitor.assignments:
            name = assignment.evaluator.name
            judge = config.evaluators[name].judge
            if judge is not None and name not in seen:
                seen.add(name)
                yield Judged(_asked_afresh(assignment), judge)


def _scales(plan: Plan) -> dict[Version, Scale]:
    """What passes, for every evaluator that a monitor uses."""
    return {
        (each.evaluator.name, each.version): Scale.of(each.evaluator)
        for monitor in plan.monitors
        for each in monitor.assignments
    }


def _asked_afresh(assignment: Assignment) -> Assignment:
    """Past the judge's cache, through which a judge that moved would not be seen."""
    judge = assignment.judge
    return replace(assignment, judge=judge.uncached) if isinstance(judge, Cached) else assignment


def _detectors(config: Config) -> Targets:
    held = targets(config)
    interval = config.settings.alerts.watcher.interval if config.settings.alerts.watcher else None
    return {
        (each.monitor, each.evaluator): detector(each, held, config.settings.alerts, 1, interval)
        for each in held
        if each.mean is not None
    }
