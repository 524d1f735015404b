"""Reductions of the configured sampling rates by budgets and plans, as they apply from an offset of the log on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class RateReduction(NamedTuple):
    """The factor on a monitor's rates, in (0, 1], and whether its fallback judges are used."""

    factor: float = 1.0
    fallback: bool = False


UNREDUCED = RateReduction()
UNPLANNED = RateReduction(0.1)
"""The reduction of a monitor with `sample: auto` before its first rate is decided."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The reductions of monitors with a budget or `sample: auto`; no other is reduced. Immutable, so it is shared."""

    by_monitor: Mapping[str, RateReduction] = field(default_factory=dict[str, RateReduction])

    def of(self, monitor: str) -> RateReduction:
        """A monitor's reduction."""
        return self.by_monitor.get(monitor, UNREDUCED)

    def to_json(self) -> dict[str, Any]:
        """The rates as JSON: for each monitor its factor, negative if its fallback judges are used."""
        return {name: -share.factor if share.fallback else share.factor for name, share in self.by_monitor.items()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Rates":
        """Read the result of `to_json`."""
        return cls({name: RateReduction(abs(value), value < 0) for name, value in plain.items()})


FULL_RATES = Rates()
"""The configured rates, without reductions."""
