"""Metrics of the agreement between judges and people, from the labels log.

They need all labels, so one process computes them: that of the `watch` stage. At its start it reads the log, then the
new records once a minute. The bootstrap's measures are computed again for evaluators with new labels alone, in a
thread, from the newest labels and with fewer resamples than `evalstream calibrate` takes: at most about a second a
minute for each labelled evaluator. The results of drawn labels, and their sums for means, are computed each time: the
window moves on.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from collector.backoff import FailureLog
from collector.calibration.labels import HumanLabel, judged_pairs, weighted_pairs
from collector.calibration.page_labels import LabelIndex, Version
from collector.calibration.random_labels import (
    Withheld,
    people_sums,
    random_labels,
    verdict_agreement,
    withheld,
)
from collector.export.segments import Dimension, Segments
from collector.logs.log import Log, LogUnavailable
from collector.logs.whole_log import IncrementalReader
from collector.statistics.agreement import FEWEST, Interval, ScoreScale, agreement
from collector.statistics.audited_sums import (
    PEOPLE_WINDOW,
    SUM_NAMES,
    AuditedSums,
    audit_name,
    people_name,
    scored_name,
)
from collector.statistics.bias import biases
from collector.statistics.confusion import VerdictAgreement
from collector.telemetry import series
from collector.telemetry.registry import Telemetry

RESAMPLES = 200
"""Resamples of the bootstrap: the bounds are good to about a tenth of their distance."""


@dataclass(frozen=True, slots=True)
class PeopleSums:
    """The results of the last seven days' drawn labels for one monitor's mean by one evaluator, or by its audits.

    `withheld` is why they correct none.
    """

    version: Version
    withheld: Withheld
    sums: AuditedSums


class AgreementWatcher:
    """Reads labels and sets the metrics.

    `judged` are the evaluators in use, and those of audits (`helpful:audit`), with their scales; `dimensions` tell
    segments apart as those of scores. `clock` is in seconds since the epoch.
    """

    def __init__(
        self,
        labels: Log,
        judged: Mapping[Version, ScoreScale],
        telemetry: Telemetry,
        *,
        dimensions: Sequence[Dimension] = (),
        every: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Measure once in `every` seconds."""
        self.agreements: Mapping[Version, VerdictAgreement] = {}
        """By drawn labels, of those that have any."""
        self.segments: Mapping[Version, Mapping[str, VerdictAgreement]] = {}
        """The same by segment, where segments are told apart and have enough labels."""
        self.biases: dict[Version, Sequence[str]] = {}
        """The biases of judges by drawn labels, in sentences."""
        self.people: Mapping[tuple[str, str], PeopleSums] = {}
        """By monitor and evaluator."""
        self._clock = clock
        self._segmented = bool(dimensions)
        self._segments = Segments(dimensions)
        self._reader = IncrementalReader(labels)
        self._judged = judged
        self._telemetry = telemetry
        self._every = every
        self._book = LabelIndex([name for (name, _), scale in judged.items() if scale.lower_is_better])
        self._reading = FailureLog("reading the labels log")
        self._published: set[tuple[Version, str]] = set()

    async def run_forever(self) -> None:
        """Measure until cancelled."""
        while True:
            await self.measure_changes()
            await asyncio.sleep(self._every)

    async def measure_changes(self) -> None:
        """Read new labels and measure the evaluators that they change."""
        changed: set[Version] = set()
        try:
            async for record in self._reader.records():
                version = self._book.add(record)
                if version is not None and version in self._judged:
                    changed.add(version)
        except LogUnavailable as error:
            self._reading.failed(error)
        else:
            self._reading.succeeded()
        for version in sorted(changed):
            await self._measure(version)
        self._measure_random(self._clock())

    async def _measure(self, version: Version) -> None:
        pairs = weighted_pairs(self._book.labels(version))
        self._telemetry.gauge(series.AGREEMENT_LABELS, *version).set(len(pairs))
        report = await asyncio.to_thread(biases, judged_pairs(random_labels(self._book.labels(version))))
        self.biases[version] = report.sentences("people")
        if len(pairs) >= FEWEST:
            result = await asyncio.to_thread(agreement, "all", pairs, self._judged[version], samples=RESAMPLES)
            for name, (value, bounds) in result.measures.items():
                self._publish(version, name, value, bounds)

    def _publish(self, version: Version, name: str, value: float, bounds: Interval) -> None:
        """A measure without a value is not zero: its series begins with its first value."""
        if math.isnan(value) and (version, name) not in self._published:
            return
        self._published.add((version, name))
        self._telemetry.gauge(series.AGREEMENT, *version, name).set(value)
        for bound, at in zip(("low", "high"), bounds or (math.nan, math.nan), strict=True):
            self._telemetry.gauge(series.AGREEMENT_BOUND, *version, name, bound).set(at)

    def _measure_random(self, now: float) -> None:
        """Measure what drawn labels say, of all evaluators."""
        labels = {version: random_labels(self._book.labels(version)) for version in self._judged}
        labels = {version: each for version, each in labels.items() if each}
        self.agreements = {version: verdict_agreement(each, self._judged[version]) for version, each in labels.items()}
        self.segments = (
            {version: self._by_segment(each, self._judged[version]) for version, each in labels.items()}
            if self._segmented
            else {}
        )
        audited = {name for name, _ in self._judged}
        self.people = {
            (monitor, scored_name(version[0])): self._people(version, of_monitor, now)
            for version, each in labels.items()
            if audit_name(version[0]) not in audited  # else people correct its audits
            for monitor, of_monitor in _by(each, lambda label: label.monitor)
        }
        self._publish_random(labels, now)

    def _by_segment(self, labels: Sequence[HumanLabel], scale: ScoreScale) -> dict[str, VerdictAgreement]:
        segments = {
            segment: verdict_agreement(each, scale)
            for segment, each in _by(labels, lambda label: self._segments.of(label.attributes))
        }
        return {segment: agreement for segment, agreement in segments.items() if agreement.number >= FEWEST}

    def _people(self, version: Version, labels: Sequence[HumanLabel], now: float) -> PeopleSums:
        recent = recent_labels(labels, now)
        return PeopleSums(version, withheld(recent, self._judged[version]), self._label_sums(version, recent))

    def _publish_random(self, labels: Mapping[Version, Sequence[HumanLabel]], now: float) -> None:
        telemetry = self._telemetry
        telemetry.replace(
            series.PEOPLE_LABELS, {version: agreement.number for version, agreement in self.agreements.items()}
        )
        telemetry.replace(
            series.PEOPLE_AGREEMENT,
            {
                (*version, *names): value
                for version, agreement in self.agreements.items()
                for names, value in _values(agreement)
            },
        )
        telemetry.replace(
            series.PEOPLE_SEGMENT_AGREEMENT,
            {
                (*version, segment, *names): value
                for version, segments in self.segments.items()
                for segment, agreement in segments.items()
                for names, value in _values(agreement)
            },
        )
        telemetry.replace(
            series.PEOPLE_WITHHELD,
            {
                (people_name(evaluator), sums.version[1], monitor, sums.withheld): 1.0
                for (monitor, evaluator), sums in self.people.items()
                if sums.withheld
            },
        )
        telemetry.replace(
            series.PEOPLE_SUMS,
            {
                (people_name(evaluator), people_sums.version[1], monitor, segment, name): value
                for (monitor, evaluator), people_sums in self.people.items()
                for segment, sums in self._sums_by_segment(
                    people_sums.version, monitor, recent_labels(labels[people_sums.version], now)
                )
                for name, value in zip(SUM_NAMES, sums.values, strict=True)
                if "a" in name
            },
        )

    def _sums_by_segment(
        self, version: Version, monitor: str, labels: Sequence[HumanLabel]
    ) -> Iterator[tuple[str, AuditedSums]]:
        of_monitor = [human_label for human_label in labels if human_label.monitor == monitor]
        for segment, each in _by(of_monitor, lambda label: self._segments.of(label.attributes)):
            yield segment, self._label_sums(version, each)

    def _label_sums(self, version: Version, labels: Sequence[HumanLabel]) -> AuditedSums:
        return people_sums(labels, of_scores=scored_name(version[0]) == version[0])


def _by(labels: Iterable[HumanLabel], key: Callable[[HumanLabel], str]) -> Iterator[tuple[str, list[HumanLabel]]]:
    """The labels by monitor or segment, in their order."""
    parts: dict[str, list[HumanLabel]] = {}
    for label in labels:
        parts.setdefault(key(label), []).append(label)
    yield from parts.items()


def recent_labels(labels: Sequence[HumanLabel], now: float) -> list[HumanLabel]:
    """The labels whose scores are in the mean of the same time."""
    return [label for label in labels if label.at >= now - PEOPLE_WINDOW and not label.is_of_past]


def _values(of: VerdictAgreement) -> Iterator[tuple[tuple[str, str], float]]:
    """The measures that have a value, by statistic and bound."""
    for statistic, measure in of.measures().items():
        for bound, value in measure._asdict().items():
            if not math.isnan(value):
                yield (statistic, bound), value
