"""Prometheus metrics that never raise: a figure that comes from outside may be absurd, and counting ends no stage.

A value that a metric cannot take is left out and reported: no number, not finite, negative for a counter, or so large
that units are not counted any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram

MOST = 2.0**53
"""The largest single amount: beyond it a double does not tell neighbouring whole numbers apart."""

_ABSURD = (TypeError, ValueError, OverflowError)


class TolerantCounter(Counter):
    """A counter that leaves out absurd amounts."""

    on_absurd: Callable[[], object] = list

    def inc(self, amount: float = 1, exemplar: dict[str, str] | None = None) -> None:
        """Count an amount."""
        try:
            if 0.0 <= amount <= MOST:
                return super().inc(amount, exemplar)
        except _ABSURD:
            pass
        self.on_absurd()
        return None


class TolerantGauge(Gauge):
    """A gauge that leaves out what is no number; a function that fails gives NaN, and the scrape continues."""

    on_absurd: Callable[[], object] = list

    def set(self, value: float) -> None:
        """Set the value; infinity is one."""
        try:
            super().set(value)
        except _ABSURD:
            self.on_absurd()

    def set_function(self, f: Callable[[], float]) -> None:
        """Call `f` at each scrape."""

        def value() -> float:
            try:
                return float(f())
            except Exception:  # noqa: BLE001 - of any part of the service; /metrics serves all the others
                self.on_absurd()
                return math.nan

        super().set_function(value)


class TolerantHistogram(Histogram):
    """A histogram that leaves out what its sum would not survive."""

    on_absurd: Callable[[], object] = list

    def observe(self, amount: float, exemplar: dict[str, str] | None = None) -> None:
        """Observe a value."""
        try:
            if -MOST <= amount <= MOST:
                return super().observe(amount, exemplar)
        except _ABSURD:
            pass
        self.on_absurd()
        return None
