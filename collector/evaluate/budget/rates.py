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
"""That of a monitor whose rate is planned, before the first plan."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The reductions of monitors with a budget or a planned rate; no other is reduced. Immutable, so it is shared."""

    by_monitor: Mapping[str, RateReduction] = field(default_factory=dict[str, RateReduction])

    def of(self, monitor: str) -> RateReduction:
        """A monitor's reduction."""
        return self.by_monitor.get(monitor, UNREDUCED)

    def to_json(self) -> dict[str, Any]:
        """As JSON: the factor, negative where the fallback judges are used."""
        return {name: -share.factor if share.fallback else share.factor for name, share in self.by_monitor.items()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Rates":
        """Read what `to_json` gave."""
        return cls({name: RateReduction(abs(value), value < 0) for name, value in plain.items()})


FULL_RATES = Rates()
"""The rates as they are configured."""
