"""The money of this process: what its partitions have spent, what is on its way, and the rates that follow from it.

Each partition holds its equal share of every budget and carries its account along when another process takes it over,
so that the shares of all replicas add up to the budget. A process pools what its partitions have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collector.evaluate.budget import EARLY, FIRST_FACTOR, FIRST_STEP, STEP, Demand, Limits, Window, factor_of
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.rates import FULL, Rates, Share

ALL = ""
"""The name under which the budget of all monitors is kept."""
_LEARNT = 0.05  # weight of an evaluation's cost in the mean of its kind


@dataclass(frozen=True, slots=True)
class Spending:
    """The share of a budget that this process has, in US dollars, and what of it is spent in the last `period` seconds.

    `monitor` is "" for the budget of all.
    """

    monitor: str
    period: float
    limit_usd: float
    spent_usd: float


class Account:
    """What one partition has spent, and what comes to it."""

    def __init__(self, limits: Mapping[str, Limits], share: float, now: float) -> None:
        self.windows = {
            name: [Window(period, usd * share, now, brake=each.brake) for period, usd in each.windows()]
            for name, each in limits.items()
        }
        self.demands: dict[tuple[str, str], Demand] = {}
        self.stepped = now
        self.started = False

    def demand(self, monitor: str, evaluator: str) -> Demand:
        """The demand for an evaluator of a monitor."""
        return self.demands.setdefault((monitor, evaluator), Demand())

    def of(self, monitor: str) -> Iterator[Window]:
        """The budgets that a monitor's evaluations are paid from."""
        yield from self.windows.get(monitor, ())
        yield from self.windows.get(ALL, ())

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "windows": {name: [each.plain() for each in windows] for name, windows in self.windows.items()},
            "demands": [[*names, each.per_second] for names, each in self.demands.items()],
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Go on from what `plain` gave; budgets that are new begin anew."""
        for name, kept in plain["windows"].items():
            by_period = {each["period"]: each for each in kept}
            for window in self.windows.get(name, ()):
                if window.period in by_period:
                    window.restore(by_period[window.period])
        for monitor, evaluator, per_second in plain["demands"]:
            self.demand(monitor, evaluator).per_second = per_second
        self.started = True


class Purse:
    """Decides the rates of a process. `partitions` is how many the log has, in all processes."""

    def __init__(self, plan: Plan, partitions: int) -> None:
        self._plan = plan
        self._partitions = partitions
        self._limits = {each.name: each.limits for each in plan.monitors if each.limits.limited}
        if plan.limits.limited:
            self._limits[ALL] = plan.limits
        self._accounts: dict[int, Account] = {}
        self._costs: dict[tuple[str, str], float] = {}
        self._reserved: dict[str, tuple[str, float]] = {}
        self._last = FULL

    @property
    def limits(self) -> Mapping[str, Limits]:
        """The budgets of all processes together, by monitor; that of all monitors under ""."""
        return self._limits

    def factor(self, name: str) -> float:
        """The least that was left of a monitor's rates, or of any's, at the last decision; 0 before."""
        return min(
            (share.factor for monitor, share in self._last.by_monitor.items() if name in (ALL, monitor)), default=0.0
        )

    @property
    def limited(self) -> bool:
        """Whether there is any budget."""
        return bool(self._limits)

    def open(
        self, partition: int, now: float, kept: Mapping[str, Any] | None, since: Iterable[tuple[str, float, float]]
    ) -> None:
        """Take over a partition with the account its last owner wrote, and what was spent since: monitor, USD, when."""
        account = Account(self._limits, 1.0 / self._partitions, now)
        if kept is not None:
            account.restore(kept)
        for monitor, usd, when in since:
            for window in account.of(monitor):
                window.spend(usd, when)
        self._accounts[partition] = account

    def close(self, partition: int) -> None:
        """Give a partition up."""
        self._accounts.pop(partition, None)

    def first(self) -> Rates:
        """The rates before anything is known."""
        names = [each.name for each in self._plan.monitors if self._limited(each.name)]
        return Rates({name: Share(FIRST_FACTOR) for name in names}) if names else FULL

    def _limited(self, monitor: str) -> bool:
        return monitor in self._limits or ALL in self._limits

    def demand(self, partition: int, monitor: Monitor, assignment: Assignment, units: float) -> None:
        """Something came that would be judged with probability `units`, were there no budget."""
        if assignment.evaluator.needs_judge and self._limited(monitor.name):
            self._accounts[partition].demand(monitor.name, assignment.evaluator.name).add(units)

    def due(self, partition: int, now: float) -> bool:
        """Whether it is time to decide on a partition's rates."""
        account = self._accounts[partition]
        passed = now - account.stepped
        if not self.limited or passed < EARLY:
            return False
        if passed >= (STEP if account.started else FIRST_STEP):
            return True
        return account.started and any(each.jumped(passed) for each in account.demands.values())

    def decide(self, partition: int, now: float) -> tuple[Rates, Mapping[str, Any]]:
        """The rates of the next minute, and the partition's account to be written with them."""
        account = self._accounts[partition]
        for each in account.demands.values():
            each.step(now - account.stepped)
        account.stepped, account.started = now, True
        for each in self._accounts.values():
            for windows in each.windows.values():
                for window in windows:
                    window.accrue(now)
        shares = {each.name: self._share(each, now) for each in self._plan.monitors if self._limited(each.name)}
        self._last = Rates(shares)
        return self._last, account.plain()

    def _share(self, monitor: Monitor, now: float) -> Share:
        factor, fallback = 1.0, False
        for name, monitors in ((monitor.name, (monitor,)), (ALL, self._plan.monitors)):
            limits = self._limits.get(name)
            if limits is None:
                continue
            fallback = fallback or self.used(name, now) >= limits.fallback_at
            for index in range(len(list(limits.windows()))):
                allowed = sum(account.windows[name][index].allowed for account in self._accounts.values())
                factor = min(factor, factor_of(allowed, sum(self._demand_usd(each, fallback) for each in monitors)))
        return Share(factor, fallback)

    def _demand_usd(self, monitor: Monitor, fallback: bool) -> float:
        """US dollars per second that judging without a budget would cost."""
        return sum(
            (account.demand(monitor.name, each.evaluator.name).per_second or 0.0) * self.expected(each, fallback)
            for each in monitor.assignments
            if each.evaluator.needs_judge
            for account in self._accounts.values()
        )

    def expected(self, assignment: Assignment, fallback: bool) -> float:
        """US dollars that an evaluation will probably cost."""
        model = assignment.judge_of(fallback=fallback).model
        return self._costs.get((assignment.evaluator.name, model), assignment.expected_usd)

    def used(self, name: str, now: float) -> float:
        """The largest share of a hard cap that is spent or on its way."""
        limits = self._limits[name]
        reserved = sum(usd for monitor, usd in self._reserved.values() if name in (ALL, monitor))
        used = 0.0
        for index, (_, usd) in enumerate(limits.windows()):
            cap = limits.hard_cap * usd * len(self._accounts) / self._partitions
            spent = sum(account.windows[name][index].spent(now) for account in self._accounts.values())
            used = max(used, (spent + reserved) / cap) if cap else 1.0
        return used

    def spendings(self, now: float) -> Iterator[Spending]:
        """Every budget and what is spent of it."""
        owned = len(self._accounts) / self._partitions
        for name, limits in self._limits.items():
            for index, (period, usd) in enumerate(limits.windows()):
                spent = sum(account.windows[name][index].spent(now) for account in self._accounts.values())
                yield Spending(name, period, usd * owned, spent)

    def reserve(self, job: Job, now: float) -> bool:
        """Set aside what an evaluation will cost; False if a hard cap is reached: it is not to be made."""
        monitor = job.monitor.name
        if not job.assignment.evaluator.needs_judge or not self._limited(monitor):
            return True
        if any(self.used(name, now) >= 1.0 for name in (monitor, ALL) if name in self._limits):
            return False
        self._reserved[job.evaluation_id] = (monitor, self.expected(job.assignment, job.fallback))
        return True

    def settle(self, job: Job, partition: int, usd: float | None, now: float) -> None:
        """An evaluation is made, or given up; `usd` is what it cost."""
        self._reserved.pop(job.evaluation_id, None)
        if usd is None:
            return
        kind = (job.assignment.evaluator.name, job.judge.model)
        known = self._costs.get(kind)
        self._costs[kind] = usd if known is None else (1 - _LEARNT) * known + _LEARNT * usd
        account = self._accounts.get(partition)
        for window in account.of(job.monitor.name) if account else ():
            window.spend(usd, now)
