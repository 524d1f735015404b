"""The watch stage: a fold over the evaluations log that alerts when scores are off their targets.

Its state comes from the log's latest records, read back at a start. If several processes run it, the owner of one
partition watches, and reads all other partitions, too. So does a process whose page shows what fires: it evaluates the
same scores, but notifies nobody. A score counts in the minute in which the log took it, so that partitions may be read
in any order.

Consumers of a group divide the partitions of the evaluations log. A watcher that saw its share alone would tell a mean
of half of the scores, and another watcher that of the other half.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any, Protocol

from collector.alerting.diagnosis.recent_scores import Explanation, Period, RecentScores, explanation_of
from collector.alerting.memory_fold import MemoryFold, PartitionFolds
from collector.alerting.rules.series import WINDOWS
from collector.alerting.watch.alert_evaluation import DropState, TargetMiss, fall_of, target_misses, unscored_share
from collector.alerting.watch.alert_texts import Watched, drop_alert, mean_alert, shift_alert
from collector.alerting.watch.buckets import Bucket, Buckets, Series, merge_buckets
from collector.alerting.watch.notifier import AlertInstance, Notifier
from collector.config.alerts import DAY, AlertSettings
from collector.export.prometheus import label_scores, share_name
from collector.logs.log import Log
from collector.records.audits import audit_by, lost_audit
from collector.statistics.audited_sums import audit_name
from collector.statistics.bounded_sums import Weight
from collector.statistics.incident import DropDetector, DropLife, Incidents, recovery_threshold
from collector.statistics.judge_change import JudgeVerdict
from collector.telemetry.plain import in_chat
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import DROP_EXPLAINED, DROP_LOG_EVIDENCE, JUDGE_MOVED
from evaluators.results import Evaluation

WATCHING_PARTITION = 0
"""The partition whose owner watches."""

ExplainedMiss = Callable[[str, bool, float, float], float]
"""How far the mean of a window may miss its target by its judge alone, from the evaluator, whether lower is better, and
the window's length and end (s)."""
_UNKNOWN = (0.0, Explanation())
_SUSPICIOUS, _SUSPICIOUS_ERRORS = 0.3, 2.0
"""For evidence above this share of its threshold, or a mean so many errors off, causes are looked for, so that they are
known when an alert begins."""
_EXPLAIN_EVERY, _LEAST_PAUSE = 60.0, 20.0
"""Seconds until causes are computed again; if none was found, as a multiple of the computing time."""
UNKNOWN_JUDGE = (
    "This process does not ask whether the judge has changed: see the notification of the process that watches, or "
    "the metric evalstream_judge_moved."
)
SURE = 2.0
"""The evidence of a drop counts only if the mean is beyond the explained part by so many standard errors."""
_LOOKS_BACK = 40
"""At how many times since a fall was found a process that has just started looks whether its alert had begun."""

UncalibratedReason = Callable[[str, str, str], str]
"""Why alerts on a monitor's evaluator, in a version, do not page: its judge's agreement is not proven; "" if it is."""


class JudgeSince(Protocol):
    """Whether an evaluator's judge has changed since a fall (s), by cases scored again; None if unknown."""

    def __call__(
        self, evaluator: str, version: str, since: float, /, *, alerting: bool, detected_at: float = math.inf
    ) -> JudgeVerdict | None:
        """`alerting` says whether an alert is on that fall, `detected_at` when the detector found it (s)."""
        ...


Targets = Mapping[tuple[str, str], DropDetector]
"""The detectors of the evaluators with a target, by monitor and evaluator."""


WatchedLabels = Mapping[tuple[str, str], Sequence[str]]
"""The labels whose shares have a target, by monitor and evaluator."""

AuditVersions = Mapping[tuple[str, str], str]
"""The auditor's version, by monitor and evaluator."""

VersionsInUse = Mapping[tuple[str, str], Collection[str]]
"""The versions that score now, by monitor and series of scores; a series that is not there is not checked."""


@dataclass(frozen=True, slots=True)
class ActiveAlert:
    """An alert, and its `since`, else the time (s since the epoch) since which this process has seen it fire."""

    alert: AlertInstance
    since: float


@dataclass(frozen=True, slots=True)
class WatchRules:
    """The series that a configuration watches, and their settings."""

    targets: Targets
    settings: AlertSettings
    labels: WatchedLabels = field(default_factory=dict[tuple[str, str], Any])
    audits: AuditVersions = field(default_factory=dict[tuple[str, str], Any])
    versions: VersionsInUse = field(default_factory=dict[tuple[str, str], Any])
    judged: Collection[str] = ()
    """The evaluators that ask a judge."""

    def is_share(self, monitor: str, series: str) -> bool:
        """Whether a series of scores is the share of a label."""
        own = (item for item in self.labels.items() if item[0][0] == monitor)
        return any(share_name(name, label) == series for (_, name), labels in own for label in labels)

    def uses(self, monitor: str, series: str, version: str) -> bool:
        """Whether a version scores now: alerts on one that another has replaced are over."""
        versions = self.versions.get((monitor, series))
        return versions is None or version in versions


async def _no_answer() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class JudgeTrust:
    """The known errors of judges: alerts fire for a miss beyond `explained`, and only warn where `uncalibrated`. A fall
    no larger than the `largest` shift of its judge in some time (s) does not alert.

    `judge_since` may ask for what it does not know yet; it is None where only other processes ask. `wait_for_answer`
    waits for that, and says whether there was anything. `note_incidents` takes the incidents that are over. `shifted`
    says how far an evaluator's judge has left its references, and since when (s); "" if not significantly.
    """

    explained: ExplainedMiss = lambda _evaluator, _lower, _length, _end: 0.0
    largest: Callable[[str, bool, float, float], float] = lambda _evaluator, _lower, _since, _until: 0.0
    uncalibrated: UncalibratedReason = lambda _monitor, _evaluator, _version: ""
    shifted: Callable[[str], tuple[str, float | None]] = lambda _evaluator: ("", None)
    judge_since: JudgeSince | None = None
    wait_for_answer: Callable[[], Awaitable[bool]] = _no_answer
    note_incidents: Callable[[str, str, Sequence[Period]], None] = lambda _evaluator, _version, _over: None


@dataclass(eq=False, repr=False)
class WatchStage:
    """Opens the folds, evaluates the alerts over all of them, and notifies.

    `log` has the partitions that other processes consume; without it there are none. With `recent` alerts say which
    part of the traffic explains a drop.
    """

    rules: WatchRules
    telemetry: Telemetry
    _: KW_ONLY
    interval: float = 60.0
    memory: float = 7 * 86400.0
    recent: RecentScores | None = None
    trust: JudgeTrust = field(default_factory=JudgeTrust)
    clock: Callable[[], float] = time.time
    has_page: bool = False
    """Whether a page here lists what fires: then alerts are evaluated here, too, while another process watches."""
    log: InitVar[Log | None] = None

    def __post_init__(self, log: Log | None) -> None:
        self._folds = PartitionFolds(log, self._new_fold, self.memory)
        self.open_fold = self._folds.open
        self._evaluated_changes = 0
        """`PartitionFolds.changes` at the last evaluation."""
        self._suspects: dict[Series, float] = {}
        """The series whose mean may have fallen, and since when (s)."""
        self._causes: dict[Series, tuple[float, Explanation]] = {}
        """The causes of their falls, and when they are next computed (s)."""
        self._drops: dict[Series, DropState] = {}
        self._target_since: dict[tuple[str, str], int] = {}
        """The first interval to which a changed target applies."""
        self._incidents: dict[Series, Incidents] = {}
        """`DropLife.incidents` when the target changed."""
        self._verdicts: dict[tuple[str, ...], float] = {}
        """How far judges have moved, by series and verdict."""
        self._evidence: dict[tuple[str, ...], float] = {}
        """The evidence of falls, as a metric's labels have it."""
        self._alerted: dict[tuple[str, str], float] = {}
        """When an alert was last on any series of an evaluator's version (s)."""
        self._dropped: dict[Series, tuple[int, bool]] = {}
        """The series with a fall that the detector found: `DropLife.first_detected`, and whether an alert is on it."""
        self.firing: tuple[ActiveAlert, ...] = ()
        """The alerts that fired at the last evaluation."""
        self.has_looked = False
        """Whether there was one: until then nothing is known of alerts that fired before a restart."""

    def reconfigure(self, rules: WatchRules) -> None:
        """Use these targets from now on. A series keeps its state, but not causes of drops. If its target has
        changed, only scores from now on are evidence, and its incident ends: another target is no fall of the mean.
        """
        for series in self._causes:
            self._show(series, Explanation())
        self._causes.clear()
        self._suspects.clear()
        for key, detector in rules.targets.items():
            known = self.rules.targets.get(key)
            if known is None or (known.target, known.lower_is_better) != (detector.target, detector.lower_is_better):
                self._target_since[key] = int(self.clock() // self.interval)
                self._incidents |= {of: drop.life.incidents for of, drop in self._drops.items() if of[:2] == key}
                for fold in self._folds:
                    fold.buckets.forget_gains(*key)
        self.rules = rules
        self._drops.clear()

    def _new_fold(self) -> "WatchFold":
        return WatchFold(self, Buckets(self.interval, self.memory), self.memory)

    @property
    def watches(self) -> bool:
        """Whether this process watches: of several, the owner of one partition does."""
        return self._folds.owns(WATCHING_PARTITION)

    @property
    def evaluates(self) -> bool:
        """Whether this process evaluates the alerts."""
        return self.has_page or self.watches

    async def run(
        self, notifier: Notifier | None = None, others: Callable[[], Sequence[AlertInstance]] = lambda: ()
    ) -> None:
        """Evaluate every interval, and notify if there is a notifier: of what fires here, and of `others`."""
        while True:
            await asyncio.sleep(self.interval)
            was_restored = self._folds.are_restored
            active = await self.look(self.clock())
            if notifier is not None and self.watches:
                is_restored = was_restored and self._folds.are_restored
                # the look may have waited for a judge, and the configuration may have changed meanwhile
                await notifier.notify([*active, *others()], self.clock(), self._why_over, is_restored=is_restored)
            elif notifier is not None:
                notifier.hand_over()

    async def look(self, now: float) -> list[AlertInstance]:
        """Evaluate, find what explains drops, and remember what fires; nothing where only another process does."""
        await self._folds.read_on(now, wanted=self.evaluates)
        dropped = dict(self._dropped)
        active = self.update(now)
        is_explained, is_answered = await self._explain(now), await self.trust.wait_for_answer()
        if not (is_explained or is_answered):
            return active
        self._dropped = dropped  # nothing has been notified of the first
        return self.update(now)

    async def _explain(self, now: float) -> bool:
        """Compute what explains the drops, in another thread; whether anything was."""
        recent = self.recent
        if recent is None:
            return False
        due = [suspect for suspect in self._suspects if now >= self._causes.get(suspect, (-math.inf, None))[0]]
        # now: partitions that move meanwhile clear what is known of them
        for series, incidents in {suspect: self.incidents(suspect) for suspect in due}.items():
            if series not in self._suspects:
                continue  # no longer: the configuration changed meanwhile
            began, targets = self.clock(), self.rules.targets
            explanation = await asyncio.to_thread(
                explanation_of, recent.snapshot(series), self._suspects[series],
                lower_is_better=targets[series[:2]].lower_is_better, evaluators=len(targets),
                moved=self._causes.get(series, _UNKNOWN)[1].moved, incidents=incidents,
            )  # fmt: skip
            if self.rules.targets is not targets:
                break
            self._show(series, explanation)
            # without a cause it is looked for again soon: scores are few at the beginning
            pause = _EXPLAIN_EVERY if explanation.causes else _LEAST_PAUSE * (self.clock() - began)
            self._causes[series] = (now + pause, explanation)
        for series in [cause for cause in self._causes if cause not in self._suspects]:
            self._show(series, Explanation())
            del self._causes[series]
        return bool(due)

    def _show(self, series: Series, explanation: Explanation) -> None:
        monitor, evaluator, _ = series
        shares = {cause.part: 0.0 for cause in self._causes.get(series, _UNKNOWN)[1].causes}
        shares |= {cause.part: cause.share for cause in explanation.causes}
        for part, share in shares.items():
            # the texts of alerts contain the label
            self.telemetry.gauge(DROP_EXPLAINED, evaluator, monitor, in_chat(part)).set(share)

    def update(self, now: float) -> list[AlertInstance]:
        """Evaluate, and remember what fires."""
        active = list(self.evaluate(now))
        seen = {alert.alert.key: alert.since for alert in self.firing}
        self.firing = tuple(ActiveAlert(alert, alert.since or seen.get(alert.key, now)) for alert in active)
        self.has_looked = True
        return active

    def evaluate(self, now: float) -> Iterator[AlertInstance]:
        """The alerts that fire at `now` (seconds since the epoch)."""
        self._verdicts.clear()
        self._evidence.clear()
        if self.evaluates:
            yield from self._evaluate_all(now)
        else:
            self._suspects.clear()
        self.telemetry.replace(JUDGE_MOVED, self._verdicts)
        self.telemetry.replace(DROP_LOG_EVIDENCE, self._evidence)

    def _evaluate_all(self, now: float) -> Iterator[AlertInstance]:
        if self._evaluated_changes != self._folds.changes:
            self._drops.clear()
        self._evaluated_changes = self._folds.changes
        series = sorted({each for fold in self._folds for each in fold.buckets.series()})
        for fold in self._folds:
            fold.buckets.forget(now)
        for each in series:
            detector = self.rules.targets.get(each[:2])
            if detector is not None and self.rules.uses(*each):
                yield from self._evaluate_series(each, detector, now)
            else:
                self._suspects.pop(each, None)
        for fold in self._folds:
            fold.buckets.touched.clear()

    def incidents(self, series: Series) -> Sequence[Period]:
        """The incidents of a series that are over, by their alerts as last evaluated."""
        over = self._drops[series].life.incidents if series in self._drops else ()
        return [(begin * self.interval, end * self.interval) for begin, end in over]

    def _why_over(self, alert: AlertInstance) -> str:
        """Why an alert ended although its scores have not recovered; "" otherwise."""
        monitor, evaluator, version = (alert.labels.get(of, "") for of in ("monitor", "evaluator", "evaluator_version"))
        if not self.rules.uses(monitor, evaluator, version):
            return f"The alert ended because another version of {evaluator} has replaced version {version}."
        of = self.rules.targets.get((monitor, evaluator))
        if of and alert.target not in {None, of.target}:
            return f"The alert ended because the target of {evaluator} is now {of.target:g}."
        return ""

    def _evaluate_series(self, series: Series, detector: DropDetector, now: float) -> Iterator[AlertInstance]:
        monitor, evaluator, version = series
        buckets = merge_buckets(fold.buckets.of(series) for fold in self._folds)
        begin = self._target_since.get(series[:2], 0), self._incidents.get(series, ())
        recovers = recovery_threshold(self.rules.settings.false_recovery_days * DAY, self.interval)
        drop = self._drops.setdefault(series, DropState(detector, recovers, *begin))
        for fold in self._folds:
            if series in fold.buckets.touched:
                drop.invalidate(fold.buckets.touched[series])
        drop.advance(buckets, int(now // self.interval))
        life = drop.life
        self._evidence[evaluator, version, monitor, "all"] = max(0.0, life.evidence)
        misses, is_explained = self._misses(series, life, buckets, now)
        worst = max(misses, key=lambda each: each.standard_errors, default=None)
        explanation = self._causes.get(series, _UNKNOWN)[1]
        fall = fall_of(drop, buckets, self.interval)
        has_fallen = self._has_fallen(series, life, buckets, now, is_explained=is_explained)
        is_below = worst is not None and worst.standard_errors > self.rules.settings.warn_standard_errors
        self._suspects.pop(series, None)
        judge_verdict = ""
        if (
            life.fall is not None
            or life.evidence > _SUSPICIOUS * detector.threshold
            or (worst is not None and worst.standard_errors > _SUSPICIOUS_ERRORS)
        ):
            self._suspects[series] = drop.begin(life.likely_start) * self.interval
            # a begin that moves with every look would ask the judge again
            since = drop.begin(life.start) * self.interval
            self.trust.note_incidents(evaluator, version, self.incidents(series))
            if has_fallen or is_below:
                self._alerted[evaluator, version] = now
            # of another series, too: its judge is the same, and one look has both
            is_alerting = now - self._alerted.get((evaluator, version), 0.0) <= 1.5 * self.interval
            # the process that watches asks the judge, which costs money
            judge_since = self.trust.judge_since if self.watches else None
            detected_at = math.inf if life.fall is None else (life.fall.detected + 1) * self.interval
            if judge_since is None:
                judge_verdict = UNKNOWN_JUDGE if evaluator in self.rules.judged else ""
            elif verdict := judge_since(evaluator, version, since, alerting=is_alerting, detected_at=detected_at):
                word, judge_verdict = verdict.beside_a_fall(lower_is_better=detector.lower_is_better)
                self._verdicts[evaluator, version, monitor, word] = verdict.shift
        subject = Watched(
            monitor, evaluator, version, detector, of_label=self.rules.is_share(monitor, evaluator),
            causes=explanation.causes, otherwise=explanation.otherwise,
            uncalibrated=self.trust.uncalibrated(monitor, evaluator, version), judge_verdict=judge_verdict,
            since=self._suspects.get(series),
        )  # fmt: skip
        if fall is not None and has_fallen:
            yield drop_alert(subject, fall, misses[0] if misses else None, self.rules.settings)
        elif worst is not None and is_below:
            yield mean_alert(subject, worst, life.next_number(int(now // self.interval)), self.rules.settings)
        shifted, began = self.trust.shifted(evaluator)
        if shifted:
            yield shift_alert(subject, shifted, began, self.rules.settings)

    def _misses(
        self, series: Series, life: DropLife, buckets: Mapping[int, Bucket], now: float
    ) -> tuple[list[TargetMiss], bool]:
        """The misses at a time, and whether warnings explain the fall that was found."""
        buckets = {number: bucket for number, bucket in buckets.items() if number * self.interval < now}
        detector = life.detector
        doubts = self._doubts(*series[:2], detector, now)
        misses = target_misses(
            buckets, detector, now=now, interval=self.interval, min_n=self.rules.settings.min_conversations,
            doubts=doubts, recovered=life.recovered,
        )  # fmt: skip
        is_beyond = any(miss.standard_errors > SURE for miss in misses)
        # while no window is of the present, as after an incident, the fall itself is compared with the largest doubt
        if not misses and life.fall is not None:
            is_beyond = detector.shortfall(1.0, life.fall.level) > max(doubts.values())
        return misses, any(doubts.values()) and not is_beyond

    def _has_fallen(
        self, series: Series, life: DropLife, buckets: Mapping[int, Bucket], now: float, *, is_explained: bool
    ) -> bool:
        """Whether an alert is on the fall that the detector found. A doubt that comes later does not end it, also if
        the process restarts meanwhile: then it looks at the times since the fall was found.
        """
        known, was_on = self._dropped.pop(series, (None, False))
        if life.fall is None:
            return False
        is_on = (
            was_on
            or not is_explained
            or (known != life.first_detected and self._had_fallen(series, life, buckets, now))
        )
        is_on = is_on and not self._is_by_judge(series, life)
        self._dropped[series] = life.first_detected, is_on
        return is_on

    def _had_fallen(self, series: Series, life: DropLife, buckets: Mapping[int, Bucket], now: float) -> bool:
        # a look comes within the interval after the one that it ends with
        first, until = life.first_detected + 2, int(now // self.interval)
        ends = range(first, until, max(1, (until - first) // _LOOKS_BACK))
        return any(not self._misses(series, life, buckets, end * self.interval)[1] for end in ends)

    def _is_by_judge(self, series: Series, life: DropLife) -> bool:
        """Whether, when a fall was found, its judge was known to have shifted by as much: until the mean recovers."""
        fall = life.fall
        if fall is None:
            return False
        # a run that the look asks for as it finds the fall ends in the interval after it
        since, until = fall.since * self.interval, (fall.detected + 2) * self.interval
        shift = self.trust.largest(series[1], life.detector.lower_is_better, since, until)
        return shift > 0.0 and life.detector.shortfall(1.0, fall.level) <= shift

    def _doubts(self, monitor: str, evaluator: str, detector: DropDetector, now: float) -> dict[str, float]:
        """How far each window's mean may be off by what is known of its judge, and by what has no score."""
        here = (
            fold.buckets.of(series)
            for fold in self._folds
            for series in fold.buckets.series()
            if series[:2] == (monitor, evaluator)
        )
        unscored = unscored_share(here, now=now, interval=self.interval)
        known = unscored if unscored > self.rules.settings.max_unscored_share else 0.0
        lower = detector.lower_is_better
        return {name: self.trust.explained(evaluator, lower, length, now) + known for name, length in WINDOWS.items()}


class WatchFold(MemoryFold):
    """One partition of the watch stage."""

    def __init__(self, stage: WatchStage, buckets: Buckets, memory: float) -> None:
        super().__init__(memory)
        self.buckets = buckets
        self._stage = stage

    def take(self, evaluation: Evaluation, time: float) -> None:
        """Count the scores."""
        series = list(self._series_of(evaluation))
        is_past = evaluation.happened_at is not None
        is_unwanted = evaluation.score is None and not evaluation.is_lost
        failed_at = evaluation.replaced_loss_at
        is_uncounted = not series or ((is_past or is_unwanted) and failed_at is None)
        if is_uncounted or self._seen.repeats(evaluation.evaluation_id):
            return
        if failed_at is not None:
            key = (evaluation.monitor, evaluation.evaluator, evaluation.evaluator_version)
            self.buckets.add_unscored(key, time=failed_at.timestamp(), number=-1)
        if is_past or is_unwanted:
            return
        for name, score, detector in series:
            if name == audit_name(evaluation.evaluator):
                self._count_audit(evaluation, detector, time)
                continue
            key = (evaluation.monitor, name, evaluation.evaluator_version)
            if score is None:
                self.buckets.add_unscored(key, time=time)
                continue
            self.buckets.add(
                key,
                detector,
                evaluation.subject.conversation_id,
                weight=Weight.of(evaluation.sampling),
                score=score,
                time=time,
                unshown=evaluation.unshown,
            )
            if self._stage.recent is not None:
                self._stage.recent.add(key, evaluation, score, time)

    def _count_audit(self, evaluation: Evaluation, detector: DropDetector, time: float) -> None:
        """Count for the mean by audits; their version stays the same until another auditor is named."""
        version = self._stage.rules.audits.get((evaluation.monitor, evaluation.evaluator))
        if version is None:
            return
        key = (evaluation.monitor, audit_name(evaluation.evaluator), version)
        if evaluation.score is None:
            self.buckets.add_unscored(key, time=time)
            return
        audit = audit_by(evaluation, version)
        self.buckets.add_audited(
            key, detector, evaluation.subject.conversation_id, sampling=evaluation.sampling, score=evaluation.score,
            audit=audit, lost=lost_audit(evaluation, version), time=time,
        )  # fmt: skip
        if audit is not None and self._stage.recent is not None:
            self._stage.recent.add(key, evaluation, audit.score, time)

    def _series_of(self, evaluation: Evaluation) -> Iterator[tuple[str, float | None, DropDetector]]:
        """The series with targets that an evaluation adds to: its evaluator's mean, and the shares of labels."""
        labels = self._stage.rules.labels.get((evaluation.monitor, evaluation.evaluator), ())
        audits = ((audit_name(evaluation.evaluator), evaluation.score),)
        for name, score in (*((evaluation.evaluator, evaluation.score), *label_scores(evaluation, labels)), *audits):
            if (detector := self._stage.rules.targets.get((evaluation.monitor, name))) is not None:
                yield name, score, detector
