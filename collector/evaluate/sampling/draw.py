"""Sampling draws by hash, so that every replica and every replay decides alike, and what samplers before left out.

A trace state says what earlier samplers left out, and is believed only of senders that the configuration names. It
travels with the request that began a trace, and most applications take over the one that their own clients send. So
whoever can reach an application writes it, even where the sender of the spans has a token; and one invented weight
decides what a window's mean is.
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
"""The lowest probability that a sampler before us is believed to have had. A trace state may come with a request from
anywhere, and one invented weight of 10¹⁶ would swallow all that is counted after it.
"""


@lru_cache(maxsize=16)  # a turn is drawn for by each evaluator, and more than once, with few salts
def draw(salt: str, unit: str) -> float:
    """A number in [0, 1) that depends on nothing but salt and unit, evenly spread over units.

    A unit is in the sample of rate p if its draw is below p; so the sample of a lower rate is part of that of a higher.
    `unit` is a conversation id, or a trace id where there is none. The draw has 53 bits, all that a float can hold.
    """
    return hash_draw(unit, salt=salt)


@lru_cache(maxsize=64)
def keyed_salt(key: str, salt: str) -> str:
    """The salt of a draw that only a holder of the key can compute; without a key the salt as it is."""
    return hmac.digest(key.encode(), salt.encode(), "sha256").hex() if key else salt


def upstream_of(trace_state: str | None) -> float | None:
    """The probability with which samplers before us let a trace through, in [MIN_UPSTREAM, 1]; None if they do not say.

    Source: OpenTelemetry's probability sampling, W3C tracestate `ot=th:T`: what was let through has a random number of
    56 bits not below T, hex digits with trailing zeros left out. A sampler that writes none may have had any rate.
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
