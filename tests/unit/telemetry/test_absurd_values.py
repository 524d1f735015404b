"""Counters, gauges and histograms take every absurd value without raising, and stay what they were."""

from __future__ import annotations

import math
from typing import Any

import pytest
from prometheus_client.openmetrics.exposition import generate_latest

from collector.telemetry.health import Health
from collector.telemetry.registry import Telemetry
from collector.telemetry.series import ABSURD_VALUES, Series, all_series

NO_NUMBERS: list[Any] = [math.nan, None, "many", [], 1j, -math.inf]
ABSURD_AMOUNTS: list[Any] = [*NO_NUMBERS, -1, -1e-9, math.inf, 10**400, -(10**400), 1e300]
LONG_EXEMPLAR = {"trace_id": "x" * 500}


def _by_kind(kind: str) -> list[Series]:
    return [series for series in all_series() if series.kind == kind and series is not ABSURD_VALUES]


@pytest.mark.parametrize("series", _by_kind("counter"), ids=lambda series: series.name)
def test_every_counter_leaves_out_absurd_amounts(series: Series) -> None:
    telemetry = Telemetry()
    counter = telemetry.counter(series, *("x" for _ in series.labels))
    counter.inc(3)
    for amount in ABSURD_AMOUNTS:
        counter.inc(amount)
    counter.inc(2, LONG_EXEMPLAR)
    assert telemetry.registry.get_sample_value(series.name, dict.fromkeys(series.labels, "x")) == 5
    metric = {"metric": series.name}
    assert telemetry.registry.get_sample_value(ABSURD_VALUES.name, metric) == len(ABSURD_AMOUNTS) + 1


@pytest.mark.parametrize("series", _by_kind("histogram"), ids=lambda series: series.name)
def test_every_histogram_leaves_out_what_its_sum_would_not_survive(series: Series) -> None:
    telemetry = Telemetry()
    histogram = telemetry.histogram(series, *("x" for _ in series.labels))
    histogram.observe(0.5)
    for amount in [*NO_NUMBERS, math.inf, 10**400, -(10**400), 1e300]:
        histogram.observe(amount, LONG_EXEMPLAR)
    histogram.observe(0.25, LONG_EXEMPLAR)
    labels = dict.fromkeys(series.labels, "x")
    assert telemetry.registry.get_sample_value(f"{series.name}_sum", labels) == 0.75
    assert telemetry.registry.get_sample_value(f"{series.name}_count", labels) == 2


@pytest.mark.parametrize("series", _by_kind("gauge"), ids=lambda series: series.name)
def test_every_gauge_and_its_scrape_survive(series: Series) -> None:
    telemetry = Telemetry()
    gauge = telemetry.gauge(series, *("x" for _ in series.labels))
    gauge.set(7)
    for value in (None, "many", [], 1j, 10**400):
        gauge.set(value)  # pyright: ignore[reportArgumentType]
    labels = dict.fromkeys(series.labels, "x")
    assert telemetry.registry.get_sample_value(series.name, labels) == 7
    gauge.set_function(lambda: {}["retention.ms"])
    assert math.isnan(telemetry.registry.get_sample_value(series.name, labels) or 0)
    assert b"# EOF" in generate_latest(telemetry.registry)


def test_a_health_check_that_cannot_be_made_is_degraded_and_nothing_more() -> None:
    telemetry = Telemetry()
    health = Health(telemetry)
    health.start()
    health.add("log", lambda: {}["x"], vital=True)
    results = health.results
    assert results["log"].status == "degraded"
    assert "KeyError" in results["log"].detail
    assert health.takes_work(results)
    assert health.problems(results) == ["log: cannot be checked: KeyError('x')"]
    assert telemetry.registry.get_sample_value("evalstream_health_check_ok", {"check": "log"}) == 0
