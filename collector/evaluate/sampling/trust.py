"""The senders that are trusted to say what earlier samplers left out.

Why nobody's, unless configured: a trace state travels with the request that began a trace, and most applications take
over the one that their own clients send. So whoever can reach an application writes it, even where the sender of the
spans has a token; and one invented weight decides what a window's mean is.
"""

from __future__ import annotations

from dataclasses import dataclass

from collector.evaluate.sampling.draw import upstream_of
from collector.records.recorded_turn import TurnFields
from collector.records.tenants import tenant_of


@dataclass(frozen=True, slots=True)
class UpstreamTrust:
    """The trusted trace state: of all turns, or of the turns of these tenants."""

    everybody: bool = False
    tenants: frozenset[str] = frozenset()

    def upstream(self, turn: TurnFields) -> float | None:
        """The probability with which samplers before us let a turn through; None if unknown, or not to be believed."""
        return upstream_of(turn.trace_state) if self._believes(turn) else None

    def ignores(self, turn: TurnFields) -> bool:
        """Whether the turn names a rate below 1 that is not believed."""
        return bool(turn.trace_state) and not self._believes(turn) and (upstream_of(turn.trace_state) or 1.0) < 1.0

    def _believes(self, turn: TurnFields) -> bool:
        return self.everybody or (bool(self.tenants) and tenant_of(turn) in self.tenants)
