"""Prices and costs of questions to a judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from evaluators.errors import JudgeError
from evaluators.results import Usage


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens; what is cached and what is written into a cache costs as any input if None."""

    input: float | None
    output: float | None
    cached_input: float | None = None
    cache_write: float | None = None

    def cost(self, usage: Usage) -> float | None:
        """What a request costs, in US dollars; None without prices."""
        if self.input is None or self.output is None:
            return None
        cached = min(usage.cached_input_tokens or 0, usage.input_tokens)
        written = min(usage.cache_write_tokens or 0, usage.input_tokens - cached)
        cached_price = self.input if self.cached_input is None else self.cached_input
        write_price = self.input if self.cache_write is None else self.cache_write
        tokens = (usage.input_tokens - cached - written) * self.input + usage.output_tokens * self.output
        return (tokens + cached * cached_price + written * write_price) / 1e6


class Billed(Protocol):
    """What one request brought, as far as it is billed."""

    @property
    def model(self) -> str | None:
        """Who answered."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """Which build of it."""
        ...

    @property
    def usage(self) -> Usage:
        """What it is billed for."""
        ...


@dataclass(slots=True)
class CostTracker:
    """What one question has cost so far, over all its requests, and who answered last."""

    prices: Prices
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    model: str | None = None
    fingerprint: str | None = None

    def add(self, completion: Billed, price_share: float = 1.0) -> None:
        """Add a request, of which a share of the list price is paid."""
        self.usage = self.usage + completion.usage
        cost = self.prices.cost(completion.usage)
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost * price_share
        self.model = completion.model
        self.fingerprint = completion.fingerprint

    def attach(self, error: JudgeError) -> JudgeError:
        """The error, with the bill on it."""
        error.usage, error.cost_usd = self.usage, self.cost_usd
        return error
