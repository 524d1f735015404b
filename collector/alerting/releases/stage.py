"""The stage that compares releases: it collects hours of scores from the evaluations log, and exports the comparisons
as metrics.

Its state depends only on the last `MEMORY` seconds of the log, which are read back at a start. If several processes
share the partitions, those that watch or have the page read the others, too, and only these compare.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass

from collector.alerting.memory_fold import MemoryFold, PartitionFolds
from collector.alerting.releases.comparison import WEEK
from collector.alerting.releases.gate import GateAnswer, GateQuestion, decide
from collector.alerting.releases.hourly_scores import HOUR, HourlyScores
from collector.alerting.releases.releases import COMPARED_HOURS, Release, ReleaseRules, releases
from collector.logs.log import Log
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import RELEASE_BOUND, RELEASE_DIFFERENCE, RELEASE_STARTED, RELEASE_WORSE
from evaluators.results import Evaluation

MEMORY = (COMPARED_HOURS + WEEK) * HOUR
"""Seconds for which scores are remembered: a release is compared for a week, with the week before it."""
OF_RETENTION = 0.4
"""The largest share of the log's retention that is read back. At half of it an alert would warn that needed records are
soon deleted."""
INTERVAL = 60.0


@dataclass(eq=False, repr=False)
class ReleaseStage:
    """Opens the folds, and compares over all of them, while it is `wanted`. `log` has the partitions that other
    processes consume. `retention` (s) is the log's: how far back a start can read.
    """

    rules: ReleaseRules
    telemetry: Telemetry
    log: InitVar[Log]
    _: KW_ONLY
    wanted: Callable[[], bool] = lambda: True
    retention: InitVar[float] = math.inf
    clock: Callable[[], float] = time.time

    def __post_init__(self, log: Log, retention: float) -> None:
        self.current: Sequence[Release] = ()
        """The last comparisons."""
        self.has_looked = False
        """Whether there were any: until then nothing is known of a release that was worse before a restart."""
        self._reread = min(MEMORY, OF_RETENTION * retention)
        self._folds = PartitionFolds(log, self._new_fold, self._reread)
        self.open_fold = self._folds.open

    def reconfigure(self, rules: ReleaseRules) -> None:
        """Use these rules from now on. New comparisons lack earlier scores until a restart."""
        self.rules = rules
        for fold in self._folds:
            fold.scores.reconfigure(rules.attributes)

    def _new_fold(self) -> "ReleaseFold":
        return ReleaseFold(HourlyScores(self.rules.attributes, MEMORY), self._reread)

    async def run(self) -> None:
        """Compare once a minute."""
        while True:
            await asyncio.sleep(INTERVAL)
            await self.look(self.clock())

    async def look(self, now: float) -> None:
        """Read what other processes consume, and compare."""
        await self._folds.read_on(now, wanted=self.wanted())
        self.compare(now)
        self.has_looked = True

    def compare(self, now: float) -> None:
        """Compare at `now` (s), and export the results."""
        for fold in self._folds:
            fold.scores.forget(now)
        self.current = releases((fold.scores for fold in self._folds), self.rules, now) if self.wanted() else ()
        by_labels = {_labels_of(release): release for release in self.current}
        differences = {labels: known for labels, release in by_labels.items() if (known := release.difference)}
        bounds = {
            (*labels, bound): value
            for labels, difference in differences.items()
            for bound, value in (("low", difference.low), ("high", difference.high))
            if difference.has_interval
        }
        self.telemetry.replace(RELEASE_STARTED, {labels[2:]: each.started for labels, each in by_labels.items()})
        self.telemetry.replace(RELEASE_DIFFERENCE, {labels: each.estimate for labels, each in differences.items()})
        self.telemetry.replace(RELEASE_BOUND, bounds)
        self.telemetry.replace(RELEASE_WORSE, {labels: float(each.is_worse) for labels, each in by_labels.items()})

    def decide(self, question: GateQuestion) -> GateAnswer:
        """The decision on a version, by the scores that have been read so far."""
        return decide((fold.scores for fold in self._folds), self.rules, question, self.clock())


def _labels_of(release: Release) -> tuple[str, ...]:
    """Of its metrics: the evaluator and its version, which `RELEASE_STARTED` has not, and the place."""
    key, where = release.key, release.place
    return key.evaluator, key.version, where.monitor, where.attribute, where.within, release.baseline, release.version


class ReleaseFold(MemoryFold):
    """The fold of one partition."""

    def __init__(self, scores: HourlyScores, reread: float = MEMORY) -> None:
        """`reread` (s) is how far back a restart reads."""
        super().__init__(reread)
        self.scores = scores

    def take(self, evaluation: Evaluation, time: float) -> None:
        """Count the score."""
        del time
        if not self._seen.repeats(evaluation.evaluation_id):
            self.scores.add(evaluation)
