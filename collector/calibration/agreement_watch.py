"""Metrics of the agreement between judges and people, from the labels log.

They need all labels, so one process computes them: that of the `watch` stage. At its start it reads the log, then the
new records once a minute. Measures by bootstrap are computed again only for evaluators with new labels, in a
thread, from the newest labels and with fewer resamples than `evalstream calibrate` takes: at most about a second a
minute for each labelled evaluator. The results of drawn labels, and their sums for means, are computed each time: the
window moves on.

Randomly drawn labels show how far a judge's verdicts agree with people's, and which mean people would give. They are
weighted by 1 / the probability to be judged and labelled, and conversations are clusters. The mean by
people is that of `collector.statistics.audited_sums`, with people as the auditors.
"""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from collector.backoff import FailureLog
from collector.calibration.labels import HumanLabel, judged_pairs, undecided, weighted_pairs
from collector.calibration.page_labels import LabelIndex, Version
from collector.export.segments import ALL, Dimension, Segments
from collector.logs.log import Log, LogUnavailable
from collector.logs.whole_log import IncrementalReader
from collector.page.label_queue import LabelQueueSettings, draw_probability
from collector.records.audits import FEWEST_AUDITS
from collector.records.grouping import group_by
from collector.statistics import audited_sums
from collector.statistics.agreement import FEWEST, OF_SCORES, Interval, ScoreScale, agreement, verdict_agreement
from collector.statistics.bias import biases
from collector.statistics.bounded_sums import VARIANCE_FLOOR
from collector.statistics.confusion import VerdictAgreement
from collector.statistics.correction import LabelledScore
from collector.statistics.intervals import Z
from collector.telemetry import series
from collector.telemetry.registry import Telemetry
from collector.wording import plural

WEAKEST = 0.2
"""If sensitivity + specificity - 1 is below this, the judge predicts people too badly for its mean to be corrected."""
DRIFT_ERRORS = 4.0
"""If newer labels differ from older ones by this many standard errors, the judge or the people have changed."""
_LARGEST_SHARE = 0.5
_EVERY = 60.0
"""Seconds between two measurements."""

WithheldReason = Literal["", "few", "undecided", "weak", "drift"]
"""Why there is no corrected mean: too few labels, or too few of scores with a verdict, a judge that says little, or one
that has changed; "" if there is.
"""


def labels_of_queue(labels: Iterable[HumanLabel]) -> list[HumanLabel]:
    """The labels that the queue asked for, the oldest first."""
    return sorted((label for label in labels if label.probability is not None), key=lambda each: each.at)


def _scores_of(labels: Iterable[HumanLabel]) -> list[LabelledScore]:
    return [label.weighted() for label in labels]


def _by_conversation(labels: Iterable[HumanLabel]) -> Iterator[tuple[str, HumanLabel]]:
    """The labels with their conversations; a label from a file without one is a conversation by itself."""
    yield from ((label.conversation or f"\0{number}", label) for number, label in enumerate(labels))


def people_sums(labels: Iterable[HumanLabel], *, are_scored: bool = True) -> audited_sums.AuditedSums:
    """The sums of drawn labels, for the mean by people; the caller adds the sums of all scores.

    `are_scored`: the labelled evaluations are among the scores, with their weights. Otherwise (if the mean by audits is
    corrected) products of labels and scores are left out. Squares are larger by 1 / (1 - a / A)², as few conversations
    with large weights hide how far off they are (HC3, MacKinnon and White 1985).
    """
    conversations = defaultdict[str, list[float]](lambda: [0.0] * len(audited_sums.TOTALS))
    for cluster, label in _by_conversation(labels):
        weight, own = label.weighted().weight, label.weight if are_scored else 0.0
        more = (weight, weight * label.human, weight * label.judge, own, own * label.judge)
        conversations[cluster] = list(map(float.__add__, conversations[cluster], more))
    total = math.fsum(conversation[0] for conversation in conversations.values())
    sums = audited_sums.AuditedSums()
    for totals in conversations.values():
        grown = audited_sums.growth((0.0,) * len(audited_sums.TOTALS), totals).values
        larger = (1.0 - min(_LARGEST_SHARE, totals[0] / total)) ** -2
        sums += audited_sums.AuditedSums(
            (*grown[: len(audited_sums.TOTALS)], *(larger * value for value in grown[len(audited_sums.TOTALS) :]))
        )
    return audited_sums.AuditedSums(
        tuple(value if "a" in name else 0.0 for name, value in zip(audited_sums.SUM_NAMES, sums.values, strict=True))
    )


def are_enough(labels: Sequence[HumanLabel]) -> bool:
    """Whether drawn labels correct a mean. Those of a monitor's audited answers correct its audited mean from then on;
    until then, labels of all answers correct the judge's.
    """
    return people_sums(labels).audits >= FEWEST_AUDITS


def why_withheld(labels: Sequence[HumanLabel], scale: ScoreScale) -> WithheldReason:
    """Why labels that were drawn, the oldest first, correct no mean; "" if they do."""
    if not are_enough(labels):
        return "few"
    of_verdicts = verdict_agreement(_scores_of(labels), scale)
    if of_verdicts.number < FEWEST and (scale.by_label or scale.threshold is not None):
        return "undecided"  # nothing says that the judge is not weak
    if of_verdicts.youden.value < WEAKEST:
        return "weak"
    return "drift" if _drifts(labels, scale) else ""


def _drifts(labels: Sequence[HumanLabel], scale: ScoreScale) -> bool:
    """Whether the older and the newer half of the labels differ: in people's minus the judge's score, or Youden's J."""
    halves = labels[: len(labels) // 2], labels[len(labels) // 2 :]
    (older, error), (newer, other) = map(_difference, halves)
    if abs(newer - older) > DRIFT_ERRORS * math.hypot(error, other):
        return True
    before, after = (verdict_agreement(_scores_of(half), scale).youden for half in halves)
    width = math.hypot(after.high - after.low, before.high - before.low) / (2.0 * Z)
    return abs(after.value - before.value) > DRIFT_ERRORS * width


def _difference(labels: Sequence[HumanLabel]) -> tuple[float, float]:
    """The weighted mean of people's scores less the judge's, and its standard error."""
    conversations = defaultdict[str, list[float]](lambda: [0.0, 0.0])
    for cluster, label in _by_conversation(labels):
        weight = label.weighted().weight
        conversations[cluster][0] += weight
        conversations[cluster][1] += weight * (label.human - label.judge)
    total = math.fsum(weight for weight, _ in conversations.values())
    mean = math.fsum(less for _, less in conversations.values()) / total
    squares = math.fsum((less - mean * weight) ** 2 for weight, less in conversations.values()) / total**2
    number = total**2 / math.fsum(weight**2 for weight, _ in conversations.values())
    return mean, math.sqrt(squares * number / max(1.0, number - 1.0) + VARIANCE_FLOOR / number)


RESAMPLES = 200
"""Resamples of the bootstrap: the bounds are good to about a tenth of their distance."""


@dataclass(frozen=True, slots=True)
class PeopleSums:
    """The sums of the last seven days' drawn labels, for the mean of one evaluator in one monitor, or of its audits.

    `withheld` is the reason why these labels correct no mean. Labels of audited answers correct the mean by audits if
    there are enough; until then, labels of all answers correct the judge's mean. `notes` are on the monitor's labels
    that are not in this mean, and on whether those in it were drawn alike, in sentences.
    """

    version: Version
    withheld: WithheldReason
    sums: audited_sums.AuditedSums
    notes: Sequence[str]


class AgreementWatcher:
    """Reads labels and sets the metrics.

    `judged` are the evaluators in use and their audits (`helpful:audit`), with their scales; `dimensions` tell segments
    apart, as they do for scores; with `by_segment` each has a mean of its own. `queue` has the shares that are drawn
    now. `logged` are the weights of the scores of seven days, by monitor and evaluator, as far as this process reads
    them. `clock` is in seconds since the epoch.
    """

    def __init__(
        self, labels: Log, judged: Mapping[Version, ScoreScale], telemetry: Telemetry, *,
        dimensions: Sequence[Dimension] = (), queue: LabelQueueSettings | None = None, by_segment: bool = False,
        logged: Callable[[], Mapping[tuple[str, str], float]] = dict, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.agreements: Mapping[Version, VerdictAgreement] = {}
        """By drawn labels, of those that have any."""
        self.segments: Mapping[Version, Mapping[str, VerdictAgreement]] = {}
        """The same by segment, where segments are told apart and have enough labels."""
        self.biases: dict[Version, Sequence[str]] = {}
        """The biases of judges by drawn labels, in sentences."""
        self.people: Mapping[tuple[str, str], PeopleSums] = {}
        """By monitor and evaluator."""
        self._clock = clock
        self._logged = logged
        self._queue = queue or LabelQueueSettings()
        self._segmented = bool(dimensions)
        self._segments = Segments(dimensions)
        self._reader = IncrementalReader(labels)
        self._judged = judged
        self._telemetry = telemetry
        self._by_segment = by_segment
        self._labels = LabelIndex([name for (name, _), scale in judged.items() if scale.lower_is_better])
        self._reading = FailureLog("reading the labels log")
        self._published: set[tuple[Version, str]] = set()
        for measured in (series.AGREEMENT_LABELS, series.AGREEMENT, series.AGREEMENT_BOUND):
            telemetry.replace(measured, {})  # versions of an earlier configuration get no labels any more

    async def run_forever(self) -> None:
        """Measure until cancelled."""
        while True:
            await self.measure_changes()
            await asyncio.sleep(_EVERY)

    async def measure_changes(self) -> None:
        """Read new labels and measure the evaluators that they change."""
        changed: set[Version] = set()
        with self._reading.attempt(LogUnavailable):
            async for record in self._reader.records():
                version = self._labels.add(record)
                if version is not None and version in self._judged:
                    changed.add(version)
        for version in sorted(changed):
            await self._measure(version)
        self._measure_queue(self._clock())

    async def _measure(self, version: Version) -> None:
        pairs = weighted_pairs(self._labels.labels(version))
        self._telemetry.gauge(series.AGREEMENT_LABELS, *version).set(len(pairs))
        report = await asyncio.to_thread(biases, judged_pairs(labels_of_queue(self._labels.labels(version))))
        self.biases[version] = report.sentences("people")
        if len(pairs) >= FEWEST:
            result = await asyncio.to_thread(agreement, "all", pairs, self._judged[version], samples=RESAMPLES)
            few = sum(self._judged[version].decides(pair.passed) for pair in pairs) < FEWEST
            for name, (value, bounds) in result.measures.items():
                self._publish(version, name, *((math.nan, None) if few and name not in OF_SCORES else (value, bounds)))

    def _publish(self, version: Version, name: str, value: float, bounds: Interval) -> None:
        """A measure without a value is not zero: its series begins with its first value."""
        if math.isnan(value) and (version, name) not in self._published:
            return
        self._published.add((version, name))
        self._telemetry.gauge(series.AGREEMENT, *version, name).set(value)
        for bound, at in zip(("low", "high"), bounds or (math.nan, math.nan), strict=True):
            self._telemetry.gauge(series.AGREEMENT_BOUND, *version, name, bound).set(at)

    def _sums_of(
        self, version: Version, current: Sequence[HumanLabel], whole: Sequence[HumanLabel], now: float
    ) -> PeopleSums | None:
        """The sums of a monitor's labels: `current` are those of this version, `whole` are all. None until labels of
        audited answers are enough: until then people correct the judge's mean.
        """
        week, scale = recent_labels(current, now), self._judged[version]
        if is_of_audits(version) and not are_enough(week):
            return None
        why = why_withheld(week, scale)
        notes = (*_notes(week, _labels_since(now, whole), self._queue), *undecided(current, scale))
        return PeopleSums(version, why, people_sums(week, are_scored=not is_of_audits(version)), notes)

    def _measure_queue(self, now: float) -> None:
        """Measure what drawn labels say, of all evaluators."""
        labels = {version: labels_of_queue(self._labels.labels(version)) for version in self._judged}
        others = {version: labels_of_queue(self._labels.others(version, self._judged)) for version in self._judged}
        labels = {version: each for version, each in labels.items() if each or others[version]}
        self.agreements = {
            version: verdict_agreement(_scores_of(each), self._judged[version]) for version, each in labels.items()
        }
        parts = labels.items() if self._segmented else ()
        self.segments = {version: self._agreement_by_segment(each, self._judged[version]) for version, each in parts}
        self.people = {
            (monitor, audited_sums.scored_name(version[0])): sums
            for by_version in (others, labels)  # a monitor's labels of a version in use come last, and so count
            for version, each in by_version.items()
            for monitor, own in group_by(each, lambda label: label.monitor).items()
            for whole in [[label for label in (*labels[version], *others[version]) if label.monitor == monitor]]
            if (sums := self._sums_of(version, own if by_version is labels else [], whole, now)) is not None
        }
        self._publish_queue(labels, now)

    def _agreement_by_segment(self, labels: Sequence[HumanLabel], scale: ScoreScale) -> dict[str, VerdictAgreement]:
        segments = {
            segment: verdict_agreement(_scores_of(each), scale)
            for segment, each in group_by(labels, lambda label: self._segments.of(label.attributes)).items()
        }
        return {segment: agreement for segment, agreement in segments.items() if agreement.number >= FEWEST}

    def _publish_queue(self, labels: Mapping[Version, Sequence[HumanLabel]], now: float) -> None:
        telemetry, agreements = self._telemetry, self.agreements.items()
        telemetry.replace(series.PEOPLE_LABELS, {version: agreement.number for version, agreement in agreements})
        telemetry.replace(series.PEOPLE_AGREEMENT, {
            (*version, *names): value
            for version, agreement in agreements for names, value in _values(agreement)
        })  # fmt: skip
        telemetry.replace(series.PEOPLE_SEGMENT_AGREEMENT, {
            (*version, segment, *names): value
            for version, segments in self.segments.items() for segment, agreement in segments.items()
            for names, value in _values(agreement)
        })  # fmt: skip
        telemetry.replace(series.PEOPLE_WITHHELD, {
            (audited_sums.people_name(evaluator), sums.version[1], monitor, sums.withheld): 1.0
            for (monitor, evaluator), sums in self.people.items() if sums.withheld
        })  # fmt: skip
        telemetry.replace(series.PEOPLE_SUMS, {
            (audited_sums.people_name(evaluator), people.version[1], monitor, segment, name): value
            for (monitor, evaluator), people in self.people.items()
            for recent in [recent_labels(labels[people.version], now)]
            for segment, sums in self._sums_by_segment(people.version, monitor, recent)
            for name, value in zip(audited_sums.SUM_NAMES, sums.values, strict=True) if "a" in name
        } | {
            (audited_sums.people_name(key[1]), self.people[key].version[1], key[0], ALL, audited_sums.LOGGED): weight
            for key, weight in self._logged().items() if key in self.people
        })  # fmt: skip

    def _sums_by_segment(
        self, version: Version, monitor: str, labels: Sequence[HumanLabel]
    ) -> Iterator[tuple[str, audited_sums.AuditedSums]]:
        of_monitor = [human_label for human_label in labels if human_label.monitor == monitor]
        parts = group_by(of_monitor, lambda label: self._segments.of(label.attributes) if self._by_segment else ALL)
        for segment, each in parts.items():
            yield segment, people_sums(each, are_scored=not is_of_audits(version))


def is_of_audits(version: Version) -> bool:
    """Whether labels of this version correct a mean by audits."""
    return audited_sums.scored_name(version[0]) != version[0]


def _labels_since(now: float, labels: Iterable[HumanLabel]) -> list[HumanLabel]:
    return [label for label in labels if label.at >= now - audited_sums.PEOPLE_WINDOW]


def recent_labels(labels: Sequence[HumanLabel], now: float) -> list[HumanLabel]:
    """The labels of the last seven days whose scores are in the mean of these days."""
    return [label for label in _labels_since(now, labels) if not label.is_of_past]


def _notes(recent: Sequence[HumanLabel], whole: Sequence[HumanLabel], queue: LabelQueueSettings) -> Iterator[str]:
    """Notes on the labels that count in the mean by people, of those that were given in its time."""
    if more := len(whole) - len(recent):
        what = f"{plural(more, 'label')} of scores by rejudge or another version are not in the mean by people"
        yield f"{what}; evalstream calibrate counts those whose answer this version scored."
    low, high = queue.random * (1.0 - _ROUNDING), draw_probability(queue, 1.0, audited=True) * (1.0 + _ROUNDING)
    strange = sum(not low <= (label.probability or 0.0) <= high for label in recent)
    if 0 < strange < len(recent):
        what = (
            f"page.queue now gives other probabilities than {strange} of {plural(len(recent), 'label')} were drawn with"
        )
        yield f"Mixed draws: {what}. The mean by people may be wrong until these labels are seven days old."


_ROUNDING = 1e-9


def _values(of: VerdictAgreement) -> Iterator[tuple[tuple[str, str], float]]:
    """The measures that have a value, by statistic and bound."""
    for statistic, measure in of.measures().items():
        for bound, value in measure._asdict().items():
            if not math.isnan(value):
                yield (statistic, bound), value
