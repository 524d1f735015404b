"""The tally as Prometheus metrics."""

from __future__ import annotations

from collector.evaluate.plan import Plan
from collector.evaluate.tally import Due, End, TurnOutcome
from collector.telemetry import BEGUN, CONVERSATIONS, CONVERSATIONS_CLOSED, GAPS, LEDGER, TURNS, Telemetry


class Counted:
    """Counts into the metrics of this process. The names of the plan have their place, and their series at 0."""

    def __init__(self, telemetry: Telemetry, plan: Plan) -> None:
        self._telemetry = telemetry
        for monitor in plan.monitors:
            telemetry.reserve("monitor", monitor.name)
            for each in monitor.assignments:
                telemetry.reserve("evaluator", each.evaluator.name)
        for monitor in plan.monitors:
            for outcome in ("sampled", "sampled_out"):  # at 0: Prometheus does not see the first one otherwise
                telemetry.counter(TURNS, monitor.name, outcome)
            for each in monitor.assignments:  # one that never runs shows that nothing matched
                telemetry.counter(BEGUN, monitor.name, each.evaluator.name)
                telemetry.counter(LEDGER, monitor.name, each.evaluator.name, "matched", "")
                telemetry.counter(LEDGER, monitor.name, each.evaluator.name, "scored", "")
                if monitor.limits.limited or plan.limits.limited:
                    telemetry.counter(LEDGER, monitor.name, each.evaluator.name, "over_budget", "")
            if monitor.of_scope("conversation"):
                telemetry.counter(CONVERSATIONS, monitor.name)

    def turn(self, monitor: str, outcome: TurnOutcome) -> None:
        """See `Tally`."""
        self._telemetry.counter(TURNS, monitor, outcome).inc()

    def evaluation(self, monitor: str, evaluator: str, what: Due | End, reason: str = "", number: int = 1) -> None:
        """See `Tally`."""
        self._telemetry.counter(LEDGER, monitor, evaluator, what, reason).inc(number)

    def begun(self, monitor: str, evaluator: str) -> None:
        """See `Tally`."""
        self._telemetry.counter(BEGUN, monitor, evaluator).inc()

    def silent(self, monitor: str, number: int) -> None:
        """See `Tally`."""
        self._telemetry.counter(CONVERSATIONS, monitor).inc(number)

    def closed(self, monitor: str, by: str, gaps: int) -> None:
        """See `Tally`."""
        self._telemetry.counter(CONVERSATIONS_CLOSED, monitor, by).inc()
        if gaps:
            self._telemetry.counter(GAPS, monitor).inc()
