"""Starts the watch stage: the watcher of scores, and the golden set, as far as the configuration asks for them.

The page shows what the watcher finds. Where none runs beside it, it has one of its own, which tells nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp

from collector.calibration.given import Version
from collector.calibration.measures import Scale
from collector.calibration.watching import AgreementWatch
from collector.config.loading import Config
from collector.evaluate.definitions import Definitions
from collector.evaluate.plan import Assignment, Plan
from collector.golden.cases import read_cases
from collector.golden.runner import GoldenRuns, Judged
from collector.page.sources import Alert
from collector.rules.targets import detector, targets
from collector.starting.process import Process
from collector.watch.notify import Notifier
from collector.watch.stage import Firing, Targets, WatchStage
from evaluators.judges.cached import Cached

PAGE_INTERVAL, PAGE_MEMORY = 15.0, 86400.0
"""Seconds between two looks of the page's own watcher, and how far back it knows."""


@dataclass(frozen=True, slots=True)
class Watching:
    """What runs of the watch stage: the watcher, if there is one, and whether an evaluator's judge has moved."""

    watcher: WatchStage | None = None
    moved: Callable[[str], bool] = lambda _evaluator: False


async def start_watch(process: Process) -> Watching:
    """Start what is configured of `alerts.watcher` and `golden`, and the agreement with labels where they are given.

    Raises:
        ConfigError: the golden set cannot be read.
    """
    settings, telemetry, tasks = process.config.settings, process.telemetry, process.tasks
    evaluations = process.logs.evaluations
    golden = await _golden(process)
    if golden is not None:
        tasks.start(golden.run_forever())
    if settings.page is not None:
        tasks.start(AgreementWatch(process.logs.labels, _scales(process.plan), telemetry).run_forever())
    moved = golden.moved if golden is not None else Watching().moved
    watcher = settings.alerts.watcher
    if watcher is None:
        return Watching(None, moved)
    stage = _stage(process, interval=watcher.interval, memory=watcher.memory, moved=moved)
    session = await process.stack.enter_async_context(aiohttp.ClientSession())
    notifier = Notifier(session, telemetry, watcher.interval, watcher.alertmanager, watcher.webhook)
    tasks.follow(evaluations, "watch", stage.open_fold)
    tasks.start(stage.run(notifier))
    return Watching(stage, moved)


def alerts_for_page(process: Process, watching: Watching) -> Callable[[], Sequence[Alert]]:
    """What fires now, by the watcher of this process, or one for the page alone."""
    stage = watching.watcher
    if stage is None:
        stage = _stage(process, interval=PAGE_INTERVAL, memory=PAGE_MEMORY, moved=watching.moved)
        if stage.targets:
            process.tasks.follow(process.logs.evaluations, "page.watch", stage.open_fold)
            process.tasks.start(stage.run())
    return lambda: [_shown(each) for each in _gravest(stage.firing)]


def _gravest(firings: Sequence[Firing]) -> Iterable[Firing]:
    """One alert for each evaluator: two that say the same of its mean are one to who looks at it."""
    kept: dict[tuple[str, ...], Firing] = {}
    for each in sorted(firings, key=lambda firing: firing.alert.labels["severity"] != "page"):
        labels = each.alert.labels
        kept.setdefault((labels["monitor"], labels["evaluator"], labels["evaluator_version"]), each)
    return kept.values()


def _shown(firing: Firing) -> Alert:
    labels = firing.alert.labels
    return Alert(
        name=labels["alertname"],
        severity="page" if labels["severity"] == "page" else "ticket",
        monitor=labels["monitor"],
        evaluator=labels["evaluator"],
        summary=firing.alert.annotations["description"],
        since=firing.since,
    )


def _stage(process: Process, *, interval: float, memory: float, moved: Callable[[str], bool]) -> WatchStage:
    detectors, alerts = _detectors(process.config, interval), process.config.settings.alerts
    return WatchStage(detectors, alerts, process.telemetry, interval=interval, memory=memory, moved=moved)


async def _golden(process: Process) -> GoldenRuns | None:
    settings = process.config.settings
    if settings.golden is None:
        return None
    return GoldenRuns(
        read_cases(Path(settings.golden.path)),
        list(_judged(process.config, process.plan)),
        await Definitions.read(process.logs.definitions),
        process.telemetry,
        every=settings.golden.every,
        borne=settings.alerts.judge_shift,
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


def _detectors(config: Config, interval: float) -> Targets:
    held = targets(config)
    return {
        (each.monitor, each.evaluator): detector(each, held, config.settings.alerts, 1, interval)
        for each in held
        if each.mean is not None
    }
