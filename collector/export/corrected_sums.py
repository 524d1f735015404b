"""The sums from which the corrected mean of a cascade is computed, and how often its second judge was asked.

Evaluations of a cascade have corrected values z (`evaluators.results.Escalation.corrected`) whose mean is that of its
second judge. They lie in [-c, 1 + c] with c = 1 / share - 1, for a drawn one is x + (y - x) / share. Counters must not
fall, so the sums are of z + c:

    mean = WZ / W - c,    error = sqrt(W2Z2 - 2 m W2Z + m² W2) / W    with m = WZ / W

where W and W2 are the sums of `collector.statistics.bounded_sums`; the error is that of z, as adding c shifts
all. Weights are bounded as those of the scores are, by sums that saw the same conversations.

Shares of labels as scores: 1 where an evaluation has the label, else 0, so that a share is a mean like any other.

So means, standard errors and the drop detector serve for shares as they are, with the same bound on false alarms: it
holds for any scores in [0, 1]. The share of a label is a series of its own, named after evaluator and label.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from collector.export.exporter import MonitoredEvaluator
from collector.statistics.bounded_sums import BoundedSums, Weight
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import CORRECTED_SHIFT, CORRECTED_SUMS, ESCALATIONS
from evaluators.results import Escalation, EscalationReason, Evaluation


def share_name(evaluator: str, label: str) -> str:
    """The name of a label's share, where evaluators are named: `outcome=escalated`."""
    return f"{evaluator}={label}"


def label_scores(evaluation: Evaluation, labels: Iterable[str]) -> Iterator[tuple[str, float | None]]:
    """The name of each label's share, and the score that an evaluation adds to it; None if it has no score."""
    for label in labels:
        share = None if evaluation.score is None else float(evaluation.label == label)
        yield share_name(evaluation.evaluator, label), share


class CorrectedSums:
    """Feeds the corrected sums of evaluators that a cascade judges with a share of its own."""

    def __init__(self, telemetry: Telemetry, sums: BoundedSums) -> None:
        self._telemetry = telemetry
        self._sums = sums
        self._shifts: dict[tuple[str, str, str], float] = {}

    def create(self, watched: MonitoredEvaluator, segment: str) -> None:
        """Make the series of an evaluator, at 0, if a cascade judges it."""
        if watched.cascade_share is None:
            return
        for reason in get_args(EscalationReason):
            self._telemetry.counter(ESCALATIONS, watched.evaluator, watched.monitor, reason)
        if not watched.cascade_share:
            return
        labels = (watched.evaluator, watched.evaluator_version, watched.monitor)
        self._shifts[labels] = shift = 1.0 / watched.cascade_share - 1.0
        self._telemetry.gauge(CORRECTED_SHIFT, *labels).set(shift)
        for series in CORRECTED_SUMS:
            self._telemetry.counter(series, *labels, segment)

    def count(self, evaluation: Evaluation, score: float, labels: Sequence[str]) -> None:
        """Count a score; `labels` are those of its series, with the segment."""
        escalation = evaluation.escalation
        if escalation is not None:
            self._telemetry.counter(ESCALATIONS, labels[0], labels[2], escalation.reason).inc()
        evaluator, version, monitor, _ = labels
        shift = self._shifts.get((evaluator, version, monitor))
        if shift is None:
            return
        grown = self._sums.add(
            ("corrected", *labels),
            evaluation.subject.conversation_id,
            weight=Weight.of(evaluation.sampling),
            score=_corrected(escalation, score) + shift,
            time=evaluation.ended_at.timestamp(),
        ).mean
        for series, growth in zip(CORRECTED_SUMS, (grown.wy, grown.w2y, grown.w2y2), strict=True):
            self._telemetry.counter(series, *labels).inc(growth)


def _corrected(escalation: Escalation | None, score: float) -> float:
    """The corrected value; the score itself where no judge was asked."""
    corrected = None if escalation is None else escalation.corrected(score)
    return score if corrected is None else corrected
