"""Outcomes of evaluations: each is counted once when it becomes due, and once when it ends.

In one process, at any time and for each monitor and evaluator,

    matched + resumed + retried + backfilled =
        scored + skipped + failed + sampled_out + duplicate + superseded + reassigned + removed + in flight

An evaluation is `matched` when a turn comes or a conversation closes, `retried` when a failed or skipped one is to be
made again, and `backfilled` when another past subject is to be judged. `scored`, `skipped` and `failed` leave a record,
which has the reason; the other outcomes leave none. An evaluation is `reassigned` if it was in flight when its
partition went to another process, or when this process took a changed configuration. The partition's next owner, or
this process by its new configuration, counts it as `resumed`, and it ends there; so do evaluations that were in flight
in a process that died. It is a `duplicate` if an evaluation of the same subject exists
or is in flight. It is `removed` if the configuration no longer has its evaluator.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, get_args

from collector.evaluate.plan import Job, Plan
from collector.statistics.bounded_sums import Weight
from collector.telemetry import series
from collector.telemetry.registry import Telemetry
from evaluators.results import SkipReason

Due = Literal["matched", "resumed", "retried", "backfilled"]
End = Literal["scored", "skipped", "failed", "sampled_out", "duplicate", "superseded", "reassigned", "removed"]
ReferenceOutcome = Literal["received", "duplicate", "joined"]
TurnOutcome = Literal["sampled", "sampled_out", "unmatched", "duplicate"]


_DUE = get_args(Due)


def resumed_here(numbers: Mapping[str, float]) -> int:
    """How many of an evaluator's evaluations, by origin and outcome, a process resumed that it had itself counted as
    matched: whoever adds up evaluations takes this off both `resumed` and `reassigned`, so that each counts once.
    """
    return int(min(numbers.get("resumed", 0), numbers.get("reassigned", 0)))


class OutcomeCounter:
    """Counts nothing, as during a replay; `PrometheusOutcomes` counts into the metrics of a process."""

    _telemetry: Telemetry | None = None

    def _count(self, metric: series.Series, *labels: str, number: int = 1) -> None:
        if self._telemetry is not None:
            self._telemetry.counter(metric, *labels).inc(number)

    def count_turn(self, monitor: str, outcome: TurnOutcome, number: int = 1) -> None:
        """Count what a monitor did with `number` turns; "" for no monitor."""
        if outcome == "unmatched":
            self._count(series.UNMATCHED_TURNS, number=number)
        else:
            self._count(series.TURNS, monitor, outcome, number=number)

    def count_evaluation(
        self, monitor: str, evaluator: str, outcome: Due | End, reason: str = "", number: int = 1
    ) -> None:
        """Count evaluations that became due, or ended."""
        if outcome in _DUE:
            self._count(series.EVALUATIONS_DUE, monitor, evaluator, outcome, number=number)
        else:
            self._count(series.EVALUATIONS_ENDED, monitor, evaluator, outcome, reason, number=number)

    def count_due(self, monitor: str, evaluator: str, end: End | None = None, number: int = 1) -> None:
        """Count evaluations that a turn or a conversation makes due, and their `end` if they end at once."""
        self.count_evaluation(monitor, evaluator, "matched", number=number)
        if end is not None:
            self.count_evaluation(monitor, evaluator, end, number=number)

    def count_started(self, monitor: str, evaluator: str) -> None:
        """Count an evaluation that was started."""
        self._count(series.EVALUATIONS_STARTED, monitor, evaluator)

    def count_waiting_weight(self, job: Job) -> Callable[[], None]:
        """Count the weight of a job that begins to wait; call the result when it ends. A past subject has none."""
        if self._telemetry is None or job.retry is not None or job.happened_at is not None:
            return lambda: None
        weight = Weight.of(job.sampling).own
        gauge = self._telemetry.gauge(series.WAITING_WEIGHT, job.monitor.name, job.assignment.evaluator.name)
        gauge.inc(weight)
        return partial(gauge.dec, weight)

    def count_reference(self, outcome: ReferenceOutcome) -> None:
        """Count a reference when it comes, comes again, or completes the first evaluation that waits for it."""
        self._count(series.REFERENCES, outcome)

    def count_missing(self, monitor: str, evaluator: str) -> None:
        """Count an evaluation whose reference did not come in time."""
        self._count(series.REFERENCES_MISSING, monitor, evaluator)

    def count_ignored_upstream(self, monitor: str) -> None:
        """Count a turn whose trace state names an earlier sampling rate that is not believed."""
        self._count(series.UPSTREAM_IGNORED, monitor)

    def count_idle(self, monitor: str, number: int) -> None:
        """Count conversations that became idle, judged or not."""
        self._count(series.CONVERSATIONS, monitor, number=number)

    def count_closed(self, monitor: str, by: str, missing: int) -> None:
        """Count a window that closed, by its cause (`by`), and the user's messages that it lacks (`missing`)."""
        self._count(series.CONVERSATIONS_CLOSED, monitor, by)
        if missing:
            self._count(series.INCOMPLETE_CONVERSATIONS, monitor)


class OutcomeSums(OutcomeCounter):
    """Counts into `numbers`, by the metric's name and its labels."""

    def __init__(self) -> None:
        self.numbers = Counter[tuple[str, ...]]()

    def _count(self, metric: series.Series, *labels: str, number: int = 1) -> None:
        self.numbers[metric.name, *labels] += number


class PrometheusOutcomes(OutcomeCounter):
    """Counts into the metrics of this process. The plan's names are reserved, and their series start at 0."""

    def __init__(self, telemetry: Telemetry, plan: Plan) -> None:
        self._telemetry = telemetry
        for monitor in plan.monitors:
            telemetry.reserve("monitor", monitor.name)
            for assignment in monitor.assignments:
                telemetry.reserve("evaluator", assignment.evaluator.name)
        for monitor in plan.monitors:
            for outcome in ("sampled", "sampled_out"):
                telemetry.counter(series.TURNS, monitor.name, outcome)
            for assignment in monitor.assignments:  # a series that stays 0 shows that nothing matched
                names = monitor.name, assignment.evaluator.name
                telemetry.counter(series.EVALUATIONS_STARTED, *names)
                for origin in _DUE:  # no increase is seen in a series that begins with its first value
                    telemetry.counter(series.EVALUATIONS_DUE, *names, origin)
                telemetry.counter(series.EVALUATIONS_ENDED, *names, "scored", "")
                if monitor.budget.limited or plan.budget.limited:
                    telemetry.counter(series.EVALUATIONS_ENDED, *names, "skipped", SkipReason.OVER_BUDGET)
                if monitor.reference_wait is not None:
                    telemetry.counter(series.REFERENCES_MISSING, *names)
            if monitor.of_scope("conversation"):
                telemetry.counter(series.CONVERSATIONS, monitor.name)
        if any(monitor.reference_wait is not None for monitor in plan.monitors):
            for outcome in get_args(ReferenceOutcome):
                telemetry.counter(series.REFERENCES, outcome)
