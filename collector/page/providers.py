"""Providers of the page: what it shows of the plan and the telemetry."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from collector.evaluate.budget.controller import ALL_MONITORS, BudgetController, BudgetUsage
from collector.evaluate.budget.windows import DAY, HOUR, PERIODS
from collector.evaluate.outcomes import resumed_here
from collector.evaluate.plan import Plan
from collector.page.score_series import WEEK
from collector.page.sources import AlertView, BudgetView, DeferredView, DropView, Traffic, TrafficView
from collector.page.view import EvaluatorView, OutcomeCounts, View
from collector.statistics.agreement import ScoreScale
from collector.telemetry import series
from collector.telemetry.registry import Telemetry
from evaluators.evaluator import Evaluator

_WORDS = ("criteria", "evaluation_steps", "question", "guidelines", "prompt", "description")
"""Fields of a configuration that hold an evaluator's criteria."""
_LONGEST = 2000


def evaluator_views(
    plan: Plan, targets: Mapping[tuple[str, str], float], free: Collection[str] = ()
) -> Iterator[EvaluatorView]:
    """The subjects of the plan's monitors, with their targets by monitor and evaluator. `free` have a price of 0."""
    for monitor in plan.monitors:
        for assignment in monitor.assignments:
            scale = ScoreScale.of(assignment.evaluator)
            yield EvaluatorView(
                monitor=monitor.name, evaluator=assignment.evaluator.name, scope=assignment.evaluator.scope,
                threshold=scale.threshold, target=targets.get((monitor.name, assignment.evaluator.name)),
                lower_is_better=scale.lower_is_better, audit_version=assignment.audit_version,
                asks=criteria_of(assignment.evaluator), labels=scale.labels, by_label=scale.by_label,
                versions=(assignment.version, assignment.version_by(fallback=True)),
                free=assignment.evaluator.name in free,
            )  # fmt: skip


def criteria_of(evaluator: Evaluator[Any]) -> str:
    """The criterion of an evaluator, as people read it: the configuration's own words, else what its kind is about."""
    for name in _WORDS:
        value: object = getattr(evaluator, name, None)
        if isinstance(value, str) and value:
            return value[:_LONGEST]
        if isinstance(value, list | tuple) and value:
            return " ".join(map(str, cast("Sequence[object]", value)))[:_LONGEST]
    return (type(evaluator).__doc__ or "").strip().partition("\n")[0]


def logged_weights(view: View, now: float) -> dict[tuple[str, str], float]:
    """The weight of all live scores of the seven days before `now` (s), by monitor and evaluator."""
    return {
        key: sum(live.w for version in (newest, *view.earlier_series(key)) if (live := version.whole(WEEK, now).live))
        for key, newest in view.score_series.items()
    }


def judge_alerts(telemetry: Telemetry, name: str) -> Sequence[AlertView]:
    """An alert of this name for each judge whose breaker is open: unavailable, or it refuses every request."""
    waiting = {labels["judge"]: int(value) for labels, value in _samples(telemetry, series.JUDGE_PAUSED_REQUESTS)}
    unavailable = {
        labels["judge"]
        for labels, value in _samples(telemetry, series.BREAKER_STATE)
        if value and labels["state"] != "closed"
    }
    return [
        AlertView(
            name=name,
            summary=f"judge {judge} is unavailable or refuses every request: {waiting.get(judge, 0):,} requests of "
            "this process wait; the log says what to correct",
        )
        for judge in sorted(unavailable)
    ]


def budget_views(spendings: Iterable[BudgetUsage]) -> Sequence[BudgetView]:
    """Budgets as the page shows them."""
    return [
        BudgetView(
            monitor=None if usage.monitor == ALL_MONITORS else usage.monitor,
            period=PERIODS[usage.period],
            limit_usd=usage.limit_usd,
            spent_usd=usage.spent_usd,
        )
        for usage in spendings
    ]


def usages_of(
    own: BudgetController | None, plan: Plan, view: View, now: float, *, alone: bool
) -> Iterator[BudgetUsage]:
    """The usage of every budget. `own` is None where other processes evaluate the turns log.

    If this process evaluates it `alone`, partitions that it lacks are not read back yet.
    """
    if own is None or (not alone and 0 < own.owned_partitions < own.partitions):
        return usage_from_view(plan, view, now)
    known = own.owned_partitions == own.partitions
    return (usage if known else replace(usage, spent_usd=None) for usage in own.usages(now))


def usage_from_view(plan: Plan, view: View, now: float) -> Iterator[BudgetUsage]:
    """The same where the money is spent by other processes: from the evaluations that the page knows of."""
    limits = {monitor.name: monitor.budget for monitor in plan.monitors} | {ALL_MONITORS: plan.budget}
    for name, budget in limits.items():
        yield from (BudgetUsage(name, period, usd, _cost(view, name, period, now)) for period, usd in budget.windows())


_RANGES = {HOUR: "1h", DAY: "24h"}


def _cost(view: View, monitor: str, period: float, now: float) -> float:
    keys = [key for key in view.score_series if monitor in (ALL_MONITORS, key[0])]
    tracks = [track for key in keys for track in (view.score_series[key], *view.earlier_series(key))]
    columns = [column for track in tracks for _, column in track.columns(_RANGES[period], now) if column is not None]
    return sum(column.cost_usd - column.past_usd for column in columns)


def drop_views(telemetry: Telemetry) -> Sequence[DropView]:
    """The records that this process could not process since its start."""
    return [
        DropView(stage=labels["stage"], reason=labels["reason"], count=int(value))
        for labels, value in _samples(telemetry, series.DROPS)
        if value
    ]


def deferred_view(telemetry: Telemetry) -> DeferredView | None:
    """The evaluations that wait for batches in this process; None if no monitor's evaluations may."""
    states = {labels["state"]: int(value) for labels, value in _samples(telemetry, series.EVALUATIONS_DEFERRED)}
    if not states:
        return None
    return DeferredView(
        gathering=states["gathering"],
        submitted=states["submitted"],
        oldest=max((value for _, value in _samples(telemetry, series.DEFERRED_OLDEST)), default=0.0),
        batches=sum(int(value) for _, value in _samples(telemetry, series.BATCHES_OPEN)),
    )


_LOGGED = frozenset({"scored", "skipped", "failed", "reassigned"})
"""How evaluations end that leave a record, or may: the log may have taken it when the partition was taken away."""


_WHY_NO_RECORD = {name: name for name in ("resumed", "reassigned", "sampled_out")} | {"duplicate": "judged_already"}
"""Origins and ends of evaluations without a new record; after a kill, many are of turns judged before it."""


def traffic(telemetry: Telemetry, outcomes: Mapping[tuple[str, str], OutcomeCounts]) -> Traffic:
    """The turns that this process has counted, by monitor, and the evaluations that it has not made.

    Unknown if the log has more `outcomes` than this process can have made: others made some, and have counted turns.
    """
    counts: dict[str, dict[str, int]] = {}
    for labels, value in _samples(telemetry, series.TURNS):
        counts.setdefault(labels["monitor"], {})[labels["outcome"]] = int(value)
    for _, value in _samples(telemetry, series.UNMATCHED_TURNS):
        counts |= {"": {"unmatched": int(value)}} if value else {}
    evaluations: dict[str, dict[str, Counter[str]]] = {}
    possible: Counter[tuple[str, str]] = Counter()
    for metric, sign in ((series.EVALUATIONS_DUE, 1), (series.EVALUATIONS_ENDED, -1)):
        for labels, value in _samples(telemetry, metric):
            of = evaluations.setdefault(labels["monitor"], {}).setdefault(labels["evaluator"], Counter())
            of["waiting"] += sign * int(value)
            if value and (why := _WHY_NO_RECORD.get(labels.get("origin") or labels["outcome"])):
                of[why] += int(value)
            if labels.get("outcome") not in _LOGGED:
                possible[labels["monitor"], labels["evaluator"]] += sign * int(value)
    if any(ended.scored + ended.others.total() > possible[key] for key, ended in outcomes.items()):
        return Traffic(unknown="Another process has evaluated, too, since this one started.")
    for of in (each for by_evaluator in evaluations.values() for each in by_evaluator.values()):
        of["resumed"] -= resumed_here(of)
        del of["reassigned"]
    views = (TrafficView(monitor=name, counts=of, evaluations=evaluations.get(name, {})) for name, of in counts.items())
    return Traffic(tuple(views))


def _samples(telemetry: Telemetry, of: series.Series) -> Iterator[tuple[dict[str, str], float]]:
    for metric in telemetry.registry.restricted_registry([of.name]).collect():
        yield from ((sample.labels, sample.value) for sample in metric.samples if sample.name == of.name)
