"""What the page shows beside the logs. Each part of the service that has something to show gives a function for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert that fires now. `since` is in seconds since the epoch; `evaluator` None means the whole monitor."""

    name: str
    severity: Literal["page", "ticket", "info"] = "page"
    monitor: str | None = None
    evaluator: str | None = None
    summary: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Money that may be spent in any `period` (hour or day), and that was in the last. `monitor` None means all."""

    monitor: str | None = None
    period: str
    limit_usd: float
    spent_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Records that could not be processed, by stage and reason, since the start."""

    stage: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What a monitor did with turns since the start, by outcome; the monitor "" counts those that none watches."""

    monitor: str
    counts: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Functions that give what is to be shown now; None where this process has no such thing."""

    alerts: Callable[[], Sequence[Alert]] | None = None
    budgets: Callable[[], Sequence[Budget]] | None = None
    dead_letters: Callable[[], Sequence[DeadLetters]] | None = None
    traffic: Callable[[], Sequence[Traffic]] | None = None
