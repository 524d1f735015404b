"""The demand: what it would cost to judge all of the recent traffic, and the share of it that a budget allows."""

import math

STEP = 60.0
"""Seconds for which a rate holds once traffic is known."""

FLOOR = 0.002
"""The lowest factor: a judged turn weighs 1 / probability, and a few heavy turns make a mean worthless."""

EARLY = 10.0
"""Seconds after which a rate may be decided again if the traffic has jumped."""

_JUMP = 3.0  # standard deviations

_DECAY = 0.8  # of the estimate of the traffic, per minute


class Demand:
    """Evaluations per second that would be made without a budget, estimated from the recent past."""

    def __init__(self) -> None:
        self.per_second: float | None = None
        self.units = 0.0
        """The sum of the costs since the last update."""
        self._squares = 0.0

    def add(self, units: float) -> None:
        """A subject came that would be judged with this probability."""
        self.units += units
        self._squares += units * units

    def has_jumped(self, seconds: float) -> bool:
        """Whether more came in the `seconds` since the last update than chance explains."""
        chance = _JUMP * math.sqrt(self._squares)
        return self.per_second is not None and self.units - self.per_second * seconds > chance

    def update(self, seconds: float) -> None:
        """Update the estimate after `seconds`. A jump is believed at once, all other changes gradually."""
        if seconds <= 0:
            return
        jump = seconds >= EARLY and self.has_jumped(seconds)  # of a few seconds, one batch would be a jump
        now, self.units, self._squares = self.units / seconds, 0.0, 0.0
        if self.per_second is None or jump:
            self.per_second = now
        else:
            decay = _DECAY ** (seconds / STEP)
            self.per_second = decay * self.per_second + (1 - decay) * now


def rate_factor(allowed: float, demand_usd: float) -> float:
    """The factor on the rates where `allowed` US dollars per second meet a demand of `demand_usd`.

    Rounded to six digits, as it is written down.
    """
    return 1.0 if demand_usd <= allowed else round_to_digits(max(FLOOR, allowed / demand_usd))


def round_to_digits(value: float, digits: int = 6) -> float:
    """A number above 0, rounded to `digits` significant digits."""
    return round(value, digits - 1 - math.floor(math.log10(value)))
