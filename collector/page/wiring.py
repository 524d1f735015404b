"""From the plan and the telemetry to what the page needs of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry

from collector.evaluate.budget import DAY, HOUR, PERIODS
from collector.evaluate.plan import Plan
from collector.evaluate.purse import ALL, Spending
from collector.page.sources import Budget, DeadLetters, Sources, Traffic
from collector.page.tracks import total
from collector.page.view import View, Watched
from collector.telemetry import DROPS, TURNS, Telemetry


def watched_by(plan: Plan) -> Iterator[Watched]:
    """What the plan's monitors look at."""
    for monitor in plan.monitors:
        for each in monitor.assignments:
            yield Watched(
                monitor=monitor.name,
                evaluator=each.evaluator.name,
                scope=each.evaluator.scope,
                threshold=each.evaluator.threshold,
                lower_is_better=each.evaluator.direction == "lower_is_better",
            )


def sources_of(telemetry: Telemetry) -> Sources:
    """What this process counts that the page shows."""
    return Sources(traffic=lambda: traffic_of(telemetry), dead_letters=lambda: drops_of(telemetry))


def budgets_of(spendings: Iterable[Spending]) -> Sequence[Budget]:
    """Budgets as the page shows them."""
    return [
        Budget(
            monitor=None if each.monitor == ALL else each.monitor,
            period=PERIODS[each.period],
            limit_usd=each.limit_usd,
            spent_usd=each.spent_usd,
        )
        for each in spendings
    ]


def spendings_seen(plan: Plan, view: View, now: float) -> Iterator[Spending]:
    """The same where the money is spent by other processes: from the evaluations that the page knows of."""
    limits = {each.name: each.limits for each in plan.monitors} | {ALL: plan.limits}
    for name, each in limits.items():
        for period, usd in each.windows():
            yield Spending(name, period, usd, _cost(view, name, period, now))


_RANGES = {HOUR: "1h", DAY: "24h"}


def _cost(view: View, monitor: str, period: float, now: float) -> float:
    tracks = [track for (name, _), track in view.tracks.items() if monitor in (ALL, name)]
    return sum(total(track.columns(_RANGES[period], now)).cost_usd for track in tracks)


def drops_of(telemetry: Telemetry) -> Sequence[DeadLetters]:
    """What this process could not process since its start."""
    return [
        DeadLetters(stage=labels["stage"], reason=labels["reason"], count=int(value))
        for labels, value in _samples(telemetry.registry, DROPS.name)
        if value
    ]


def traffic_of(telemetry: Telemetry) -> Sequence[Traffic]:
    """What this process has counted of the turns, by monitor."""
    counts: dict[str, dict[str, int]] = {}
    for labels, value in _samples(telemetry.registry, TURNS.name):
        counts.setdefault(labels["monitor"], {})[labels["outcome"]] = int(value)
    return [Traffic(monitor=monitor, counts=each) for monitor, each in counts.items()]


def _samples(registry: CollectorRegistry, name: str) -> Iterator[tuple[dict[str, str], float]]:
    for metric in registry.restricted_registry([name]).collect():
        for sample in metric.samples:
            if sample.name == name:
                yield sample.labels, sample.value
