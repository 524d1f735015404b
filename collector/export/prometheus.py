"""Scores as Prometheus metrics: the distribution, the estimator's sums, verdicts, outcomes, tokens and cost.

A cascade asks its second judge if the first judge is in doubt, and also about a random share of the sure cases. Each
evaluation of a cascade has a corrected value z (`evaluators.results.Escalation.corrected`). The mean of z estimates the
mean that the second judge alone would give. A case of the random share has z = p + (q - p) / share, where p is the
first judge's score and q the second's; so z is in [-c, 1 + c] with c = 1 / share - 1. Counters must not fall, so the
sums are of z + c:

    mean = WZ / W - c,    error = sqrt(W2Z2 - 2 m W2Z + m² W2) / W    with m = WZ / W

where W and W2 are sums of `collector.statistics.bounded_sums`, and WZ, W2Z, W2Z2 are its WY, W2Y, W2Y2 with y = z + c.
The error does not depend on c. Each corrected value has the same bounded weight as its score.

The share of a label is the mean of a score that is 1 if an evaluation has the label, else 0. So means, standard errors
and the drop detector apply to shares without a change. The bound on false alarms is the same, since it holds for any
scores in [0, 1]. The share of a label is a series of its own, named after evaluator and label.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Annotated, ClassVar, get_args

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector
from pydantic import Field

from collector.durations import Seconds
from collector.export.exporter import ExportContext, ExporterSettings, MonitoredEvaluator
from collector.export.scrape import serve_metrics
from collector.export.segments import MOST_SEGMENTS, SETTLING, Dimension, Segments, count_segments, dimensions_of
from collector.export.stage import by_monitor
from collector.logs.addresses import ListeningHost
from collector.logs.log import Confirm
from collector.records.audits import audit_by, audit_outcome
from collector.records.feedback import GOOD, FeedbackSubject, JoinedFeedback
from collector.statistics.audited_sums import SUM_NAMES, AuditedClusters, audit_name, audited_weight
from collector.statistics.bounded_sums import BoundedIncrements, BoundedSums, Sums, Weight
from collector.statistics.conversations import PAUSE
from collector.telemetry import series as metrics
from collector.telemetry.registry import OTHER, Telemetry
from collector.telemetry.series import CORRECTED_SHIFT, CORRECTED_SUMS, ESCALATIONS
from evaluators.evaluation import Result
from evaluators.results import JUDGE_ERRORS, LOSSES, EscalationReason, Evaluation, JudgeStamp, Status


def share_name(evaluator: str, label: str) -> str:
    """The name of a label's share, used in place of an evaluator's name: `outcome=escalated`."""
    return f"{evaluator}={label}"


def label_scores(evaluation: Evaluation, labels: Iterable[str]) -> Iterator[tuple[str, float | None]]:
    """The name of each label's share, and the score that the evaluation adds there; None if it has no score."""
    for label in labels:
        share = None if evaluation.score is None else float(evaluation.label == label)
        yield share_name(evaluation.evaluator, label), share


class CorrectedSums:
    """Feeds the corrected sums of evaluators whose cascade asks its second judge about a share of the sure cases."""

    def __init__(self, telemetry: Telemetry, sums: BoundedSums) -> None:
        self._telemetry = telemetry
        self._sums = sums
        self.shifts: dict[tuple[str, str, str], float] = {}
        """The shift c of corrected values, by evaluator, version and monitor."""

    def create(self, watched: MonitoredEvaluator, segment: str) -> None:
        """Create the series of an evaluator, at 0, if its judge is a cascade."""
        if watched.cascade_share is None:
            return
        for reason in get_args(EscalationReason):
            self._telemetry.counter(ESCALATIONS, watched.evaluator, watched.monitor, reason)
        if not watched.cascade_share:
            return
        labels = (watched.evaluator, watched.evaluator_version, watched.monitor)
        self.shifts[labels] = shift = 1.0 / watched.cascade_share - 1.0
        self._telemetry.gauge(CORRECTED_SHIFT, *labels).set(shift)
        for series in CORRECTED_SUMS:
            self._telemetry.counter(series, *labels, segment)

    def count(self, evaluation: Evaluation, score: float, labels: Sequence[str], mean: Sequence[str]) -> None:
        """Count a score. `labels` are evaluator, version, monitor and segment; `mean` those that its mean has."""
        escalation = evaluation.escalation
        if escalation is not None:
            self._telemetry.counter(ESCALATIONS, labels[0], labels[2], escalation.reason).inc()
        shift = self.shifts.get((labels[0], labels[1], labels[2]))
        if shift is None:
            return
        corrected = None if escalation is None else escalation.corrected(score)
        value = score if corrected is None else corrected
        grown = _add_score(self._sums, ("corrected", *mean), evaluation, value + shift).mean
        for series, growth in zip(CORRECTED_SUMS, (grown.wy, grown.w2y, grown.w2y2), strict=True):
            self._telemetry.counter(series, *labels).inc(growth)


def _add_score(
    sums: BoundedSums, mean: tuple[str, ...], evaluation: Evaluation, score: float, weight: Weight | None = None
) -> BoundedIncrements:
    """Add a score to the sums of a mean, by default with the weight of its evaluation."""
    conversation, time = evaluation.subject.conversation_id, evaluation.ended_at.timestamp()
    return sums.add(mean, conversation, weight=weight or Weight.of(evaluation.sampling), score=score, time=time)


_MODELS = 1000
"""The most models, by name and fingerprint, that are remembered for one evaluator of a monitor."""


class PrometheusSettings(ExporterSettings):
    """The address of /metrics, and the labels of scores."""

    host: ListeningHost = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(default=9464, ge=0, le=65535)
    """Port; 0 takes any free one."""
    segment_by: str | list[str] | dict[str, Annotated[int, Field(ge=1, le=100)] | list[str]] | None = None
    """Attributes whose values become the `segment` label: one name, a list, or a map from name to values. A map
    may instead say how many of the most frequent values count (default 10). Other values become `other`; without this
    key, the label is `all`."""
    segments: tuple[str, ...] = Field(default=(), max_length=100)
    """The values of the attribute of `segment_by`, if that is one name."""
    max_conversations: int = Field(default=100_000, ge=1)
    """Conversations remembered for the error of the mean, about 900 bytes each."""
    conversation_window: Seconds = PAUSE
    """A conversation's scores count as dependent until it pauses for this long or lasts seven days."""

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The attributes that tell segments apart."""
        return dimensions_of(self.segment_by, self.segments)

    def _mistakes(self) -> Iterator[str]:
        count = count_segments(self.dimensions)
        if count > MOST_SEGMENTS:
            yield (
                f"segment_by: makes {count:,} combinations, each a series of every metric of every evaluator; at most "
                f"{MOST_SEGMENTS} are allowed: name fewer attributes or values"
            )
        if self.segments and not isinstance(self.segment_by, str):
            yield "segments: are the values of one attribute; write segment_by: {name: [values]} instead"


class FirstScrape(Collector):
    """Waits until a registry was read as a whole, with its new series.

    Prometheus notices a restart only where a counter is below its last value. If scores counted before the first
    scrape, some sums of a mean could be below their last values and others not. `increase()` would then count the
    former whole and the latter in part: the mean of a window would be wrong.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._read = asyncio.Event()
        registry.register(self)

    def expect(self) -> None:
        """Series are new: only the next reading has them."""
        self._read.clear()

    async def wait(self, confirm: Confirm) -> None:
        """Return once the newest series were read. Nobody may read them, so the wait ends after `SETTLING`.

        After a wait `confirm` is called: another process may have taken the partitions of what waits.
        """
        if self._read.is_set():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLING):
                await self._read.wait()
        self._read.set()
        await confirm()

    def describe(self) -> Iterable[Metric]:
        """No metrics of its own. Without this method, the registration would count as a reading."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Note that somebody reads."""
        self._read.set()
        return ()


class PrometheusExporter:
    """Feeds the metrics of scores, and serves them together with all other metrics of this process.

    It counts nothing in new series until they were read at 0: see `FirstScrape`.
    """

    Settings: ClassVar[type[PrometheusSettings]] = PrometheusSettings

    def __init__(self, settings: PrometheusSettings, context: ExportContext, *, port: int | None = None) -> None:
        self.port = port
        """The port on which /metrics is served; None if it is not served."""
        self._first_scrape = FirstScrape(context.telemetry.registry)
        self._confirm, self._confirm_feedback = context.confirm, context.confirm_feedback
        self._feedback: set[tuple[str, str, str]] = set()
        self._telemetry = context.telemetry
        self._audits = AuditedClusters(capacity=settings.max_conversations, pause=settings.conversation_window)
        self._sums = BoundedSums(capacity=settings.max_conversations, pause=settings.conversation_window)
        self._corrected = CorrectedSums(context.telemetry, self._sums)
        self._newest: dict[tuple[str, str], float] = {}
        self._models: dict[tuple[str, str], set[tuple[str, str | None]]] = {}
        self._created: list[str] = []
        self._evaluators: tuple[MonitoredEvaluator, ...] = ()
        self._watched: dict[tuple[str, str], MonitoredEvaluator] = {}
        self._described: set[tuple[str, ...]] = set()
        self.take_evaluators(context.evaluators)
        self._segments = Segments(settings.dimensions, self._create_segment)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: PrometheusSettings, context: ExportContext) -> "AsyncGenerator[PrometheusExporter]":
        """Open the exporter and serve /metrics.

        Raises:
            ConfigError: the address cannot be bound.
        """
        host, wanted, socket = settings.host, settings.port, context.metrics_socket
        served = serve_metrics(context.telemetry, host=host, port=wanted, health=context.health, socket=socket)
        async with served as port:
            yield cls(settings, context, port=port)

    def take_evaluators(self, evaluators: tuple[MonitoredEvaluator, ...]) -> None:
        """See `ExporterOfEvaluators`. The series of these evaluators begin at 0. The series of earlier versions stay,
        and are marked as not in use.
        """
        self._evaluators = evaluators
        self._watched = {(evaluator.monitor, evaluator.evaluator): evaluator for evaluator in evaluators}
        # Conversations cross segments. So the sums of a mean over all segments are made as if there were none, and each
        # score's growth counts in its segment: one cluster for each conversation, and one scale of weights for all.
        self._of_mean = slice(4 if any(evaluator.by_segment for evaluator in evaluators) else 3)
        before, self._described = self._described, set[tuple[str, ...]]()
        for evaluator in evaluators:
            _reserve_labels(self._telemetry, evaluator)
            self._described.update(_descriptions(evaluator))
            for segment in self._created:
                _create_series(self._telemetry, evaluator, segment)
                self._corrected.create(evaluator, segment)
        for info in self._described | before:
            self._telemetry.gauge(metrics.EVALUATOR_INFO, *info).set(info in self._described)
        self._first_scrape.expect()

    async def export(self, batch: Sequence[Evaluation]) -> None:
        """Count the batch."""
        await self._first_scrape.wait(self._confirm)
        for evaluation in batch:
            if evaluation.retry is not None:
                self._count_replaced(evaluation)
            if evaluation.happened_at is None:
                self._count(evaluation)
            else:  # a counter has no past: last week's scores would count as today's
                self._count_backfill(evaluation)

    async def export_feedback(self, batch: Sequence[JoinedFeedback]) -> None:
        """Count feedback, weighted like the scores of its subject."""
        entries = [
            ((joined.series, joined.entry.source, subject.monitor), joined, subject)
            for joined in batch
            for subject in by_monitor(joined).values()
        ]
        self._create_feedback({labels for labels, _, _ in entries})
        await self._first_scrape.wait(self._confirm_feedback)
        for labels, joined, subject in entries:
            self._count_feedback(labels, joined, subject)

    def _create_feedback(self, labels: set[tuple[str, str, str]]) -> None:
        for new in labels - self._feedback:
            for verdict in ("none", "good", "bad"):
                self._telemetry.counter(metrics.FEEDBACK_VERDICTS, *new, verdict)
            self._count_sums(metrics.FEEDBACK_SUMS, new, Sums())
            self._feedback.add(new)
            self._first_scrape.expect()

    def _count_feedback(self, labels: tuple[str, str, str], joined: JoinedFeedback, subject: FeedbackSubject) -> None:
        score = joined.score
        verdict = "none" if score is None else "good" if score >= GOOD else "bad"
        self._telemetry.counter(metrics.FEEDBACK_VERDICTS, *labels, verdict).inc()
        if score is not None:
            weight, time = Weight.of(subject.sampling), joined.received_at.timestamp()
            key = ("feedback", *labels)  # not the key of an evaluator's sums, which are in `_sums`, too
            grown = self._sums.add(key, subject.conversation_id, weight=weight, score=score, time=time)
            self._count_sums(metrics.FEEDBACK_SUMS, labels, grown.mean)

    def _count_replaced(self, evaluation: Evaluation) -> None:
        if (failed_at := evaluation.replaced_loss_at) is None:
            return
        quarter = max(0, int((evaluation.ended_at - failed_at).total_seconds() // metrics.QUARTER))
        if quarter < len(metrics.REPLACED_AGES):  # an older one has left the alert's hour
            labels = evaluation.evaluator, evaluation.monitor, metrics.REPLACED_AGES[quarter]
            self._telemetry.counter(metrics.EVALUATIONS_REPLACED, *labels).inc()

    def _count_backfill(self, evaluation: Evaluation) -> None:
        labels = (evaluation.evaluator, evaluation.evaluator_version, evaluation.monitor, evaluation.outcome)
        self._telemetry.counter(metrics.EVALUATIONS_BACKFILLED, *labels).inc()
        self._count_work(evaluation)

    def _count(self, evaluation: Evaluation) -> None:
        segment = self._segments.of(evaluation.attributes)
        labels = (evaluation.evaluator, evaluation.evaluator_version, evaluation.monitor, segment)
        self._telemetry.counter(metrics.EVALUATIONS, *labels, evaluation.outcome, evaluation.reason_code).inc()
        sampling = evaluation.sampling.of_subject  # what a gate skips counts itself: no score stands for it here
        if evaluation.retry is None:
            self._telemetry.counter(metrics.EVALUATION_WEIGHT, *labels).inc(Weight.of(sampling).own)
        else:  # the failed evaluation has already added the weight
            self._telemetry.counter(metrics.EVALUATIONS_RETRIED, *labels, evaluation.retry.reason).inc()
        sampled = evaluation.monitor, evaluation.evaluator, sampling.stratum
        self._telemetry.gauge(metrics.SAMPLING_PROBABILITY, *sampled).set(sampling.probability)
        self._count_work(evaluation)
        if evaluation.judge is not None:
            self._count_model_changes(evaluation.evaluator, evaluation.monitor, evaluation.judge)
        if evaluation.score is not None:
            self._count_score(evaluation, evaluation.score, labels)

    def _count_score(self, evaluation: Evaluation, score: float, labels: tuple[str, ...]) -> None:
        for sign in evaluation.details.get("suspicious", ()):
            self._telemetry.counter(metrics.INJECTION_SIGNS, evaluation.evaluator, evaluation.monitor, str(sign)).inc()
        trace = _exemplar(evaluation)
        self._telemetry.histogram(metrics.SCORE, *labels).observe(score, trace)
        grown = self._estimate(evaluation, score, labels)
        if evaluation.escalation is not None or self._corrected.shifts:
            self._corrected.count(evaluation, score, labels, labels[self._of_mean])
        self._telemetry.counter(metrics.UNSHOWN, *labels).inc(evaluation.unshown)
        key, time = (evaluation.monitor, evaluation.evaluator), evaluation.ended_at.timestamp()
        if time > self._newest.get(key, 0.0):
            self._newest[key] = time
            self._telemetry.gauge(metrics.LAST_SUCCESS, evaluation.evaluator, evaluation.monitor).set(time)
        watched = self._watched.get(key)
        if watched is not None and watched.labels:
            self._count_label(evaluation, watched, labels, grown)
        if watched is not None and watched.audit_version:
            self._count_audit(evaluation, score, watched.audit_version, labels, grown)
        if evaluation.passed is not None:
            verdict = "pass" if evaluation.passed else "fail"
            self._telemetry.counter(metrics.VERDICTS, *labels, verdict).inc(1, None if evaluation.passed else trace)
            self._telemetry.counter(metrics.VERDICT_WEIGHT, *labels, verdict).inc(grown.mean.w)

    def _estimate(self, evaluation: Evaluation, score: float, labels: tuple[str, ...]) -> BoundedIncrements:
        """Add a score to the sums of a series."""
        grown = _add_score(self._sums, labels[self._of_mean], evaluation, score)
        self._count_sums(metrics.ESTIMATOR_SUMS, labels, grown.mean)
        self._count_sums(metrics.EVIDENCE_SUMS, labels, grown.evidence)
        self._telemetry.counter(metrics.ESTIMATOR_CLIPPED, *labels).inc(grown.clipped)
        return grown

    def _count_label(
        self, evaluation: Evaluation, known: MonitoredEvaluator, labels: tuple[str, ...], grown: BoundedIncrements
    ) -> None:
        """Count the label of an evaluation, and add to the shares of the watched labels."""
        label = evaluation.label if evaluation.label in known.labels else OTHER  # OTHER: of an earlier definition
        self._telemetry.counter(metrics.LABELS, *labels, label).inc(1, _exemplar(evaluation))
        self._telemetry.counter(metrics.LABEL_WEIGHT, *labels, label).inc(grown.mean.w)
        for name, score in label_scores(evaluation, known.watched_labels):
            if score is None:
                continue
            self._telemetry.histogram(metrics.SCORE, name, *labels[1:]).observe(score)
            self._estimate(evaluation, score, (name, *labels[1:]))

    def _count_audit(
        self, evaluation: Evaluation, score: float, version: str, labels: tuple[str, ...], grown: BoundedIncrements
    ) -> None:
        """Add a score, with its audit (an expensive judge's score of the case) if it has one, to the audited sums."""
        audit = audit_by(evaluation, version)
        if (outcome := audit_outcome(evaluation)) is not None:
            self._telemetry.counter(metrics.AUDITS, evaluation.evaluator, evaluation.monitor, outcome).inc()
        conversation, time = evaluation.subject.conversation_id, evaluation.ended_at.timestamp()
        series = (audit_name(evaluation.evaluator), version, *labels[2:])
        mean = series[self._of_mean]
        sums = self._audits.add((*mean, conversation), weight=grown.mean.w, score=score, audit=audit, time=time)
        for name, amount in zip(SUM_NAMES, sums.values, strict=True):
            self._telemetry.counter(metrics.AUDITED_SUMS, *series, name).inc(amount)
        self._telemetry.counter(metrics.ESTIMATOR_CLIPPED, *series).inc(grown.clipped)
        if audit is not None:
            self._telemetry.histogram(metrics.SCORE, *series).observe(audit.score, _exemplar(evaluation))
            weight = audited_weight(evaluation.sampling, audit)
            evidence = _add_score(self._sums, mean, evaluation, audit.score, weight).evidence
            self._count_sums(metrics.EVIDENCE_SUMS, series, evidence)

    def _count_sums(self, counters: Sequence[metrics.Series], labels: Sequence[str], grown: Sums) -> None:
        for series, amount in zip(counters, grown.values, strict=True):
            self._telemetry.counter(series, *labels).inc(amount)

    def _count_work(self, evaluation: Evaluation) -> None:
        labels = (evaluation.evaluator, evaluation.monitor)
        duration = (evaluation.ended_at - evaluation.started_at).total_seconds()
        self._telemetry.histogram(metrics.EVALUATION_DURATION, *labels).observe(max(0.0, duration))
        count_judge_use(self._telemetry, labels, evaluation)

    def _count_model_changes(self, evaluator: str, monitor: str, judge: JudgeStamp) -> None:
        """Count each model or fingerprint of a judge that is new after the first one."""
        model = (judge.model, judge.fingerprint)
        known = self._models.setdefault((evaluator, monitor), set())
        if model not in known and len(known) < _MODELS:
            if known:
                self._telemetry.counter(metrics.JUDGE_MODEL_CHANGES, evaluator, monitor).inc()
            known.add(model)

    def _create_segment(self, segment: str) -> None:
        self._created.append(segment)
        self._telemetry.reserve("segment", segment)
        for evaluator in self._evaluators:
            _create_series(self._telemetry, evaluator, segment)
            self._corrected.create(evaluator, segment)


def count_judge_use(telemetry: Telemetry, work: tuple[str, str], made: Evaluation | Result) -> None:
    """Count what judges were asked, and what it cost; `work` is evaluator and monitor."""
    if usage := made.usage:
        telemetry.counter(metrics.JUDGE_CALLS, *work).inc(usage.calls)
        telemetry.counter(metrics.JUDGE_ESTIMATED_CALLS, *work).inc(usage.estimated_calls or 0)
        telemetry.counter(metrics.JUDGE_UNPRICED_CALLS, *work).inc(usage.calls if made.cost_usd is None else 0)
        telemetry.counter(metrics.JUDGE_TOKENS, *work, "input").inc(usage.input_tokens)
        telemetry.counter(metrics.JUDGE_TOKENS, *work, "output").inc(usage.output_tokens)
        for cache, tokens in (("read", usage.cached_input_tokens), ("write", usage.cache_write_tokens)):
            if tokens:
                telemetry.counter(metrics.JUDGE_CACHED_TOKENS, *work, cache).inc(tokens)
    if made.cost_usd:
        telemetry.counter(metrics.JUDGE_COST, *work).inc(made.cost_usd)


def create_judge_use(telemetry: Telemetry, work: tuple[str, str], *, priced: bool) -> None:
    """Create the series of `count_judge_use` at 0."""
    for direction in ("input", "output"):
        telemetry.counter(metrics.JUDGE_TOKENS, *work, direction)
    for cache in ("read", "write"):
        telemetry.counter(metrics.JUDGE_CACHED_TOKENS, *work, cache)
    calls = metrics.JUDGE_CALLS, metrics.JUDGE_ESTIMATED_CALLS, metrics.JUDGE_UNPRICED_CALLS
    for counter in (*calls, *((metrics.JUDGE_COST,) if priced else ())):
        telemetry.counter(counter, *work)


def _exemplar(evaluation: Evaluation) -> dict[str, str] | None:
    """The trace of an evaluation, as a Prometheus exemplar; None if it has no valid trace id."""
    trace = evaluation.subject.trace_id
    return {"trace_id": trace} if trace and len(trace) == 32 else None


def _reserve_labels(telemetry: Telemetry, watched: MonitoredEvaluator) -> None:
    telemetry.reserve("evaluator", watched.evaluator)
    telemetry.reserve("evaluator_version", watched.evaluator_version)
    telemetry.reserve("monitor", watched.monitor)
    telemetry.reserve("label", OTHER, *watched.labels)
    telemetry.reserve("evaluator", *(share_name(watched.evaluator, label) for label in watched.watched_labels))
    if watched.audit_version:
        telemetry.reserve("evaluator", audit_name(watched.evaluator))
        telemetry.reserve("evaluator_version", watched.audit_version)
        telemetry.reserve("sum", *SUM_NAMES)


def _descriptions(watched: MonitoredEvaluator) -> Iterator[tuple[str, ...]]:
    """The labels that say, for each series of scores, what is judged, and whether lower or higher is better."""

    def described(name: str, *, lower: bool, version: str = watched.evaluator_version) -> tuple[str, ...]:
        return name, version, watched.monitor, watched.scope, "lower" if lower else "higher"

    yield described(watched.evaluator, lower=watched.lower_is_better)
    for label, lower in watched.watched_labels.items():
        yield described(share_name(watched.evaluator, label), lower=lower)
    if watched.audit_version:
        name = audit_name(watched.evaluator)
        yield described(name, lower=watched.lower_is_better, version=watched.audit_version)


def _create_series(telemetry: Telemetry, watched: MonitoredEvaluator, segment: str) -> None:
    """Create the series of an evaluator at 0: Prometheus sees no increase in a series that begins at 1."""
    labels = (watched.evaluator, watched.evaluator_version, watched.monitor, segment)
    telemetry.counter(metrics.UNSHOWN, *labels)
    for name in (watched.evaluator, *(share_name(watched.evaluator, label) for label in watched.watched_labels)):
        telemetry.histogram(metrics.SCORE, name, *labels[1:])
        for counter in (*metrics.ESTIMATOR_SUMS, *metrics.EVIDENCE_SUMS, metrics.ESTIMATOR_CLIPPED):
            telemetry.counter(counter, name, *labels[1:])
    if watched.audit_version:
        series = (audit_name(watched.evaluator), watched.audit_version, *labels[2:])
        telemetry.histogram(metrics.SCORE, *series)
        for counter in (*metrics.EVIDENCE_SUMS, metrics.ESTIMATOR_CLIPPED):
            telemetry.counter(counter, *series)
        for name in SUM_NAMES:
            telemetry.counter(metrics.AUDITED_SUMS, *series, name)
        telemetry.counter(metrics.AUDITS, watched.evaluator, watched.monitor, "scored")
    for label in watched.labels:
        for counter in (metrics.LABELS, metrics.LABEL_WEIGHT):
            telemetry.counter(counter, *labels, label)
    telemetry.counter(metrics.EVALUATIONS, *labels, "scored", "")
    for reason in ("internal_error", *(JUDGE_ERRORS if watched.judged else ())):
        telemetry.counter(metrics.EVALUATIONS, *labels, "failed", reason)
    for reason in LOSSES:
        telemetry.counter(metrics.EVALUATIONS, *labels, "skipped", reason)
    telemetry.counter(metrics.EVALUATION_WEIGHT, *labels)
    for outcome in get_args(Status):
        telemetry.counter(metrics.EVALUATIONS_BACKFILLED, *labels[:3], outcome)
    work = (watched.evaluator, watched.monitor)
    telemetry.histogram(metrics.EVALUATION_DURATION, *work)
    telemetry.counter(metrics.JUDGE_MODEL_CHANGES, *work)
    for age in metrics.REPLACED_AGES:
        telemetry.counter(metrics.EVALUATIONS_REPLACED, *work, age)
    create_judge_use(telemetry, work, priced=watched.priced)
    if watched.threshold is not None:
        telemetry.gauge(metrics.TARGET_SCORE, *labels[:3]).set(watched.threshold)
    if watched.threshold is not None or watched.labels:  # labels may pass or fail without a threshold
        for verdict in ("pass", "fail"):
            telemetry.counter(metrics.VERDICTS, *labels, verdict)
            telemetry.counter(metrics.VERDICT_WEIGHT, *labels, verdict)
