"""Sampling draws by hash, so that every replica and every replay decides alike; and the rates of earlier samplers.

A trace state tells the rate of earlier samplers. It is believed only from senders that the configuration names: it
travels with the request that began a trace, and most applications accept the one that their own clients send. So
anybody who can reach an application can write it, even if the sender of the spans needs a token, and one invented
weight could decide a window's mean.
"""

import hmac
import re
from dataclasses import dataclass
from functools import lru_cache

from collector.records.recorded_turn import TurnFields
from collector.records.tenants import tenant_of
from evaluators.texts.draw import draw as hash_draw

_THRESHOLD = re.compile(r"(?:^|;)th:([0-9a-f]{1,14})(?:;|$)")
_ALL = 1 << 56
MIN_UPSTREAM = 1e-4
"""The lowest probability that an earlier sampler is believed to have had. A trace state may come from anywhere, and one
invented weight of 10¹⁶ would outweigh everything else.
"""


@lru_cache(maxsize=16)  # a turn is drawn for each evaluator, more than once, with few different salts
def draw(salt: str, unit: str) -> float:
    """A number in [0, 1) that depends only on salt and unit, and is uniform over units.

    A unit is in the sample of rate p if its draw is below p, so the sample of a lower rate is part of the sample of a
    higher one. `unit` is a conversation id, or a trace id without one. The draw has 53 bits, all that a float can hold.
    """
    return hash_draw(unit, salt=salt)


@lru_cache(maxsize=64)
def keyed_salt(key: str, salt: str) -> str:
    """A salt that only a holder of the key can compute; without a key, the given salt."""
    return hmac.digest(key.encode(), salt.encode(), "sha256").hex() if key else salt


def upstream_of(trace_state: str | None) -> float | None:
    """The probability with which earlier samplers let a trace through, in [MIN_UPSTREAM, 1]; None if unknown.

    Source: OpenTelemetry's probability sampling, W3C tracestate `ot=th:T`: a trace passed if its random number of 56
    bits was not below T (hex digits, trailing zeros left out). Without T the rate is unknown.
    """
    if not trace_state:
        return None
    for member in trace_state.split(","):
        vendor, _, value = member.strip().partition("=")
        if vendor == "ot":
            match = _THRESHOLD.search(value)
            probability = (_ALL - int(match[1].ljust(14, "0"), 16)) / _ALL if match else 0.0
            return probability if probability >= MIN_UPSTREAM else None
    return None


@dataclass(frozen=True, slots=True)
class UpstreamTrust:
    """The trust in trace states: of all turns, or of the turns of these tenants."""

    everybody: bool = False
    tenants: frozenset[str] = frozenset()

    def upstream(self, turn: TurnFields) -> float | None:
        """The probability with which earlier samplers let a turn through; None if unknown or not trusted."""
        return upstream_of(turn.trace_state) if self._believes(turn) else None

    def ignores(self, turn: TurnFields) -> bool:
        """Whether the turn names a rate below 1 that is not trusted."""
        return bool(turn.trace_state) and not self._believes(turn) and (upstream_of(turn.trace_state) or 1.0) < 1.0

    def _believes(self, turn: TurnFields) -> bool:
        return self.everybody or (bool(self.tenants) and tenant_of(turn) in self.tenants)
