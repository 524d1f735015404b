"""The plan and the rates that count for the next record of a partition, and what they draw. No clock, no I/O."""

from collections import deque
from collections.abc import Iterable, Sequence

from collector.evaluate.budget.rates import UNPLANNED, UNREDUCED, RateReduction, Rates
from collector.evaluate.plan import Assignment, Monitor, Plan
from collector.evaluate.sampling.draw import draw


class PlanInForce:
    """The plan and the rates in force.

    `former` are the plans that were in force for earlier records, each up to an offset; `past` are those that were in
    force before the first record. `rates` are what budgets and plans leave.
    """

    def __init__(self, newest: Plan, former: Iterable[tuple[int, Plan]], past: Iterable[Plan], rates: Rates) -> None:
        self.plan = Plan(())
        self.past = list(past)
        """The plans that were in force before."""
        self.turn_demands: Sequence[tuple[Monitor, Assignment, float]] = ()
        """The evaluators of turns that a turn asks if its key alone decides, each with its unreduced probability."""
        self._newest = newest
        self._former = deque(former)
        self.rates = rates
        self._reducible: set[str] = set()
        self._planned: set[str] = set()
        self._chances: Sequence[tuple[str, float]] | None = None

    def advance(self, offset: int) -> bool:
        """Apply the plan that counts at an offset; whether it is another one than before."""
        while self._former and self._former[0][0] <= offset:
            self._former.popleft()
        plan = self._former[0][1] if self._former else self._newest
        if plan is self.plan:
            return False
        if self.plan.monitors:
            self.past.append(self.plan)
        self.plan = plan
        self._planned = {monitor.name for monitor in plan.monitors if monitor.standard_error is not None}
        limited = {monitor.name for monitor in plan.monitors if monitor.budget.limited or plan.budget.limited}
        self._reducible = limited | self._planned
        self.turn_demands = [
            (monitor, assignment, monitor.probability(assignment, 1.0, 1.0))
            for monitor in plan.monitors
            for assignment in monitor.of_scope("turn")
        ]
        self._chances = self._chances_by_salt()
        return True

    def set_rates(self, rates: Rates) -> None:
        """From the next record on these rates count."""
        self.rates = rates
        self._chances = self._chances_by_salt()

    def reduction(self, monitor: str) -> RateReduction:
        """The reduction of a monitor's rates; none if neither a budget nor a plan sets them any more."""
        if monitor in self._planned and monitor not in self.rates.by_monitor:
            return UNPLANNED
        return self.rates.of(monitor) if monitor in self._reducible else UNREDUCED

    def uses_fallback(self, monitor: str) -> bool:
        """Whether a monitor's fallback judges are in use."""
        return self.reduction(monitor).fallback

    def _chances_by_salt(self) -> Sequence[tuple[str, float]] | None:
        """The highest chance of each salt's draws. None if the chance depends on what turns contain."""
        if any(monitor.reads_content for monitor in self.plan.monitors):
            return None
        chances: dict[str, float] = {}
        for monitor in self.plan.monitors:
            factor = self.reduction(monitor.name).factor
            for assignment in monitor.assignments:
                salt = self.plan.salt_of(assignment)
                chances[salt] = max(chances.get(salt, 0.0), monitor.probability(assignment, factor, 1.0))
        return list(chances.items())

    def sampled_out(self, record_key: bytes | None) -> str | None:
        """The conversation's key, if it alone shows that no evaluator of any monitor selects it; else None."""
        # Before the record is parsed: at low rates this is most of the traffic, and it costs one hash instead.
        if self._chances is None or record_key is None:
            return None
        key = record_key.decode(errors="replace")
        for salt, chance in self._chances:
            if draw(salt, key) < chance:
                return None
        return key
