"""The budget controller of a process: what its partitions have spent and reserved, and the rates that follow from it.

Each partition has an equal part of every budget, and its saved state moves with it to another process, so that the
parts of all replicas add up to the budget. A process pools the parts of its partitions. With `sample: auto`, rates are
also planned for an error; the lower rate counts.
"""
# Why not one shared counter: it would need a store and a round trip per evaluation, and a replica that is cut off from
# it would have to stop or overspend. Parts by partition need no communication at all.

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from collector.evaluate.budget.demand import EARLY, STEP, Demand, rate_factor
from collector.evaluate.budget.rates import FULL_RATES, RateReduction, Rates
from collector.evaluate.budget.windows import CATCH_UP, DAY, FIRST_SPAN, FIRST_STEP, Budget, BudgetWindow
from collector.evaluate.plan import Assignment, Job, Monitor, Plan
from collector.evaluate.planned_rates.rate_planner import PLANNED_STEP, RatePlanner
from evaluators.evaluation import Result
from evaluators.results import Evaluation

ALL_MONITORS = ""
"""The name of the budget of all monitors."""
_LEARNING_RATE = 0.05  # the weight of an evaluation's cost in the mean of its kind
_SHARE_RATE = 0.02  # the same in the share that a monitor pays for; small, since each value is 0 or 1


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """A budget, and what was spent of it in the last `period` seconds, in US dollars.

    `monitor` is "" for the budget of all monitors together. `spent_usd` is None where it is not known.
    """

    monitor: str
    period: float
    limit_usd: float
    spent_usd: float | None


class PartitionBudget:
    """The spending of one partition, and the demand of its traffic."""

    def __init__(self, budget: Mapping[str, Budget], share: float, now: float) -> None:
        self.windows = {
            name: [BudgetWindow(period, usd * share, now, brake=limit.brake) for period, usd in limit.windows()]
            for name, limit in budget.items()
        }
        self.demands = defaultdict[tuple[str, str], Demand](Demand)
        """The demand for evaluators, by monitor and evaluator."""
        self.decided_at = self._added_at = now
        self.is_saved = not budget
        """Whether the saved state has these budgets and no others, and reduces no other monitor; else rates are decided
        with the first record."""
        self.started = False
        """Whether a rate has been decided, here or by an earlier owner."""
        self._first: dict[tuple[str, str], tuple[float, Assignment]] = {}  # when a demand not estimated yet began
        self._read_at, self._read_since, self._read_until = now, math.inf, 0.0
        self._catch_up = CATCH_UP

    def add_demand(self, monitor: str, assignment: Assignment, units: float) -> None:
        """Add a subject of the record that was read last."""
        name = monitor, assignment.evaluator.name
        if units and self.demands[name].per_second is None:
            self._first.setdefault(name, (self._read_at, assignment))
        self.demands[name].add(units)

    def may_get(self, name: tuple[str, str], now: float) -> bool:
        """Whether traffic is to be expected that is not estimated yet: some came, or the partition is a minute old at
        most.
        """
        return self.demands[name].per_second is None and (name in self._first or now - self._added_at < STEP)

    def windows_of(self, monitor: str) -> Iterator[BudgetWindow]:
        """The budgets that a monitor's evaluations are paid from."""
        yield from self.windows.get(monitor, ())
        yield from self.windows.get(ALL_MONITORS, ())

    def to_json(self) -> dict[str, Any]:
        """The state as JSON."""
        return {
            "windows": {name: [window.to_json() for window in windows] for name, windows in self.windows.items()},
            "demands": [[*names, demand.per_second] for names, demand in self.demands.items() if self.windows],
        }

    def restore(self, saved: Mapping[str, Any], costs: Sequence[tuple[str, float, float]]) -> None:
        """Continue from the result of `to_json` and the costs since then. A budget that is not in it is new: it starts
        empty, whatever was spent before, and is saved with the next record.
        """
        before = {(name, window["period"]): window for name, windows in saved["windows"].items() for window in windows}
        now = {(name, window.period): window for name, windows in self.windows.items() for window in windows}
        for name, period in before.keys() & now.keys():
            window = now[name, period]
            window.restore(before[name, period])
            for monitor, usd, when in costs:
                if name in (ALL_MONITORS, monitor):
                    window.spend(usd, when)
        for monitor, evaluator, per_second in saved["demands"]:
            self.demands[monitor, evaluator].per_second = per_second
        self.is_saved, self.started = before.keys() == now.keys(), True

    def read(self, now: float, time: float) -> None:
        """Note that a record is read `now` which the log received at `time` (s)."""
        self._read_at, self._read_since, self._read_until = now, min(self._read_since, time), time

    def span(self, now: float) -> float:
        """Seconds since the last decision; in a backlog the seconds in which its records came, within limits.

        By the clock alone, the backlog of a stop of 20 seconds would look like a rush of three times the traffic.
        """
        elapsed = now - self.decided_at
        return elapsed + min(max(0.0, self._read_until - self._read_since - elapsed), self._catch_up)

    def has_jumped(self, now: float) -> bool:
        """Whether more of a monitor with a budget came since the last decision than chance explains."""
        span = self.span(now)
        return any(demand.has_jumped(span) and any(self.windows_of(name)) for (name, _), demand in self.demands.items())

    def end_step(self, now: float, expected_usd: Callable[[Assignment, bool], float]) -> Collection[tuple[str, str]]:
        """Estimate the traffic, since a rate is decided now. Returns whose demand was estimated for the first time."""
        span, first = self.span(now), self.first_due(now, expected_usd)
        for name, demand in self.demands.items():
            if name in first:
                demand.update(max(span - (self._first.pop(name)[0] - self.decided_at), FIRST_STEP))
            elif demand.per_second is not None:
                demand.update(span)
        behind = span - (now - self.decided_at)
        self._catch_up, self._read_since = CATCH_UP if behind < 1.0 else self._catch_up - behind, math.inf
        self.decided_at, self.is_saved, self.started = now, True, True
        return first

    def first_due(self, now: float, expected_usd: Callable[[Assignment, bool], float]) -> Collection[tuple[str, str]]:
        """Demands without an estimate that lasted long enough, or cost what a budget may pay until then."""
        usd = defaultdict[str, float](float)
        for name, (_, assignment) in self._first.items():
            for budget in self.windows.keys() & {name[0], ALL_MONITORS}:
                usd[budget] += self.demands[name].units * expected_usd(assignment, False)
        allowed = {budget: min(window.allowed_per_second for window in self.windows[budget]) for budget in usd}
        spent = {budget for budget in usd if usd[budget] >= FIRST_SPAN * allowed[budget]}
        return {key for key, (at, _) in self._first.items() if now - at >= FIRST_STEP or spent & {key[0], ALL_MONITORS}}


def _sum_spent(partitions: Iterable[PartitionBudget], name: str, index: int, now: float) -> float:
    return sum(each.windows[name][index].sum_spent(now) for each in partitions)


def _share_of_known(partitions: Collection[PartitionBudget], name: tuple[str, str], now: float) -> float:
    """The share of a demand that is estimated, at a first estimate: where traffic may come, as much is expected."""
    known = sum(budget.demands[name].per_second is not None for budget in partitions)
    return known / (known + sum(budget.may_get(name, now) for budget in partitions))


class BudgetController:
    """Decides the rates of a process. `partitions` is the number of the log's partitions, over all processes."""

    def __init__(self, plan: Plan, partitions: int) -> None:
        self._plan = plan
        self.partitions = partitions
        self.budgets = {monitor.name: monitor.budget for monitor in plan.monitors if monitor.budget.limited}
        """The budgets of all processes together, by monitor; "" is the budget of all monitors."""
        if plan.budget.limited:
            self.budgets[ALL_MONITORS] = plan.budget
        self._planner = RatePlanner(plan, partitions)
        self.limited = bool(self.budgets or self._planner.monitors)
        """Whether any monitor has a budget or `sample: auto`."""
        self._by_partition: dict[int, PartitionBudget] = {}
        self._costs: dict[tuple[str | float, ...], float] = {}
        self._paid_shares: dict[tuple[str | float, ...], float] = {}
        self._learnt = {"costs": self._costs, "paid_shares": self._paid_shares}
        self._reserved: dict[str, tuple[str, float]] = {}
        self._deferred: dict[str, tuple[str, float]] = {}
        self._deferred_usd: dict[str, float] = {}
        self._beside = defaultdict[str, float](float)  # until the first partition comes
        self._on_settled: list[Callable[[], None]] = []
        self._last = FULL_RATES

    def factor(self, name: str) -> float:
        """The lowest factor on the rates of a monitor, or of all for "", at the last decision; 1 before the first.

        Without partitions, as in the first moments of a process, it is not known.
        """
        factors = (share.factor for key, share in self._last.by_monitor.items() if name in (ALL_MONITORS, key))
        return min(factors, default=1.0 if self._by_partition else math.nan)

    def add_partition(
        self,
        partition: int,
        now: float,
        saved: Mapping[str, Any] | None,
        costs: Sequence[tuple[str, float, float]],
        rates: Rates | None = None,
    ) -> None:
        """Take over a partition with its saved budget and the costs since then: monitor, US dollars, time.

        It continues with `rates` until the next decision.
        """
        if rates is not None:
            self._last = Rates({name: share for name, share in rates.by_monitor.items() if self._funds(name)})
        partition_budget = PartitionBudget(self.budgets, 1.0 / self.partitions, now)
        if saved is not None:
            uses = [(monitor.name, use) for monitor in self._plan.monitors for use in monitor.assignments]
            known = {(monitor, use.evaluator.name) for monitor, use in uses}
            in_use = known.union(_kind(use, fallback=fallback) for _, use in uses for fallback in (False, True))
            # Of what was removed nothing, or the state would only grow.
            demands = [demand for demand in saved["demands"] if (*demand[:2],) in in_use]
            partition_budget.restore({**saved, "demands": demands}, costs)
            for key, learnt in self._learnt.items():
                before = {(*names,): value for *names, value in saved.get(key, ()) if (*names,) in in_use}
                learnt.update(before | learnt)
        if rates and not all(self._funds(name) or name in self._planner.monitors for name in rates.by_monitor):
            partition_budget.is_saved = False  # or a fold of the past would reduce what is not reduced any more
        self._planner.add_partition(partition, now, saved.get("planned", ()) if saved is not None else ())
        self._by_partition[partition] = partition_budget
        for monitor, usd in self._beside.items():
            self.spend_beside(monitor, usd, now)
        self._beside.clear()

    def saved(self, partition: int) -> Mapping[str, Any]:
        """The state of a partition's budget, to be saved."""
        plain = self._by_partition[partition].to_json()
        for key, learnt in self._learnt.items():
            plain |= {key: [[*names, value] for names, value in learnt.items()]} if learnt else {}
        return plain | {"planned": self._planner.saved(partition)} if self._planner.monitors else plain

    def remove_partition(self, partition: int) -> None:
        """Forget a partition that was revoked."""
        self._by_partition.pop(partition, None)
        self._planner.remove_partition(partition)

    def _funds(self, monitor: str) -> list[str]:
        """The budgets that a monitor's evaluations are paid from."""
        return [name for name in (monitor, ALL_MONITORS) if name in self.budgets]

    def add_demand(self, partition: int, monitor: Monitor, assignment: Assignment, units: float) -> None:
        """Add a subject that would be judged with probability `units` if there were no budget."""
        self._planner.arrived(partition, monitor, assignment, units)
        if assignment.asks_judge and self.budgets:  # also of a monitor without a budget, which may get one
            self._by_partition[partition].add_demand(monitor.name, assignment, units)

    def is_decision_due(self, partition: int, now: float, time: float | None = None) -> bool:
        """Whether a partition's rates are to be decided before a record that the log received at `time`."""
        own = self._by_partition[partition]
        if not self.limited:  # a budget that was removed is written down once
            return not own.is_saved
        own.read(now, now if time is None else time)
        if not own.is_saved or any(self._funds(monitor) for monitor, _ in own.first_due(now, self.expected_usd)):
            return True
        past = now - own.decided_at
        step = STEP if self.budgets else PLANNED_STEP if own.started else FIRST_STEP
        return past >= EARLY and (past >= step or self._fallback_is_due(now) or own.has_jumped(now))

    def _fallback_is_due(self, now: float) -> bool:
        """Whether so much is spent that a fallback judge should take over, but has not yet."""
        return any(
            not self._last.of(monitor.name).fallback
            and any(assignment.fallback is not None for assignment in monitor.assignments)
            and any(self.used_fraction(key, now) >= self.budgets[key].fallback_at for key in self._funds(monitor.name))
            for monitor in self._plan.monitors
        )

    def decide_rates(self, partition: int, now: float) -> tuple[Rates, Mapping[str, Any]]:
        """The rates of the next minutes, and the partition's budget, which is saved with them."""
        names, partitions = self._by_partition[partition].end_step(now, self.expected_usd), self._by_partition.values()
        first = {name: _share_of_known(partitions, name, now) for name in names}
        for window in (window for each in partitions for windows in each.windows.values() for window in windows):
            window.accrue(now)
        monitors = self._plan.monitors
        demands_usd = {(one.name, to): self._demand_usd(one, to, first) for one in monitors for to in (False, True)}
        self._last = Rates(
            {monitor.name: self._share(monitor, now, demands_usd) for monitor in monitors if self._funds(monitor.name)}
        )
        return self._with_planned(now), self.saved(partition)

    def _with_planned(self, now: float) -> Rates:
        """For each monitor, the lower one of the rate that budgets allow and the rate of `sample: auto`."""
        rates = dict(self._last.by_monitor)
        for name in self._planner.monitors:
            reduction = self._last.of(name)
            rates[name] = RateReduction(min(reduction.factor, self._planner.rate(name, now)), reduction.fallback)
        return Rates(rates)

    def learn(self, partition: int, job: Job, evaluation: Evaluation) -> None:
        """Learn from an evaluation: the scores' spread for `sample: auto`, and which monitor pays for shared
        verdicts.
        """
        self._planner.learn(partition, job, evaluation)
        if job.assignment.sharers and evaluation.outcome != "skipped":
            key = job.monitor.name, job.assignment.evaluator.name
            paid = float(evaluation.shares is None)
            self._paid_shares[key] = (1 - _SHARE_RATE) * self._paid_shares.get(key, 1.0) + _SHARE_RATE * paid

    def _share(self, monitor: Monitor, now: float, demands_usd: Mapping[tuple[str, bool], float]) -> RateReduction:
        factor, fallback = 1.0, False
        for name in self._funds(monitor.name):
            budget, monitors = self.budgets[name], self._plan.monitors if name == ALL_MONITORS else (monitor,)
            fallback = fallback or self.used_fraction(name, now) >= budget.fallback_at
            demand_usd = sum(demands_usd[each.name, fallback] for each in monitors)
            for index in range(len(list(budget.windows()))):
                allowed = sum(each.windows[name][index].allowed_per_second for each in self._by_partition.values())
                factor = min(factor, rate_factor(allowed, demand_usd))
        return RateReduction(factor, fallback)

    def _demand_usd(self, monitor: Monitor, fallback: bool, first: Mapping[tuple[str, str], float]) -> float:
        """US dollars per second that judging without a budget would cost.

        If monitors share verdicts, one of them pays for all. Each counts the share that it has paid for lately.
        """
        return sum(
            sum(each.demands[name].per_second or 0.0 for each in self._by_partition.values())
            / first.get(name, 1.0)
            * self.expected_usd(assignment, fallback)
            * self._paid_shares.get(name, 1.0)
            for assignment in monitor.assignments
            if assignment.asks_judge
            for name in [(monitor.name, assignment.evaluator.name)]
        )

    def expected_usd(self, assignment: Assignment, fallback: bool) -> float:
        """The US dollars that an evaluation is expected to cost."""
        return self._costs.get(_kind(assignment, fallback=fallback), assignment.expected_usd)

    def used_fraction(self, name: str, now: float, *, with_reserved: bool = True) -> float:
        """The largest fraction of a hard cap that is spent or reserved; 0 without partitions, of which each has a part.

        Deferred evaluations count in the budget of a day only, also without `with_reserved`: they free nothing soon.
        """
        budget = self.budgets[name]
        deferred = sum(usd for monitor, usd in self._deferred_usd.items() if name in (ALL_MONITORS, monitor))
        amounts = self._reserved.values() if with_reserved else ()
        reserved = sum(usd for monitor, usd in amounts if name in (ALL_MONITORS, monitor))
        used = 0.0
        for index, (period, usd) in enumerate(budget.windows() if self._by_partition else ()):
            cap = budget.hard_cap * usd * len(self._by_partition) / self.partitions
            spent = _sum_spent(self._by_partition.values(), name, index, now) + (deferred if period >= DAY else 0.0)
            used = max(used, (spent + reserved) / cap) if cap else 1.0
        return used

    @property
    def owned_partitions(self) -> int:
        """The number of partitions whose part of the budgets this process has."""
        return len(self._by_partition)

    def usages(self, now: float) -> Iterator[BudgetUsage]:
        """The usage of every budget, if this process has all partitions."""
        for name, budget in self.budgets.items():
            for index, (period, usd) in enumerate(budget.windows()):
                yield BudgetUsage(name, period, usd, _sum_spent(self._by_partition.values(), name, index, now))

    def reserve(self, job: Job, now: float) -> bool:
        """Reserve the expected cost of an evaluation; False if a hard cap is reached: it must not be made."""
        monitor = job.monitor.name
        if not job.assignment.asks_judge or not self._funds(monitor):
            return True
        if self.is_used_up(monitor, now):
            return False
        self._reserved[job.evaluation_id] = (monitor, self.expected_usd(job.assignment, job.fallback))
        return True

    def is_used_up(self, monitor: str, now: float) -> bool:
        """Whether a hard cap that a monitor pays from is reached, or this process has no part of it."""
        return any(not self._by_partition or self.used_fraction(name, now) >= 1.0 for name in self._funds(monitor))

    def spend_beside(self, monitor: str, usd: float, now: float) -> None:
        """Add a cost that is not for an evaluation of the traffic; all partitions share it, or the first that comes."""
        if not self._by_partition:
            self._beside[monitor] += usd
        for partition_budget in self._by_partition.values():
            for window in partition_budget.windows_of(monitor):
                window.spend(usd / len(self._by_partition), now)

    def defer(self, job: Job) -> None:
        """Reserve the expected cost of an evaluation for hours, instead of for now."""
        monitor = job.monitor.name
        self._reserved.pop(job.evaluation_id, None)
        if job.assignment.asks_judge and self._funds(monitor) and job.evaluation_id not in self._deferred:
            usd = self.expected_usd(job.assignment, job.fallback)
            self._deferred[job.evaluation_id] = (monitor, usd)
            self._deferred_usd[monitor] = self._deferred_usd.get(monitor, 0.0) + usd
        self._call_back()

    def release_deferred(self, job: Job) -> None:
        """Free the reservation of a deferred evaluation that has ended, or goes to another process."""
        if entry := self._deferred.pop(job.evaluation_id, None):
            self._deferred_usd[entry[0]] -= entry[1]
        if not self._deferred:
            self._deferred_usd.clear()  # so that no rounding adds up

    def is_below_cap(self, job: Job, now: float) -> bool:
        """Whether less than each hard cap is spent: then only reservations can keep a job from being paid, and they may
        cost less in the end.
        """
        return all(self.used_fraction(key, now, with_reserved=False) < 1.0 for key in self._funds(job.monitor.name))

    def reaches_own(self, monitor: str, now: float) -> bool:
        """Whether the hard cap of the monitor's own budget is spent, and not only that of all monitors."""
        return monitor in self.budgets and self.used_fraction(monitor, now, with_reserved=False) >= 1.0

    def on_settled(self, callback: Callable[[], None]) -> None:
        """Call back once, when the next reservation ends."""
        self._on_settled.append(callback)

    def settle(self, job: Job, partition: int, usd: float | None, now: float) -> None:
        """Replace the reservation of an evaluation that has ended by its cost `usd`; None if it was not made."""
        self._reserved.pop(job.evaluation_id, None)
        self._spend(job, partition, usd, now)
        self._call_back()

    def _call_back(self) -> None:
        callbacks, self._on_settled = self._on_settled, []
        for callback in callbacks:
            callback()

    def _spend(self, job: Job, partition: int, usd: float | None, now: float) -> None:
        if not usd:  # an evaluation without an answer says nothing about the price
            return
        kind = _kind(job.assignment, fallback=job.fallback)
        self._costs[kind] = (1 - _LEARNING_RATE) * self._costs.get(kind, usd) + _LEARNING_RATE * usd
        partition_budget = self._by_partition.get(partition)
        for window in partition_budget.windows_of(job.monitor.name) if partition_budget else ():
            window.spend(usd, now)


def charge_of(made: Result | Evaluation, assignment: Assignment) -> float | None:
    """The US dollars charged for an evaluation: its cost, the expected one if no price is known; None if not made."""
    if made.cost_usd is None and made.usage is not None and made.usage.calls:
        return assignment.expected_usd
    return made.cost_usd


def _kind(use: Assignment, *, fallback: bool) -> tuple[str | float, ...]:
    """The properties that evaluations of about the same cost share. A new list price makes a new kind."""
    return use.evaluator.name, use.judge_of(fallback=fallback).model, use.deferred, use.expected_usd


@dataclass(frozen=True, slots=True)
class BudgetReservation:
    """The expected cost of a job, reserved in the budgets of its monitor and of all monitors.

    `clock` gives seconds since the epoch. A reservation lives in memory: money that is reserved at a crash is free
    again, and what an evaluation cost is read back from its record.
    """

    budget: BudgetController
    job: Job
    partition: int
    clock: Callable[[], float]

    def reserve(self) -> bool:
        """Reserve the expected cost; False if a hard cap is reached and the call must not be made."""
        return self.budget.reserve(self.job, self.clock())

    def is_below_cap(self) -> bool:
        """Whether only other reservations can prevent it; it may be granted when they are settled."""
        return self.budget.is_below_cap(self.job, self.clock())

    def settle(self, usd: float | None) -> None:
        """Replace the reservation by the real cost; None if the call was not made."""
        self.budget.settle(self.job, self.partition, usd, self.clock())

    def for_canary(self) -> "BudgetReservation":
        """The reservation of the job's canary run, which costs as much again.

        A canary run leaves no record. So a crash forgets what canary runs have cost since the budget was last saved,
        at most a minute before.
        """
        return replace(self, job=replace(self.job, evaluation_id=f"canary of {self.job.evaluation_id}"))


@dataclass(frozen=True, slots=True)
class FixedReservation:
    """A reservation that is always granted, as without a budget, or never."""

    granted: bool

    def reserve(self) -> bool:
        """Grant or refuse."""
        return self.granted

    def is_below_cap(self) -> bool:
        """False: it knows no budget."""
        return False

    def settle(self, usd: float | None) -> None:
        """Nothing was reserved."""

    def release(self) -> None:
        """Nothing was reserved."""

    def for_canary(self) -> "FixedReservation":
        """The same reservation."""
        return self


UNLIMITED = FixedReservation(granted=True)
"""The reservation of an evaluation that no budget limits."""


class DeferredReservation:
    """The reservation of an evaluation that waits for hours. It is granted once, however often the evaluation runs.

    `granted` says that this process or another one granted it before. Call `release` at the end.
    """

    def __init__(self, reservation: BudgetReservation, *, granted: bool) -> None:
        self._reservation = reservation
        self._granted = granted
        if granted:
            reservation.budget.defer(reservation.job)

    def reserve(self) -> bool:
        """Reserve the expected cost; False if a hard cap is reached."""
        if not self._granted and self._reservation.reserve():
            self._granted = True
            self._reservation.budget.defer(self._reservation.job)
        return self._granted

    def is_below_cap(self) -> bool:
        """See `BudgetReservation`."""
        return self._reservation.is_below_cap()

    def settle(self, usd: float | None) -> None:
        """Replace the reservation by the real cost; None if the evaluation has not ended."""
        if usd is not None:
            self._reservation.settle(usd)

    def for_canary(self) -> FixedReservation:
        """A reservation that is never granted: a canary run would wait for hours, and no record of it would remain."""
        return FixedReservation(granted=False)

    def release(self) -> None:
        """Free what is reserved."""
        self._reservation.budget.release_deferred(self._reservation.job)


Reservation: TypeAlias = BudgetReservation | DeferredReservation | FixedReservation
"""The amount that an evaluation may cost, reserved before it is made."""
