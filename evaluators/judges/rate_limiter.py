"""The rate limit of an endpoint: requests and tokens per minute, requests at once, and pauses. It has no clock.

Requests and tokens flow back evenly, a minute's worth at most. How many run at once grows by one when a whole round of
them went well, and halves when the endpoint says that it is too much (AIMD), so that many processes share it.
A time that the endpoint names (`Retry-After`, or the reset of a limit that has nothing left) is waited for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(ms|[smhd])")
_MINUTE = 60.0
_LONGEST_PAUSE = 300.0


@dataclass(slots=True)
class TokenBucket:
    """An allowance per minute that flows back evenly. It may fall below 0, where more was used than thought."""

    per_minute: float
    left: float = field(init=False)
    time: float | None = None

    def __post_init__(self) -> None:
        self.left = self.per_minute

    def wait(self, amount: float, now: float) -> float:
        """Seconds until so much may be used; more than a minute's allowance may be when that is there."""
        if self.time is not None:
            self.left = min(self.per_minute, self.left + (now - self.time) * self.per_minute / _MINUTE)
        self.time = now
        return max(0.0, (min(amount, self.per_minute) - self.left) * _MINUTE / self.per_minute)

    def take(self, amount: float) -> None:
        """Use it; a negative amount gives back."""
        self.left -= amount


class RateLimiter:
    """The state of one endpoint. `most` bounds how many run at once; None for a rate is no limit."""

    def __init__(
        self, max_concurrency: int, *, requests_per_minute: float | None = None, tokens_per_minute: float | None = None
    ) -> None:
        self.max_concurrency = max_concurrency
        self.limit = float(max_concurrency)
        """How many may run at once now."""
        self.running = 0
        self.paused_until = 0.0
        self._requests = TokenBucket(requests_per_minute) if requests_per_minute else None
        self._tokens = TokenBucket(tokens_per_minute) if tokens_per_minute else None
        self._shrunk_at = float("-inf")

    @property
    def full(self) -> bool:
        """Whether as many run as may."""
        return self.running >= int(self.limit)

    def wait(self, tokens: float, now: float) -> float:
        """Seconds until a request of about so many tokens may go out."""
        waits = [self.paused_until - now]
        waits += [self._requests.wait(1.0, now)] if self._requests else []
        waits += [self._tokens.wait(tokens, now)] if self._tokens else []
        return max(0.0, *waits)

    def start(self, tokens: float) -> None:
        """A request goes out."""
        self.running += 1
        if self._requests:
            self._requests.take(1.0)
        if self._tokens:
            self._tokens.take(tokens)

    def finish(self, estimated: float, used: float | None) -> None:
        """A request is over; the guess is put right where it is known what was used."""
        self.running -= 1
        if self._tokens and used is not None:
            self._tokens.take(used - estimated)

    def record_success(self) -> None:
        """One more may run when a round of them went well."""
        self.limit = min(float(self.max_concurrency), self.limit + 1.0 / self.limit)

    def record_rejection(self, retry_after: float | None, now: float) -> None:
        """The endpoint refused. Those that were on their way together halve the limit once, not once each."""
        if now - self._shrunk_at >= 1.0:
            self.limit = max(1.0, self.limit / 2)
            self._shrunk_at = now
        if retry_after is not None:
            self.pause(retry_after, now)

    def pause(self, seconds: float, now: float) -> None:
        """Nothing goes out for so long."""
        self.paused_until = max(self.paused_until, now + min(seconds, _LONGEST_PAUSE))

    def observe_headers(self, headers: Mapping[str, str], now: float) -> None:
        """Obey what a response says about what is left: `x-ratelimit-remaining-…` and `x-ratelimit-reset-…`."""
        for what in ("requests", "tokens"):
            left = headers.get(f"x-ratelimit-remaining-{what}", "").strip()
            reset = duration(headers.get(f"x-ratelimit-reset-{what}"))
            if left == "0" and reset is not None:
                self.pause(reset, now)


def duration(text: str | None) -> float | None:
    """Seconds of a duration as endpoints write them: `20ms`, `6m0s`, `1.5`; None if it is none."""
    text = (text or "").strip()
    if not text:
        return None
    if text.replace(".", "", 1).isdigit():
        return float(text)
    if _PART.sub("", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
