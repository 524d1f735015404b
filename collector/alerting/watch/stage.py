"""The watch stage: a fold over the evaluations log that alerts when scores are off their targets.

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

from collector.alerting.detection import DropDetector
from collector.alerting.rules.drops import DROPPED
from collector.alerting.rules.scores import BELOW
from collector.alerting.watch.alert_evaluation import DropState, merge_buckets, target_misses
from collector.alerting.watch.buckets import Buckets, Series
from collector.alerting.watch.notifier import AlertInstance, Notifier
from collector.config.alerts import AlertSettings
from collector.errors import BadInput
from collector.export.bounded_sums import Weight
from collector.export.stage import REMEMBERED
from collector.logs.log import Committed, StoredRecord
from collector.records.json import evaluation_from_json
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROP_LOG_EVIDENCE

logger = logging.getLogger(__name__)

OFFSET_EVERY = 3600.0
"""Seconds between two remembered offsets, one of which is where the memory begins."""

ExplainedMiss = Callable[[str, bool], float]
"""How far an evaluator's mean may miss its target by its judge alone; the second: whether lower is better."""
SURE = 2.0
"""Standard errors by which a mean must be beyond what is explained, for the evidence of a drop to count."""

Targets = Mapping[tuple[str, str], DropDetector]
"""The detectors of the evaluators with a target, by monitor and evaluator."""


@dataclass(frozen=True, slots=True)
class ActiveAlert:
    """An alert, and since when it fires: seconds since the epoch, of this process at the earliest."""

    alert: AlertInstance
    since: float


class WatchStage:
    """Opens the folds, evaluates the alerts over all of them, and notifies."""

    def __init__(
        self,
        targets: Targets,
        settings: AlertSettings,
        telemetry: Telemetry,
        *,
        interval: float = 60.0,
        memory: float = 7 * 86400.0,
        explained: ExplainedMiss = lambda _evaluator, _lower: 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`explained` is how much of a miss is its judge's: alerts fire for what is beyond it."""
        self.targets = targets
        self._settings = settings
        self._telemetry = telemetry
        self._interval = interval
        self._memory = memory
        self._explained = explained
        self._clock = clock
        self._folds: dict[int, WatchFold] = {}
        self._drops: dict[Series, DropState] = {}
        self.firing: tuple[ActiveAlert, ...] = ()
        """The alerts that fired at the last evaluation."""

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
        """Evaluate every interval, and notify if there is a notifier."""
        while True:
            await asyncio.sleep(self._interval)
            now = self._clock()
            active = self.update(now)
            if notifier is not None:
                await notifier.notify(active, now)

    def update(self, now: float) -> list[AlertInstance]:
        """Evaluate, and remember what fires."""
        active = list(self.evaluate(now))
        since = {each.alert.key: each.since for each in self.firing}
        self.firing = tuple(ActiveAlert(each, since.get(each.key, now)) for each in active)
        return active

    def evaluate(self, now: float) -> Iterator[AlertInstance]:
        """The alerts that fire at `now` (seconds since the epoch)."""
        series = sorted({each for fold in self._folds.values() for each in fold.buckets.series()})
        for fold in self._folds.values():
            fold.buckets.forget(now)
        for each in series:
            detector = self.targets.get(each[:2])
            if detector is not None:
                yield from self._evaluate_series(each, detector, now)
        for fold in self._folds.values():
            fold.buckets.touched.clear()

    def _evaluate_series(self, series: Series, detector: DropDetector, now: float) -> Iterator[AlertInstance]:
        monitor, evaluator, version = series
        buckets = merge_buckets(fold.buckets.of(series) for fold in self._folds.values())
        drop = self._drops.setdefault(series, DropState(detector))
        for fold in self._folds.values():
            if series in fold.buckets.touched:
                drop.restart_from(fold.buckets.touched[series])
        drop.advance(buckets, int(now // self._interval))
        self._telemetry.gauge(DROP_LOG_EVIDENCE, evaluator, version, monitor, "all").set(max(0.0, drop.evidence))
        doubt = self._explained(evaluator, detector.lower_is_better)
        misses = target_misses(
            buckets, detector, now=now, interval=self._interval, min_n=self._settings.min_conversations, doubt=doubt
        )
        worst = max(misses, key=lambda each: each.errors, default=None)
        labels = {"evaluator": evaluator, "evaluator_version": version, "monitor": monitor}
        mean = (
            "too few scores for a mean"
            if worst is None
            else f"over {worst.window} the mean is {worst.sums.mean:.4g} ± {worst.sums.stderr:.3g} from "
            f"{worst.sums.n_eff:.0f} effective conversations{_left_out(worst.clipped)}"
        )
        if drop.is_firing and not (doubt and all(each.errors <= SURE for each in misses)):
            evidence = f"The evidence of a drop is {drop.evidence:.1f} (threshold {detector.threshold:.1f}); {mean}."
            yield self._alert(DROPPED, "page", labels, detector, evidence)
        if worst is not None and worst.errors > self._settings.warn_standard_errors:
            severity = "page" if worst.errors > self._settings.page_standard_errors else "warning"
            details = f"{mean[:1].upper()}{mean[1:]}: {worst.errors:.1f} standard errors on the wrong side."
            yield self._alert(BELOW, severity, labels, detector, details)

    def _alert(
        self, name: str, severity: str, labels: Mapping[str, str], detector: DropDetector, details: str
    ) -> AlertInstance:
        subject, target = f"{labels['evaluator']} of {labels['monitor']}", f"{detector.target:g}"
        return AlertInstance(
            {"alertname": name, "severity": severity, **self._settings.labels, **labels},
            {
                "summary": f"{subject}: scores have dropped from their target {target}",
                "description": f"The target of {labels['evaluator']} is {target}. {details}",
                "runbook_url": f"{self._settings.runbooks}/{name}.md",
            },
        )


def _left_out(clipped: float) -> str:
    return f", {clipped:.0%} of the weight left out of it" if clipped >= 0.005 else ""


class WatchFold:
    """One partition of the watch stage."""

    due_at = None
    metadata = ""

    def __init__(self, stage: WatchStage, buckets: Buckets, memory: float) -> None:
        self.buckets = buckets
        self._stage = stage
        self._memory = memory
        self._offsets: deque[tuple[float, int]] = deque()
        self._seen: OrderedDict[str, None] = OrderedDict()

    @property
    def low_watermark(self) -> int | None:
        """The oldest evaluation within the memory, to the hour."""
        return self._offsets[0][1] if self._offsets else None

    async def replay(self, records: Sequence[StoredRecord]) -> None:
        """Read the memory back."""
        await self.deliver(records)

    async def deliver(self, records: Sequence[StoredRecord]) -> None:
        """Count the scores."""
        for record in records:
            self._remember_offset(record)
            if not record.headers:  # a tick, a label, or a decision of the evaluate stage
                self._count(record)

    def _remember_offset(self, record: StoredRecord) -> None:
        if not self._offsets or record.timestamp - self._offsets[-1][0] >= OFFSET_EVERY:
            self._offsets.append((record.timestamp, record.offset))
        while len(self._offsets) > 1 and self._offsets[1][0] < record.timestamp - self._memory:
            self._offsets.popleft()

    def _count(self, record: StoredRecord) -> None:
        try:
            evaluation = evaluation_from_json(record.value)
        except BadInput:
            return  # the exporters count it
        detector = self._stage.targets.get((evaluation.monitor, evaluation.evaluator))
        if evaluation.score is None or detector is None or evaluation.happened_at is not None:
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
            weight=Weight.of(evaluation.sampling),
            score=evaluation.score,
            time=record.timestamp,
        )
