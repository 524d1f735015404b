"""The metrics of one process: its Prometheus registry, with a cap on label values.

A figure that comes from outside may be absurd, but must end no stage: a value that a metric cannot take (no
number, not finite, negative for a counter, or so large that units are not counted any more) is left out and reported.
"""

import logging
import math
from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from collector.telemetry.logging import SparseLog
from collector.telemetry.series import ABSURD_VALUES, DROPS, LABEL_OVERFLOW, OTHER, Series, all_series

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


logger = logging.getLogger(__name__)

_Metric = TolerantCounter | TolerantGauge | TolerantHistogram


class Telemetry:
    """The series of one process, on a registry of their own.

    `label_values` is how many values a label may take over all series; those passed to `reserve` are never cut off.
    """

    def __init__(self, *, label_values: int = 200) -> None:
        disable_created_metrics()  # a switch of the library, not of a registry: it saves a series per child
        self.registry = CollectorRegistry(auto_describe=True)
        self._cap = label_values
        self._values: dict[str, set[str]] = {}
        self._absurd = SparseLog(logger)
        self._children: dict[tuple[str, ...], _Metric] = {}
        self._parents = {series.name: self._declare(series) for series in all_series()}

    def counter(self, series: Series, *labels: str) -> Counter:
        """The counter of these label values, in the order the series declares them."""
        child = self._children.get((series.name, *labels)) or self._child(series, labels)
        # Not Counter: for a base class, isinstance asks the library's metaclass, which is slow.
        assert isinstance(child, TolerantCounter), series.name
        return child

    def gauge(self, of: Series, *labels: str) -> Gauge:
        """The gauge of these label values."""
        child = self._children.get((of.name, *labels)) or self._child(of, labels)
        assert isinstance(child, TolerantGauge), of.name
        return child

    def histogram(self, of: Series, *labels: str) -> Histogram:
        """The histogram of these label values."""
        child = self._children.get((of.name, *labels)) or self._child(of, labels)
        assert isinstance(child, TolerantHistogram), of.name
        return child

    def replace(self, of: Series, values: Mapping[tuple[str, ...], float]) -> None:
        """Give a gauge these values by labels, and none but them; who calls it bounds their number."""
        parent = self._parents[of.name]
        assert isinstance(parent, Gauge), of.name
        parent.clear()
        self._children = {key: child for key, child in self._children.items() if key[0] != of.name}
        for labels, value in values.items():
            parent.labels(*labels).set(value)

    def remove(self, of: Series, *labels: str) -> bool:
        """Remove the series of these label values, if there is one, and say so: its statement is no longer true.

        One without labels stays, and is reset.
        """
        if self._children.pop((of.name, *labels), None) is None:
            return False
        if labels:
            self._parents[of.name].remove(*labels)
        else:
            self.registry.unregister(self._parents[of.name])
            self._parents[of.name] = self._declare(of)
        return True

    def drop(self, stage: str, reason: str, count: float = 1) -> None:
        """Count a loss."""
        self.counter(DROPS, stage, reason).inc(count)

    def reserve(self, label: str, *values: str) -> None:
        """Reserve values of the configuration before any traffic can use up the cap."""
        self._values.setdefault(label, set()).update(values)

    def _declare(self, of: Series) -> _Metric:
        text = of.help + " The first reading may be 0: read again." * of.awaits_reading
        if of.kind == "histogram":
            return TolerantHistogram(of.name, text, of.labels, buckets=of.buckets, registry=self.registry)
        kind = TolerantCounter if of.kind == "counter" else TolerantGauge
        return kind(of.name, text, of.labels, registry=self.registry)

    def _report_absurd(self, metric: str) -> None:
        self._absurd.warn(f"{metric}: a value that no such metric can have is left out")
        self.counter(ABSURD_VALUES, metric).inc()

    def _child(self, of: Series, labels: tuple[str, ...]) -> _Metric:
        """A child that is new, or has label values beyond the cap."""
        capped = labels
        if of is not LABEL_OVERFLOW:
            capped = tuple(self._capped(label, value) for label, value in zip(of.labels, labels, strict=True))
        parent = self._parents[of.name]
        child = parent.labels(*capped) if capped else parent
        child.on_absurd = partial(self._report_absurd, of.name)
        if capped == labels:  # else this cache would grow with every value that the traffic invents
            self._children[of.name, *labels] = child
        return child

    def _capped(self, label: str, value: str) -> str:
        known = self._values.setdefault(label, set())
        if value in known:
            return value
        if len(known) < self._cap:
            known.add(value)
            return value
        self.counter(LABEL_OVERFLOW, label).inc()
        return OTHER
