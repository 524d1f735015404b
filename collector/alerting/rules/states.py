"""States in recording rules: a series that refers to its own last value.

A state is written in every interval in which some process is scraped. Its last value is looked for within an hour, so
that it outlives a restart of the only process, and one of Prometheus. Why `last_over_time` and not the series itself:
an interval without a value ends a series for Prometheus (it is stale), and with it the state would be gone.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from collector.alerting.rules import series
from collector.alerting.rules.model import RecordingRule, Timing, selector
from collector.statistics.drop_detector import NOTHING

MEMORY = 3600.0
"""Seconds for which the last value of a state counts."""


@dataclass(frozen=True, slots=True)
class States:
    """The states of one target's detector, as PromQL. Every vector here has the labels `by` alone."""

    monitor: str
    evaluator: str
    by: tuple[str, ...]
    timing: Timing

    @property
    def where(self) -> dict[str, str]:
        """The labels of the target."""
        return {"evaluator": self.evaluator, "monitor": self.monitor}

    @property
    def memory(self) -> str:
        """How far back a state is looked for."""
        return self.timing.text(MEMORY)

    def rule(self, record: str, expr: str, labels: Mapping[str, str] | None = None) -> RecordingRule:
        """A rule that writes a series of the target."""
        return RecordingRule(record, expr, self.where | dict(labels or {}))

    def now(self, name: str) -> str:
        """The value that an earlier rule of the same interval has written."""
        return f"{name}{selector(**self.where)}"

    def recent(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """The newest value within the memory, with all its labels."""
        return f"last_over_time({name}{selector(**self.where, **(labels or {}))}[{self.memory}])"

    def last(self, name: str, labels: Mapping[str, str] | None = None) -> str:
        """The newest value within the memory: that of the interval before, until this one's is written."""
        return f"sum by ({', '.join(self.by)}) ({self.recent(name, labels)})"

    def deltas(self) -> tuple[str, str, str, str, str]:
        """The growth of the five sums: w, wy, w2, w2y and w2y2."""
        w, wy, w2, w2y, w2y2 = (self.now(series.EVIDENCE_DELTAS[key]) for key in series.SUMS)
        return w, wy, w2, w2y, w2y2

    @property
    def scraped(self) -> str:
        """Something for every series that has counters in this interval and the one before."""
        return self.now(series.EVIDENCE_DELTAS["w"])

    @property
    def in_incident(self) -> str:
        """Whether the alert fires since an earlier interval."""
        return f"({self.now(series.DROP_INCIDENT)} > 0)"

    @property
    def starts_over(self) -> str:
        """Whether the evidence starts over in this interval."""
        return f"({self.now(series.DROP_STARTS_OVER)} > 0)"

    def only_with_scrapes(self, expr: str, otherwise: float) -> str:
        """The expression, or a number where it has no value yet; nothing for series without counters."""
        return f"(({expr}) and {self.scraped}) or {self.number(otherwise)}"

    def number(self, value: float) -> str:
        """A number for every series that has counters."""
        return f"{self.scraped} * 0 + {value:g}"

    def before_or(self, name: str, start: float) -> str:
        """The last value of a state, or its start where it has none."""
        return f"({self.last(name)} or {self.number(start)})"

    def before(self, name: str, start: float, labels: Mapping[str, str] | None = None) -> str:
        """The last value of a state, or its start where it starts over."""
        return f"({self.last(name, labels)} unless {self.starts_over} or {self.number(start)})"

    def advance(self, name: str, labels: Mapping[str, str], gain: str, ceiling: float) -> str:
        """The logarithm of a bet's state after this interval, with those before it that had no scores."""
        before = self.before(name, NOTHING, labels)
        return f"clamp(ln(exp({before}) + {self.now(series.DROP_INTERVALS)}) + {gain}, {NOTHING:g}, {ceiling:.4f})"

    def evidence(self, name: str) -> str:
        """The logarithm of the mean of all bets' states."""
        return f"ln(avg by ({', '.join(self.by)}) (exp({self.now(name)})))"
