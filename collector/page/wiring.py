"""From the plan and the telemetry to what the page needs of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry

from collector.evaluate.plan import Plan
from collector.page.sources import DeadLetters, Sources, Traffic
from collector.page.view import Watched
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
