"""A million names in the traffic make a bounded number of series."""

from __future__ import annotations

from collector.telemetry.registry import Telemetry
from collector.telemetry.series import EVALUATIONS, LABEL_OVERFLOW, OTHER


def test_a_million_distinct_values_end_in_other():
    telemetry = Telemetry(label_values=200)
    telemetry.reserve("monitor", "mine")
    for number in range(1_000_000):
        telemetry._capped("monitor", f"m{number}")

    assert telemetry._capped("monitor", "mine") == "mine"
    assert telemetry._capped("monitor", "m999999") == OTHER
    assert telemetry.counter(LABEL_OVERFLOW, "monitor")._value.get() >= 999_000
    for number in range(1000):
        telemetry.counter(EVALUATIONS, "e", "v", f"x{number}", "all", "scored", "").inc()
    series = next(each for each in telemetry.registry.collect() if each.name == "evalstream_evaluations").samples
    assert len({each.labels["monitor"] for each in series}) <= 202
