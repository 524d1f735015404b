"""The watch stage: a fold over the evaluations log that knows whether scores are on target, and says so when not.

Its state is what the log held within its memory, read back at a start. Exactly one process may run it: of two, each
would see a part of the scores. Minutes are those in which the log took the scores, so that partitions may be read in
any order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from collector.config.alerts import AlertSettings
from collector.detection import Detector
from collector.errors import BadInput
from collector.export.stage import REMEMBERED
from collector.logs.log import Committed, Stored
from collector.records import evaluation_from_json
from collector.rules.drops import DROPPED
from collector.rules.scores import BELOW
from collector.telemetry import DROP_LOG_EVIDENCE, Telemetry
from collector.watch.buckets import Buckets, Series
from collector.watch.judgement import Drop, below, merged
from collector.watch.notify import Active, Notifier

logger = logging.getLogger(__name__)

MARK_EVERY = 3600.0
"""Seconds between two marks of where the memory begins."""

Targets = Mapping[tuple[str, str], Detector]
"""The detectors of what is held to a target, by monitor and evaluator."""


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert, and since when it fires: seconds since the epoch, of this process at the earliest."""

    alert: Active
    since: float


class WatchStage:
    """Opens the folds, looks at all of them together, and tells the notifier."""

    def __init__(
        self,
        targets: Targets,
        settings: AlertSettings,
        telemetry: Telemetry,
        *,
        interval: float = 60.0,
        memory: float = 7 * 86400.0,
        moved: Callable[[str], bool] = lambda _evaluator: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`moved` says of an evaluator whether its judge has moved: its scores then raise no alerts."""
        self.targets = targets
        self._settings = settings
        self._telemetry = telemetry
        self._interval = interval
        self._memory = memory
        self._moved = moved
        self._clock = clock
        self._folds: dict[int, WatchFold] = {}
        self._drops: dict[Series, Drop] = {}
        self.firing: tuple[Firing, ...] = ()
        """What fired at the last look."""

    @asynccontextmanager
    async def open_fold(self, partition: int, committed: Committed | None) -> AsyncGenerator[WatchFold]:
        """Open the fold of a partition; it is given the memory's records again."""
        del committed
        self._folds[partition] = fold = WatchFold(self, Buckets(self._interval, self._memory), self._memory)
        self._drops.clear()
        try:
            yield fold
        finally:
            del self._folds[partition]
            self._drops.clear()

    async def run(self, notifier: Notifier | None = None) -> None:
        """Look again and again, and tell, if there is whom to tell."""
        while True:
            await asyncio.sleep(self._interval)
            now = self._clock()
            active = self.note(now)
            if notifier is not None:
                await notifier.look(active, now)

    def note(self, now: float) -> list[Active]:
        """Look, and keep what fires."""
        active = list(self.look(now))
        since = {each.alert.key: each.since for each in self.firing}
        self.firing = tuple(Firing(each, since.get(each.key, now)) for each in active)
        return active

    def look(self, now: float) -> Iterator[Active]:
        """What alerts at `now` (seconds since the epoch)."""
        series = sorted({each for fold in self._folds.values() for each in fold.buckets.series()})
        for fold in self._folds.values():
            fold.buckets.forget(now)
        for each in series:
            detector = self.targets.get(each[:2])
            if detector is not None:
                yield from self._look_at(each, detector, now)
        for fold in self._folds.values():
            fold.buckets.touched.clear()

    def _look_at(self, series: Series, detector: Detector, now: float) -> Iterator[Active]:
        monitor, evaluator, version = series
        buckets = merged(fold.buckets.of(series) for fold in self._folds.values())
        drop = self._drops.setdefault(series, Drop(detector))
        for fold in self._folds.values():
            if series in fold.buckets.touched:
                drop.restart_from(fold.buckets.touched[series])
        drop.advance(buckets, int(now // self._interval))
        self._telemetry.gauge(DROP_LOG_EVIDENCE, evaluator, version, monitor, "all").set(max(0.0, drop.evidence))
        if self._moved(evaluator):
            return
        worst = below(buckets, detector, now=now, interval=self._interval, min_n=self._settings.min_n)
        labels = {"evaluator": evaluator, "evaluator_version": version, "monitor": monitor}
        mean = (
            "too few scores for a mean"
            if worst is None
            else f"over {worst.window} the mean is {worst.sums.mean:.4g} ± {worst.sums.stderr:.3g} from "
            f"{worst.sums.n_eff:.0f} effective conversations"
        )
        if drop.found:
            evidence = f"The evidence that it was left is {drop.evidence:.1f} of {detector.threshold:.1f}; {mean}."
            yield self._active(DROPPED, "page", labels, detector, evidence)
        if worst is not None and worst.errors > self._settings.warn:
            severity = "page" if worst.errors > self._settings.page else "warning"
            said = f"{mean[:1].upper()}{mean[1:]}: {worst.errors:.1f} standard errors on the wrong side."
            yield self._active(BELOW, severity, labels, detector, said)

    def _active(self, name: str, severity: str, labels: Mapping[str, str], detector: Detector, said: str) -> Active:
        return Active(
            {"alertname": name, "severity": severity, **self._settings.labels, **labels},
            {
                "summary": f"{labels['evaluator']} of {labels['monitor']}: scores have left {detector.target:g}",
                "description": f"The target of {labels['evaluator']} is {detector.target:g}. {said}",
                "runbook_url": f"{self._settings.runbooks}/{name}.md",
            },
        )


class WatchFold:
    """One partition's share of what the watcher knows."""

    due_at = None
    note = ""

    def __init__(self, stage: WatchStage, buckets: Buckets, memory: float) -> None:
        self.buckets = buckets
        self._stage = stage
        self._memory = memory
        self._marks: deque[tuple[float, int]] = deque()
        self._seen: OrderedDict[str, None] = OrderedDict()

    @property
    def low_watermark(self) -> int | None:
        """The oldest evaluation within the memory, to the hour."""
        return self._marks[0][1] if self._marks else None

    async def replay(self, records: Sequence[Stored]) -> None:
        """Read the memory back."""
        await self.deliver(records)

    async def deliver(self, records: Sequence[Stored]) -> None:
        """Count the scores."""
        for record in records:
            self._mark(record)
            if not record.headers:  # a tick, a label, or a decision of the evaluate stage
                self._count(record)

    def _mark(self, record: Stored) -> None:
        if not self._marks or record.timestamp - self._marks[-1][0] >= MARK_EVERY:
            self._marks.append((record.timestamp, record.position))
        while len(self._marks) > 1 and self._marks[1][0] < record.timestamp - self._memory:
            self._marks.popleft()

    def _count(self, record: Stored) -> None:
        try:
            evaluation = evaluation_from_json(record.value)
        except BadInput:
            return  # the exporters count it
        detector = self._stage.targets.get((evaluation.monitor, evaluation.evaluator))
        if evaluation.score is None or detector is None:
            return
        if evaluation.evaluation_id in self._seen:
            return  # an append that was made twice
        self._seen[evaluation.evaluation_id] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        self.buckets.add(
            (evaluation.monitor, evaluation.evaluator, evaluation.evaluator_version),
            detector,
            evaluation.subject.conversation_id,
            weight=1.0 / evaluation.sampling.probability,
            score=evaluation.score,
            time=record.timestamp,
        )
