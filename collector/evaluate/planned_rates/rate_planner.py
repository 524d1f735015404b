"""The rates of monitors with `sample: auto`: the lowest that give a day's mean its standard error, by past traffic.

A rate that depended on the turns it is applied to would choose among them. This rate is set before the turns come, so
it is a known probability for each of them, and weights of 1 / probability give unbiased means.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from collector.evaluate.budget.demand import round_to_digits
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.planned_rates.learned_figures import LearnedFigures, day_of, least_rate
from collector.records.audits import audit_by
from evaluators.judges.audited import Audited
from evaluators.results import Evaluation

LOWEST = 0.002
"""The lowest rate: few heavy scores would make the mean of a part of the traffic worthless."""

PLANNED_STEP = 300.0
"""Seconds for which a rate holds."""

Saved = Sequence[Sequence[Any]]
"""A monitor's name, an evaluator's, and its figures as JSON."""


class RatePlanner:
    """Learns from the evaluations of monitors with `sample: auto`. `partitions` counts the log's, over all processes.

    A process knows its own partitions, and assumes that the others are like them.
    """

    def __init__(self, plan: Plan, partitions: int) -> None:
        self._partitions = partitions
        self._monitors = {monitor.name: monitor for monitor in plan.monitors if monitor.standard_error is not None}
        self._by_partition: dict[int, dict[tuple[str, str], LearnedFigures]] = {}

    @property
    def monitors(self) -> Iterable[str]:
        """The names of the monitors with `sample: auto`."""
        return self._monitors.keys()

    def add_partition(self, partition: int, now: float, saved: Saved = ()) -> None:
        """Take over a partition with its saved figures. Evaluators with another definition or other strata begin
        again, audits of another auditor.
        """
        former = {(monitor, evaluator): plain for monitor, evaluator, plain in saved}
        known: dict[tuple[str, str], LearnedFigures] = {}
        for name, monitor in self._monitors.items():
            for assignment in _planned(monitor):
                key, strata = (name, assignment.evaluator.name), monitor.strata.by_name
                figures = LearnedFigures(assignment.version, list(strata), now, assignment.audit_version)
                if key in former:
                    restored = LearnedFigures.from_json(former[key], figures.auditor)
                    if (restored.version, restored.strata) == (figures.version, figures.strata):
                        figures = restored
                known[key] = figures
        self._by_partition[partition] = known

    def remove_partition(self, partition: int) -> None:
        """Forget a partition that was revoked."""
        self._by_partition.pop(partition, None)

    def saved(self, partition: int) -> Saved:
        """The state of a partition to save."""
        return [[*key, figures.to_json()] for key, figures in self._by_partition[partition].items()]

    def arrived(self, partition: int, monitor: Monitor, assignment: Assignment, subjects: float) -> None:
        """Add an evaluator's arrived subjects, judged or not."""
        figures = self._by_partition[partition].get((monitor.name, assignment.evaluator.name))
        if figures is not None:
            figures.arrivals += subjects

    def learn(self, partition: int, job: Job, evaluation: Evaluation) -> None:
        """Learn from an evaluation, unless it is of the past, by another definition, or by a fallback judge."""
        figures = self._by_partition.get(partition, {}).get((evaluation.monitor, evaluation.evaluator))
        if figures is None or evaluation.score is None or job.happened_at is not None or job.retry is not None:
            return
        if evaluation.evaluator_version == figures.version:
            time, conversation = evaluation.ended_at.timestamp(), evaluation.subject.conversation_id
            figures.learn(
                conversation, evaluation.sampling, evaluation.score, audit_by(evaluation, figures.auditor), time
            )

    def rate(self, monitor: str, now: float) -> float:
        """The rate of a monitor from now on, in [`LOWEST`, 1], at which the mean of each evaluator has its error."""
        of = self._monitors[monitor]
        assert of.standard_error is not None
        boosts = tuple(of.strata.by_name.values())
        rates = [self._least(of, assignment, boosts, of.standard_error, now) for assignment in _planned(of)]
        return round_to_digits(max(LOWEST, max(rates, default=1.0)), 3)

    def _least(
        self, monitor: Monitor, assignment: Assignment, boosts: Sequence[float], error: float, now: float
    ) -> float:
        parts: list[LearnedFigures] = []
        for of in self._by_partition.values():
            figures = of[monitor.name, assignment.evaluator.name]
            figures.fade(now)
            parts.append(figures)
        share = assignment.judge.share if isinstance(assignment.judge, Audited) else None
        day = day_of(parts, share, self._partitions / max(1, len(parts)))
        if day is None:
            return 1.0  # nothing came
        rate = least_rate(day, boosts, error, 1.0 if share is None else share, lowest=LOWEST)
        return 1.0 if rate is None else rate


def _planned(monitor: Monitor) -> Iterator[Assignment]:
    """The evaluators that share the monitor's rate."""
    yield from (assignment for assignment in monitor.assignments if assignment.rate is None)


def divided(saved: Sequence[Saved], partitions: int) -> Saved:
    """An equal part of saved figures for each of `partitions`."""
    parts: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for state in saved:
        for monitor, evaluator, plain in state:
            parts.setdefault((monitor, evaluator), []).append(plain)
    return [[*key, _divided(part, partitions)] for key, part in parts.items()]


def _divided(parts: Sequence[Mapping[str, Any]], partitions: int) -> Mapping[str, Any]:
    """Counts and sums add up; `seconds` does not."""
    newest = max(parts, key=lambda part: part["time"])
    alike = [part for part in parts if all(part[name] == newest[name] for name in ("version", "strata"))]
    result = dict(newest)
    for name in ("scored", "arrivals"):
        result[name] = sum(part[name] for part in alike) / partitions
    result["seconds"] = max(part["seconds"] for part in alike)
    result["sums"] = {
        name: [sum(values) / partitions for values in zip(*(part["sums"][name] for part in alike), strict=True)]
        for name in newest["sums"]
    }
    audited = [part["pairs"] for part in alike if part.get("auditor") == newest.get("auditor")]
    result["pairs"] = {name: sum(pairs[name] for pairs in audited) / partitions for name in newest["pairs"]}
    return result
