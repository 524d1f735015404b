"""What a budget leaves of the configured sampling rates, at a position of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Share(NamedTuple):
    """What is left of a monitor's rates, in (0, 1], and whether its cheaper judges are asked."""

    factor: float = 1.0
    fallback: bool = False


WHOLE = Share()


@dataclass(frozen=True, slots=True)
class Rates:
    """The shares of the monitors that have a budget; all others have all of theirs. Never changed, so it is shared."""

    by_monitor: Mapping[str, Share] = field(default_factory=dict[str, Share])

    def of(self, monitor: str) -> Share:
        """A monitor's share."""
        return self.by_monitor.get(monitor, WHOLE)

    def plain(self) -> dict[str, Any]:
        """As JSON: a number, negative where the cheaper judges are asked."""
        return {name: -share.factor if share.fallback else share.factor for name, share in self.by_monitor.items()}

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Rates:
        """Read what `plain` gave."""
        return cls({name: Share(abs(value), value < 0) for name, value in plain.items()})


FULL = Rates()
"""The rates as they are configured."""
