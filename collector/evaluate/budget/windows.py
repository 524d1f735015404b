"""Budgets that do not bias means: the sampling rate of the next minute follows from the past alone.

A rate that depended on the items it is applied to would choose among them. A rate that is set before the items come is
each item's known probability, so weights of 1 / probability give unbiased means. The rate is what the budget allows,
divided by what judging all of the recent traffic would have cost:

    factor = (limit / period + credit / horizon) / demand

`credit` is the amount that was allowed and not spent, below 0 if more was spent; it is repaid over the horizon. Near
the hard cap less is allowed: what the last period leaves. The hard cap itself is the emergency brake: evaluations that
it refuses are counted, and do bias means. A rate holds for a minute, or until more traffic has come than chance
explains. No clock and no I/O: callers give the time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

HOUR, DAY = 3600.0, 86400.0
PERIODS = {HOUR: "hour", DAY: "day"}
"""The names of budgets' periods."""
FIRST_STEP, FIRST_SPAN = 10.0, 60.0
"""While the traffic is unknown, everything is judged: for `FIRST_STEP` seconds after the first decision, or until the
cost reaches what may be spent in `FIRST_SPAN` seconds."""
CATCH_UP = 600.0
"""The most seconds of a backlog whose turns count as traffic of their own time; the money saved meanwhile pays them. A
longer backlog counts as a jump, so that reading days of it does not reach the hard cap."""
_HORIZON = {HOUR: HOUR, DAY: 6 * HOUR}
_DEBT_SPAN = 0.5  # of the horizon: overspending is repaid sooner than savings are spent
_BRAKE_SPAN = 1 / 12  # of the period: in this time at the earliest what is left below the brake may be spent
_MIN_PACE = 0.25  # of the even pace: what is allowed at least, so that weights stay within bounds
_MAX_CREDIT = 0.5  # of the limit: the most that quiet times save for busy ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Budgets in US dollars. `hard_cap` and `fallback_at` are factors, the second of the hard cap."""

    usd_per_hour: float | None = None
    usd_per_day: float | None = None
    hard_cap: float = 1.2
    fallback_at: float = 0.9

    def windows(self) -> Iterator[tuple[float, float]]:
        """The budgets: seconds, and US dollars within them."""
        if self.usd_per_hour is not None:
            yield HOUR, self.usd_per_hour
        if self.usd_per_day is not None:
            yield DAY, self.usd_per_day

    @property
    def brake(self) -> float:
        """The share of a budget from which on less is allowed: half-way to the hard cap, an eighth more at most."""
        return min(1.125, (1.0 + self.hard_cap) / 2.0)

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.usd_per_hour is not None or self.usd_per_day is not None


class BudgetWindow:
    """The spending of one budget: its credit, and the sum over the last `period` seconds.

    The sum has 60 parts, and may include up to one part more than the period. From `brake` times the limit on only a
    crawl is allowed.
    """

    def __init__(self, period: float, limit: float, now: float, *, brake: float) -> None:
        self.period = period
        self.limit = limit
        self._brake = brake
        self.credit = 0.0
        self._time = now
        self._part = period / 60.0
        self._parts: dict[int, float] = {}

    def accrue(self, now: float) -> None:
        """Let time pass: the budget grows, up to what may be saved."""
        elapsed = max(0.0, now - self._time)
        self._time = max(self._time, now)
        self.credit = min(self.limit * _MAX_CREDIT, self.credit + self.limit * elapsed / self.period)

    def spend(self, usd: float, now: float) -> None:
        """Record a cost."""
        self.credit -= usd
        part = int(now // self._part)
        self._parts[part] = self._parts.get(part, 0.0) + usd

    def sum_spent(self, now: float) -> float:
        """The amount spent within the last period."""
        first = int(now // self._part) - 60
        for part in [part for part in self._parts if part < first]:
            del self._parts[part]
        return sum(self._parts.values())

    @property
    def allowed_per_second(self) -> float:
        """US dollars per second that may be spent from now on; never 0."""
        # Not 0 at the limit: a rate of 0 has no weight 1 / rate, and what is not sampled at all cannot be estimated.
        pace = self.limit / self.period
        horizon = _HORIZON[self.period] * (_DEBT_SPAN if self.credit < 0 else 1.0)
        left = self._brake * self.limit - self.sum_spent(self._time)
        return max(_MIN_PACE * pace, min(pace + self.credit / horizon, left / (_BRAKE_SPAN * self.period)))

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        parts = [[part, usd] for part, usd in self._parts.items()]
        return {"period": self.period, "credit": self.credit, "time": self._time, "parts": parts}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from what `to_json` gave."""
        self.credit, self._time = saved["credit"], saved["time"]
        self._parts = {part: usd for part, usd in saved["parts"]}  # noqa: C416 - pairs are lists in JSON
